"""Turn the text of a compiled kernel into a CUDA kernel: the same statements in the same order, with these changes.

Scratch arrays get constant shapes (a kernel per depth, width, actions and members) and lie in a thread's own memory.
One thread does one window. What allocates takes from a small heap of the thread, which is handed down to it. min, max,
floor and ceil are spelled out, because the device's own treat NaN, signed zeros and huge numbers differently. Indices
in a user's functions are checked, and so is what Python refuses where a device goes on: a division by zero, the root of
less than nothing, whole numbers too large for a product of two to be exact; rules of the library's own tasks have
no such checks, as in the compiled engine. A thread that raises, or runs out of heap or of nodes, leaves its window
undone, and the CPU does it. The text imports nothing of ucsearch.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ucsearch.engine.cuda.allowed import NotOnDevice, called, imported_names, refuse
from ucsearch.engine.cuda.entry import HEAP, Paths, constants, expression, make_entry
from ucsearch.engine.cuda.heads import IMPORTS, MOST_WHOLE, PLAIN_IMPORTS, TOOLS

__all__ = ["BLOCK", "LOCAL_LIMIT", "device_text", "local_bytes", "measuring_text", "pool_numbers"]

BLOCK = 128  # threads
LOCAL_LIMIT = 128 * 1024  # bytes of scratch a thread may have
USER, OWN = "uc_user", "uc_own"  # how rules are marked: a user's, and those of the library's tasks
_POOL_ROWS, _POOL_SLOTS = 257, 512  # states that a thread's programme may hold; the CPU does windows with more


def measuring_text(body: str) -> str:
    """Plain Python with the same allocations, to see how much heap a window takes before any search."""
    return PLAIN_IMPORTS + TOOLS + ast.unparse(_rewritten(body))


def device_text(
    body: str,
    iset: Sequence[int],
    shapes: dict[str, tuple[int, ...]],
    heap: int,
    most: int | None,
    *,
    keep_paths: bool,
) -> str:
    """`body` as a CUDA module. `iset`: the whole-number settings; `shapes`: of the panel's arrays, of which the axes
    of actions and members count; `heap`: numbers; `most`: nodes after which a thread gives up, None for no such end."""
    tree = _rewritten(body)
    Paths(keep_paths).visit(tree)
    panel = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "uc_panel")
    make_entry(panel, constants(tree), list(iset), shapes, heap, most)
    if local_bytes(tree) > LOCAL_LIMIT:
        raise NotOnDevice(f"a thread would need {local_bytes(tree):,} bytes of scratch, more than {LOCAL_LIMIT:,}")
    tools = TOOLS.replace("paths.shape[0]", str(int(keep_paths)))
    return IMPORTS + tools + ast.unparse(ast.fix_missing_locations(tree))


def local_bytes(tree: ast.Module) -> int:
    """Of all local arrays (8 bytes a number)."""
    total = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "cuda.local.array":
            shape = ast.literal_eval(node.args[0])
            count = 1
            for x in shape if isinstance(shape, tuple) else (shape,):
                count *= x
            total += 8 * count
    return total


def _rewritten(body: str) -> ast.Module:
    tree = ast.parse(body)
    head = ast.parse(PLAIN_IMPORTS)
    refuse(ast.Module([*head.body, *tree.body], []), (USER, OWN))
    imports = imported_names(ast.Module([*head.body, *tree.body], []))
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    aliases = {
        t.id: n.value.id
        for n in tree.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name) and n.value.id in functions
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    taking = _taking(functions, aliases, imports)
    boxed = {name for name in taking if _gives(functions[name])} | {"uc_table"}
    named = {**aliases, **{f: f for f in functions}}
    takers = {name for name, f in named.items() if f in taking}
    boxes = {name for name, f in named.items() if f in boxed}
    for function in functions.values():
        user = any(ast.unparse(d) == USER for d in function.decorator_list)
        if user:
            _Guarded(imports).visit(function)
        _Calls(imports, takers, boxes, function.name == "uc_panel").visit(function)
        if user:
            _Checked().visit(function)
        if function.name in boxed:
            _Boxed().visit(function)
        if function.name in taking and function.name != "uc_panel":
            function.args.args.insert(0, ast.arg(HEAP))
        if function.name == "uc_new_room":
            _Smaller().visit(function)
        if function.name == "uc_tables":
            _Member().visit(function)
        if function.name == "uc_completable":
            _GivesUp().visit(function)
    return ast.fix_missing_locations(tree)


def _taking(
    functions: dict[str, ast.FunctionDef], aliases: dict[str, str], imports: dict[str, tuple[str, str]]
) -> set[str]:
    """Functions that allocate, by themselves or through what they call; the entry has its own way."""
    calls = {
        name: {called(c, imports) for c in ast.walk(f) if isinstance(c, ast.Call)} for name, f in functions.items()
    }
    found = {name for name, made in calls.items() if any(x in made for x in _ALLOCATED)}
    while True:
        more = {n for n, made in calls.items() if any(m == "" and aliases.get(c, c) in found for m, c in made)}
        if more <= found:
            return found - {"uc_panel"}
        found |= more - {"uc_panel"}


_SPELLED = {("math", "floor"): "uc_floor", ("math", "ceil"): "uc_ceil"}
_GUARDS = {
    ("math", "sqrt"): "uc_radicand",
    ("math", "floor"): "uc_whole",
    ("math", "ceil"): "uc_whole",
    ("", "int"): "uc_whole",
}
_ALLOCATED = (("numpy", "empty"), ("numpy", "zeros"), ("numpy", "ones"))


def _gives(function: ast.FunctionDef) -> bool:
    return any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(function))


class _Calls(ast.NodeTransformer):
    """Calls of what is spelled out here, and of functions that take from the heap or hand an array back in a tuple."""

    def __init__(self, imports: dict[str, tuple[str, str]], taking: set[str], boxed: set[str], entry: bool) -> None:
        self.imports, self.taking, self.boxed, self.entry = imports, taking, boxed, entry

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        module, name = called(node, self.imports)
        if module == "" and name in ("max", "min") and len(node.args) > 1:
            made: ast.expr = node.args[0]
            for other in node.args[1:]:
                made = ast.Call(ast.Name(f"uc_{name}", ast.Load()), [made, other], [])
            return made
        if (module, name) == ("numpy", "ascontiguousarray"):
            return node.args[0]
        if name in ("isfinite", "isnan", "isinf") and module == "numpy":
            node.func = expression(f"math.{name}")
        elif (module, name) in _SPELLED:
            node.func = ast.Name(_SPELLED[module, name], ast.Load())
        elif (module, name) in _ALLOCATED and not self.entry:
            return self._taken(node, name)
        elif module == "" and name in self.taking:
            node.args.insert(0, ast.Name(HEAP, ast.Load()))
        if module == "" and name in self.boxed:
            return ast.Subscript(node, ast.Constant(0), ast.Load())
        return node

    def _taken(self, node: ast.Call, name: str) -> ast.expr:
        shape = node.args[0]
        fill = {"zeros": "0.0", "ones": "1.0", "empty": "math.nan"}[name]
        whole = any("int" in ast.unparse(x) for x in [*node.args[1:], *(k.value for k in node.keywords)])
        if whole and name == "ones":
            raise NotOnDevice("ones() of whole numbers is not written for the GPU")
        taker = "uc_take_shaped" if _is_tuple(shape) else "uc_take"
        made = f"{taker}({HEAP}, {ast.unparse(shape)}, {fill})[0]"
        return expression(f"{made}.view(np.int64)" if whole else made)


def _is_tuple(shape: ast.expr) -> bool:
    if isinstance(shape, ast.BinOp):
        return _is_tuple(shape.left) or _is_tuple(shape.right)
    return isinstance(shape, ast.Tuple) or (isinstance(shape, ast.Attribute) and shape.attr == "shape")


class _Guarded(ast.NodeTransformer):
    """Where Python raises, or needs more digits than a device has, the thread raises: `min` or a comparison would hide
    what a device makes of it."""

    def __init__(self, imports: dict[str, tuple[str, str]]) -> None:
        self.imports = imports

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div):
            node.right = _divisor(node.right)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div):
            node.value = _divisor(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        guard = _GUARDS.get(called(node, self.imports))
        if guard and len(node.args) == 1:
            node.args[0] = ast.Call(ast.Name(guard, ast.Load()), [node.args[0]], [])
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and node.value >= MOST_WHOLE:
            raise NotOnDevice(f"the whole number {node.value} is too large for exact products; write {node.value}.0")
        return node


def _divisor(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and node.value:
        return node
    return ast.Call(ast.Name("uc_divisor", ast.Load()), [node], [])


class _Checked(ast.NodeTransformer):
    """Indices past the end raise, as in the other engines."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if all(isinstance(p, ast.Slice) for p in parts):
            return node
        constant = len(parts) == 1 and _is_number(parts[0])
        if not _repeatable(node.value):
            if constant:
                return node
            raise NotOnDevice(f"an index into {ast.unparse(node.value)}: give it a name first")
        whole = ast.unparse(node.value)
        if constant and isinstance(node.ctx, ast.Load):
            # The index stays a constant, which a tuple of unlike items needs.
            text = ast.unparse(node)
            return expression(f"({text} if uc_index({ast.unparse(parts[0])}, len({whole})) >= 0 else {text})")
        checked = []
        for axis, part in enumerate(parts):
            length = f"len({whole})" if len(parts) == 1 else f"{whole}.shape[{axis}]"
            text = ast.unparse(part)
            checked.append(part if isinstance(part, ast.Slice) else expression(f"uc_index({text}, {length})"))
        node.slice = checked[0] if len(checked) == 1 else ast.Tuple(checked, ast.Load())
        return node


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant)


