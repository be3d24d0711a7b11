"""The entry of a CUDA kernel: constants for settings and shapes, local arrays for scratch, a thread for a window."""

from __future__ import annotations

import ast
from typing import Any

from ucsearch.engine.arrays import ISet

__all__ = ["HEAP", "Paths", "constants", "expression", "make_entry"]

HEAP = "uc_heap"  # what allocates takes from it
LOOKS = 2_048  # nodes that a thread spends on telling a dead end from an exhausted search


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def constants(tree: ast.Module) -> dict[str, Any]:
    """MEMBERS, N and the like."""
    found: dict[str, Any] = {"max": max, "min": min, "uc_max": max, "uc_min": min, "int": int}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = node.value.value
    return found


class _Shaped:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def make_entry(
    panel: ast.FunctionDef,
    known: dict[str, Any],
    iset: list[int],
    shapes: dict[str, tuple[int, ...]],
    heap: int,
    most: int | None,
) -> None:
    """Constants for whole-number settings and shapes, local arrays for scratch, a thread for a window."""
    iset[ISet.CAP] = min(iset[ISet.CAP], LOOKS)
    _Settings(iset, most).visit(panel)
    known = {**known, **{name: _Shaped(shape) for name, shape in shapes.items()}}
    body: list[ast.stmt] = []
    for statement in panel.body:
        if isinstance(statement, ast.For) and ast.unparse(statement.iter) == "range(lo, hi)":
            statement.iter = expression("range(lo + cuda.grid(1), hi, cuda.gridsize(1))")
            fresh = "uc_fresh(w, out_i, paths)\nuc_heap_top[0] = 0"
            statement.body[:0] = ast.parse(fresh).body
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            body += _assigned(statement, statement.targets[0].id, known)
            continue
        body.append(statement)
    own = f"uc_heap_room = cuda.local.array({max(heap, 1)}, np.float64)\nuc_heap_top = cuda.local.array(1, np.int64)\n"
    panel.body = [*ast.parse(own + f"{HEAP} = (uc_heap_room, uc_heap_top)").body, *body]


def _assigned(statement: ast.Assign, name: str, known: dict[str, Any]) -> list[ast.stmt]:
    value = statement.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("np.empty", "np.zeros"):
        shape = _value(value.args[0], known)
        dtype = ast.unparse(value.args[1]) if len(value.args) > 1 else "np.float64"
        lines = [f"{name} = cuda.local.array({shape!r}, {dtype})"]
        if ast.unparse(value.func) == "np.zeros":
            sizes = shape if isinstance(shape, tuple) else (shape,)
            for axis, size in enumerate(sizes):
                lines.append("    " * axis + f"for uc_{axis} in range({size}):")
            lines.append("    " * len(sizes) + f"{name}[{', '.join(f'uc_{i}' for i in range(len(sizes)))}] = 0")
        return ast.parse("\n".join(lines)).body
    try:
        found = _value(value, known)
    except Exception:  # not known before the run: a risk, a view of an array
        return [statement]
    if isinstance(found, bool | int):
        known[name] = found
        statement.value = ast.Constant(found)
    return [statement]


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    return eval(ast.unparse(node), {"__builtins__": {}}, known)


class Paths(ast.NodeTransformer):
    """Whether paths are kept is known beforehand: a device has no empty arrays."""

    def __init__(self, kept: bool) -> None:
        self.kept = kept

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return ast.Constant(int(self.kept)) if ast.unparse(node) == "paths.shape[0]" else node


class _Settings(ast.NodeTransformer):
    def __init__(self, iset: list[int], most: int | None) -> None:
        self.iset, self.most = iset, most

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.value) == "iset" and isinstance(node.slice, ast.Constant):
            return ast.Constant(int(self.iset[int(node.slice.value)]))  # type: ignore[arg-type]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if self.most is None or ast.unparse(node.target) != "expansions":
            return node
        return [node, *ast.parse(f"if expansions > {self.most}:\n    raise MemoryError('no nodes left')").body]
