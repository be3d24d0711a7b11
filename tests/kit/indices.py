"""Kernel texts that note every index below 0 in functions of ours, where machine code does not look for one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.kit import unjitted

__all__ = ["noted_indices"]

_CHECKED = ("uc_user", "uc_user_inline")  # functions of users, whose indices numba looks at


class _Noting(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        names = [d.id for d in node.decorator_list if isinstance(d, ast.Name)]
        return node if not names or names[0] in _CHECKED else self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        index = node.slice
        if isinstance(index, ast.Tuple):
            index.elts = [self._noted(x) for x in index.elts]
        else:
            node.slice = self._noted(index)
        return node

    def _noted(self, index: ast.expr) -> ast.expr:
        if isinstance(index, ast.Slice | ast.Constant | ast.UnaryOp):  # known as it stands: tuples of a task may use it
            return index
        return ast.Call(ast.Name("uc_noted", ast.Load()), [index], [])


@contextmanager
def noted_indices() -> Iterator[list[str]]:
    """Within, kernels run as plain Python (see unjitted.py); gives the indices below 0 that were met, and where."""
    below: list[str] = []
    made = unjitted._module

    def module(text: str) -> ModuleType:
        def noted(index: Any) -> Any:
            if isinstance(index, int | np.integer) and index < 0:
                frame = sys._getframe(1)
                below.append(f"{index} in line {frame.f_lineno} of {frame.f_code.co_name}")
            return index

        tree = ast.fix_missing_locations(_Noting().visit(ast.parse(text)))
        found = made(ast.unparse(tree))
        vars(found)["uc_noted"] = noted
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unjitted, "_module", module)
        patch.setattr(unjitted, "_texts", {})
        with unjitted.plain_kernels():
            yield below
