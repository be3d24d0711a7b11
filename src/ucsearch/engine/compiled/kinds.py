"""What the text of a rule says about the kinds of its values, as far as it says so: truth values that are added up,
which are other numbers in a kernel."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from ucsearch.signatures import parsed

__all__ = ["adds_truths"]

_TRUTHS = ("bool_", "isfinite", "isnan", "isinf", "any", "all")  # functions of NumPy


def adds_truths(function: types.FunctionType, held: Mapping[str, Any]) -> bool:
    """Whether truth values are added, subtracted or negated. `held` is what the function captures."""
    text = _Text(function, held)
    for node in text.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            found = text.is_truth(node.left) and text.is_truth(node.right)
        elif isinstance(node, ast.AugAssign):
            found = text.is_truth(node.target) and text.is_truth(node.value)
        else:
            negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert)
            found = negated and text.is_truth(node.operand)  # type: ignore[attr-defined]
        if found:
            return True
    return False


class _Text:
    """The nodes of a function's text, and its local names by what they were given; none where there is no text. What is
    missed is compiled."""

    def __init__(self, function: types.FunctionType, held: Mapping[str, Any]) -> None:
        self.held, self.nodes = held, list[ast.AST]()
        self._truths: set[str] = set()
        try:
            self.nodes = list(ast.walk(parsed(textwrap.dedent(inspect.getsource(function)))))
        except (OSError, TypeError, SyntaxError):
            return
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                self._give(node.targets, node.value)
            elif isinstance(node, ast.NamedExpr | ast.AnnAssign):
                self._give([node.target], node.value)

    def _give(self, targets: list[Any], value: ast.AST | None) -> None:
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        self._truths |= names if self.is_truth(value) else set()

    def is_truth(self, node: ast.AST | None) -> bool:
        match node:
            case ast.Name():
                own = self.held.get(node.id)
                of_numpy = isinstance(own, np.bool_) or (isinstance(own, np.ndarray) and own.dtype.kind == "b")
                return node.id in self._truths or of_numpy
            case ast.Subscript():
                return self.is_truth(node.value)
            case ast.BoolOp():
                return any(map(self.is_truth, node.values))
            case ast.IfExp():
                return self.is_truth(node.body) or self.is_truth(node.orelse)
            case ast.BinOp():
                return self.is_truth(node.left) and self.is_truth(node.right)
            case ast.Call():
                return _called(node) in _TRUTHS
        return isinstance(node, ast.Compare)


def _called(node: ast.AST) -> str:
    """Name of what is called, without its module."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else str(getattr(node.func, "attr", ""))
