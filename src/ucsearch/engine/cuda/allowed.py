"""What a task's functions may do on a GPU. Equal bytes are promised for + - * /, comparisons, sqrt, floor, ceil, abs,
min and max; a task that uses anything else is refused by name, before any work."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ucsearch.engine.cuda.assigned import unassigned

__all__ = ["NotOnDevice", "imported_names", "refuse"]


class NotOnDevice(Exception):
    """This kernel cannot run on the GPU; the message says what stands in the way."""


_FUNCTIONS = frozenset({"sqrt", "floor", "ceil", "fabs", "isfinite", "isnan", "isinf", "abs"})
_ALLOCATIONS = frozenset({"empty", "zeros", "ones"})
_BUILTINS = frozenset({"abs", "bool", "enumerate", "float", "int", "len", "max", "min", "range", "tuple", "zip"})
_OPERATORS: dict[type[ast.operator], str] = {ast.Pow: "**", ast.Mod: "%", ast.FloorDiv: "//", ast.MatMult: "@"}
_DTYPES = frozenset({"float64", "int64"})


def imported_names(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Name in the text -> (module, attribute); the attribute is "" for a module itself."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name] = (alias.name, "")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = (node.module or "", alias.name)
    return found


def called(node: ast.Call, imports: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """(module, name) of what is called; module "" for a function of the text or a builtin, "?" for a method."""
    target = node.func
    if isinstance(target, ast.Name):
        return imports.get(target.id, ("", target.id))
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in imports:
        return imports[target.value.id][0], target.attr
    return "?", ast.unparse(target)


def refuse(tree: ast.Module, wraps: tuple[str, ...]) -> None:
    """Raise `NotOnDevice` for the first thing in a rule (decorated by one of `wraps`) that may differ on a GPU."""
    imports = imported_names(tree)
    own = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} | {
        t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    }
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and any(ast.unparse(d) in wraps for d in function.decorator_list):
            for what in _found(function, imports, own):
                name = function.name.removeprefix("usr_").removeprefix("user_")
                raise NotOnDevice(f"{name} uses {what}, which may differ in its last digits or not exist there")
            for what in unassigned(function):
                name = function.name.removeprefix("usr_").removeprefix("user_")
                raise NotOnDevice(f"{name} reads {what.removeprefix('usr_')}, which may have no value yet")


def _found(function: ast.FunctionDef, imports: dict[str, tuple[str, str]], own: set[str]) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and _is_whole(node.right):
            continue  # whole numbers are divided alike
        if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
            yield f"the operator {_OPERATORS[type(node.op)]}"
        if isinstance(node, ast.Try):
            yield "try"
        if isinstance(node, ast.Compare) and not isinstance(node.comparators[-1], ast.Constant):  # None, as a rule
            yield from ("is" for op in node.ops if isinstance(op, ast.Is | ast.IsNot))
        if isinstance(node, ast.Lambda | ast.FunctionDef) and node is not function:
            yield "a function inside"
        if not isinstance(node, ast.Call):
            continue
        module, name = called(node, imports)
        if module == "" and name not in own and name not in _BUILTINS:
            yield f"{name}()"
        elif module == "?":
            yield f"the method {name}()"
        elif module and name in _ALLOCATIONS and module == "numpy":
            given = [*node.args[1:], *(k.value for k in node.keywords if k.arg == "dtype")]
            if any(_dtype(x) not in _DTYPES for x in given) or len(given) < len(node.args) - 1 + len(node.keywords):
                yield f"{name}() of another type than float64 or int64"
        elif module and name not in _FUNCTIONS:
            yield f"{module}.{name}()"


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0


def _dtype(node: ast.expr) -> str:
    text = ast.unparse(node).rpartition(".")[2]
    return {"float": "float64", "int": "int64"}.get(text, text)