def _repeatable(node: ast.expr) -> bool:
    """Whether naming it twice does no work and has no effect."""
    if isinstance(node, ast.Attribute):
        return _repeatable(node.value)
    if isinstance(node, ast.Subscript):
        return _repeatable(node.value) and isinstance(node.slice, ast.Constant | ast.Name)
    return isinstance(node, ast.Name | ast.IfExp)


class _Boxed(ast.NodeTransformer):
    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None:
            node.value = ast.Tuple([node.value], ast.Load())
        return node


class _Member(ast.NodeTransformer):
    """A member's table is copied into its place, and what it took besides is given back."""

    def visit_Assign(self, node: ast.Assign) -> Any:
        if not isinstance(node.targets[0], ast.Subscript):
            return node
        put = f"uc_put({ast.unparse(node.targets[0])}, {ast.unparse(node.value)})"
        return ast.parse(f"uc_mark = {HEAP}[1][0]\n{put}\n{HEAP}[1][0] = uc_mark").body


class _Smaller(ast.NodeTransformer):
    """The programme's first allocation, as small as a thread's memory wants it; there is no second."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        sizes = {1025: _POOL_ROWS, 2048: _POOL_SLOTS}
        return ast.Constant(sizes.get(node.value, node.value)) if isinstance(node.value, int) else node


class _GivesUp(ast.NodeTransformer):
    """Out of nodes after fewer than the CPU takes, so what is not known yet is left to it."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is not None and ast.unparse(node.value) == "-1":
            return ast.parse("raise MemoryError('no nodes left')").body[0]
        return node


def pool_numbers(columns: int) -> int:
    """Heap that `uc_new_room` takes for states of so many columns."""
    return _POOL_ROWS * (columns + 5) + _POOL_SLOTS
