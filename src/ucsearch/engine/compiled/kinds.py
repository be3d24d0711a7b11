"""What the text of a rule says about the kinds of its values, as far as it says so: truth values that are added up, and
whole numbers that are raised to a power. Both are other numbers in a kernel."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["adds_truths", "raises_wholes"]

_TRUTHS = ("bool_", "isfinite", "isnan", "isinf", "any", "all")  # functions of NumPy
_WHOLES = ("int", "int64", "round", "len", "floor", "ceil", "trunc")
_KEEP_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)


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


def raises_wholes(function: types.FunctionType, held: Mapping[str, Any]) -> bool:
    """Whether a whole number is raised to a whole power that is not written out: 10 ** -n is no whole number in Python,
    2 ** 64 has more than 64 bits."""
    text = _Text(function, held)
    for node in text.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and text.is_whole(node.left):
            written = isinstance(node.right, ast.Constant)
            if not written and text.is_whole(node.right):
                return True
    return False


class _Text:
    """The nodes of a function's text, and its local names by what they were given; none where there is no text. What is
    missed is compiled."""

    def __init__(self, function: types.FunctionType, held: Mapping[str, Any]) -> None:
        self.held, self.nodes = held, list[ast.AST]()
        self._truths: set[str] = set()
        self._wholes: set[str] = set()
        try:
            self.nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
        except (OSError, TypeError, SyntaxError):
            return
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                self._give(node.targets, node.value)
            elif isinstance(node, ast.NamedExpr | ast.AnnAssign):
                self._give([node.target], node.value)
            elif isinstance(node, ast.For) and _called(node.iter) in ("range", "enumerate"):
                first = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
                self._wholes |= {first.id} if isinstance(first, ast.Name) else set()

    def _give(self, targets: list[Any], value: ast.AST | None) -> None:
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        self._truths |= names if self.is_truth(value) else set()
        self._wholes |= names if self.is_whole(value) else set()

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

    def is_whole(self, node: ast.AST | None) -> bool:
        match node:
            case ast.Constant():
                return type(node.value) is int
            case ast.Name():
                return node.id in self._wholes or type(self.held.get(node.id)) in (int, np.int64)
            case ast.UnaryOp():
                return self.is_whole(node.operand)
            case ast.BinOp():
                return isinstance(node.op, _KEEP_WHOLE) and self.is_whole(node.left) and self.is_whole(node.right)
            case ast.Call():
                return _called(node) in _WHOLES and len(node.args) == 1
        return False


def _called(node: ast.AST) -> str:
    """Name of what is called, without its module."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.id if isinstance(node.func, ast.Name) else str(getattr(node.func, "attr", ""))
