"""Kernels that note every index below 0 in functions of ours, where machine code does not look for one."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ucsearch.engine.kernels
from tests.kit.unjitted import plain_kernels
from ucsearch.engine.compiled import engine

__all__ = ["noted_indices", "noting"]


class _Noting(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.body = [self.generic_visit(part) for part in node.body]  # what is annotated is no index
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        index = node.slice
        if isinstance(index, ast.Tuple):
            index.elts = [self._noted(x) for x in index.elts]
        else:
            node.slice = self._noted(index)
        return node

    def _noted(self, index: ast.expr) -> ast.expr:
        if isinstance(index, ast.Slice | ast.Constant | ast.UnaryOp):  # known as it stands
            return index
        return ast.Call(ast.Name("noted_index", ast.Load()), [index], [])


def noting(source: str, space: dict[str, Any], below: list[str]) -> None:
    """Runs a module's source in its space, with functions that note indices below 0."""

    def noted_index(index: Any) -> Any:
        if isinstance(index, int | np.integer) and index < 0:
            frame = sys._getframe(1)
            below.append(f"{index} in line {frame.f_lineno} of {frame.f_code.co_name}")
        return index

    tree = ast.parse(source)
    tree.body = [_Noting().visit(part) if isinstance(part, ast.FunctionDef) else part for part in tree.body]
    space["noted_index"] = noted_index
    exec(compile(ast.fix_missing_locations(tree), "<noting>", "exec", dont_inherit=True), space)


@contextmanager
def noted_indices() -> Iterator[list[str]]:
    """Within, kernels run as plain Python (see unjitted.py); gives the indices below 0 that were met, and where."""
    below: list[str] = []
    package = ucsearch.engine.kernels
    modules: list[ModuleType] = [
        importlib.import_module(found.name) for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    kept = [(module, dict(vars(module))) for module in modules]
    with plain_kernels(), pytest.MonkeyPatch.context() as patch:
        key_of = engine._key
        patch.setattr(engine, "_key", lambda layout, settings: (*key_of(layout, settings), id(below)))
        try:
            for module in modules:
                noting(inspect.getsource(module), vars(module), below)
            yield below
        finally:
            for module, space in kept:
                vars(module).clear()
                vars(module).update(space)
