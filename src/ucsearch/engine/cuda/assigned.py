"""Names of a rule that may be read before they have a value: Python raises there, a device goes on with anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["unassigned"]

_Known = frozenset[str] | None  # names that have a value; None where no way leads


def unassigned(function: ast.FunctionDef) -> Iterator[str]:
    """Names that are given a value on some ways through the function only, and read after those that give none."""
    given = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    arguments = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    found: list[str] = []
    _Ways(given, found).through(function.body, frozenset(arguments))
    yield from found


class _Ways:
    def __init__(self, given: set[str], found: list[str]) -> None:
        self.given, self.found = given, found

    def through(self, body: list[ast.stmt], known: _Known) -> _Known:
        for statement in body:
            if known is None:
                break
            known = self._after(statement, known)
        return known

    def _after(self, statement: ast.stmt, known: frozenset[str]) -> _Known:
        match statement:
            case ast.If():
                self._read(statement.test, known)
                ways = self.through(statement.body, known), self.through(statement.orelse, known)
                left = [way for way in ways if way is not None]
                return frozenset.intersection(*left) if left else None
            case ast.For() | ast.While():
                head = statement.iter if isinstance(statement, ast.For) else statement.test
                self._read(head, known)
                target = _stored(statement.target) if isinstance(statement, ast.For) else frozenset()
                self.through(statement.body, known | target)
                self.through(statement.orelse, known)
                return known  # perhaps not once, and perhaps left in the middle
        self._read(statement, known)
        if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return None
        return known | _stored(statement)

    def _read(self, node: ast.AST, known: frozenset[str]) -> None:
        inside: set[str] = set()  # of comprehensions
        for part in ast.walk(node):
            if isinstance(part, ast.comprehension):
                inside |= _stored(part.target)
        for part in ast.walk(node):
            read = isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
            name = part.target if isinstance(part, ast.AugAssign) else part if read else None
            if isinstance(name, ast.Name) and name.id in self.given - inside and name.id not in known:
                self.found.append(name.id)


def _stored(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
