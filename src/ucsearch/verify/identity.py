"""Which rules a task has, read by the verifier itself: the digest that a record names must be that of the task at hand.

The normal text that is hashed (docs/reference/rules.md tells it in full):

    role = value                 one line for each function and class of the task, then
    #0 (s,a,p) body NAME=value   one line for each function or class that a value leads to, in the order of first sight

Values: floats by `hex`, texts by `ascii`, containers by their items, arrays by type, shape and SHA-256, functions and
classes by number, what Python and numpy provide by name.
"""

from __future__ import annotations

import ast
import dis
import enum
import functools
import hashlib
import linecache
import sys
import sysconfig
import textwrap
import types
from dataclasses import MISSING, fields
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["NoText", "forget", "rules_digest"]

ROLES = ("feasible", "step", "reward", "fallback", "terminal", "prepare", "bound", "invariant", "allowed_end")
_OPERATORS = [
    "Add", "Sub", "Mult", "Div", "FloorDiv", "Mod", "Pow", "And", "Or", "Not", "UAdd", "USub", "Invert", "Eq", "NotEq",
    "Lt", "LtE", "Gt", "GtE", "Is", "IsNot", "In", "NotIn", "Break", "Continue", "Pass",
]  # fmt: skip
_PARTS: dict[str, tuple[str, ...]] = dict.fromkeys(_OPERATORS, ()) | {
    ast.Assign.__name__: ("targets", "value"), ast.AugAssign.__name__: ("target", "op", "value"),
    ast.If.__name__: ("test", "body", "orelse"), ast.While.__name__: ("test", "body", "orelse"),
    ast.For.__name__: ("target", "iter", "body", "orelse"), ast.Return.__name__: ("value",),
    ast.Expr.__name__: ("value",), ast.BinOp.__name__: ("left", "op", "right"), ast.BoolOp.__name__: ("op", "values"),
    ast.UnaryOp.__name__: ("op", "operand"), ast.Compare.__name__: ("left", "ops", "comparators"),
    ast.IfExp.__name__: ("test", "body", "orelse"), ast.Call.__name__: ("func", "args", "keywords"),
    ast.keyword.__name__: ("arg", "value"), ast.Attribute.__name__: ("value", "attr"), ast.Name.__name__: ("id",),
    ast.Tuple.__name__: ("elts",), ast.List.__name__: ("elts",), ast.Subscript.__name__: ("value", "slice"),
    ast.Slice.__name__: ("lower", "upper", "step"),
}  # fmt: skip
_WRITTEN = types.FunctionType | types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
_ABSENT = object()


class NoText(Exception):
    """A part of the rules has no text; the message names it."""


_digests: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # of the tasks of this walk


def forget() -> None:
    """A new walk reads the rules anew."""
    _digests.clear()


def rules_digest(task: Any) -> str:
    """SHA-256 of the rules of a task, as they are now. Raises `NoText`."""
    digest = _digests.get(task)
    if digest is None:
        digest = _digests[task] = _digest(task)
    return digest


def _digest(task: Any) -> str:
    rules: dict[str, Any] = {role: getattr(task, role) for role in ROLES if getattr(task, role) is not None}
    rules |= {f"continuation_{i}": condition.policy for i, condition in enumerate(task.continuations)}
    rules |= {f"use {name}": rule for name, rule in sorted(task.uses.items())}
    rules |= {f"condition {condition.name}": condition.figure for condition in task.conditions}
    kinds = {"state": task.state, "outcome": task.outcome, "params": None if task.params is None else type(task.params)}
    rules |= {f"the {name} class": kind for name, kind in kinds.items()}
    text = _Text()
    try:
        roles = "\n".join(f"{role} = {text.of(rule, role)}" for role, rule in rules.items())
    except RecursionError:
        raise NoText("objects inside one another without end") from None
    lines = "".join(f"\n#{n} {line}" for n, line in enumerate(text.lines))
    grids = tuple(condition.grid for condition in task.continuations)
    limits = tuple((condition.name, condition.operator, condition.limit) for condition in task.conditions)
    head = _Text().of((task.name, task.version, grids, limits, *_layout(task.params)), "")
    return hashlib.sha256(f"ucsearch.rules/1\0{head}\n{roles}{lines}".encode()).hexdigest()


def _layout(params: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lengths of the fields (0: one number), and which are annotated as whole numbers."""
    annotations = getattr(type(params), "__annotations__", {})
    whole = []
    for i, name in enumerate(() if params is None else params._fields):
        kind = getattr(annotations.get(name), "__forward_arg__", annotations.get(name))
        kind = kind if isinstance(kind, str) else getattr(kind, "__name__", "") if type(kind) is type else str(kind)
        if kind == "int" or kind.startswith("tuple[int"):
            whole.append(i)
    return tuple(len(x) if isinstance(x, tuple) else 0 for x in params or ()), tuple(whole)


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seen: dict[int, str] = {}

    def of(self, value: Any, way: str) -> str:
        match value:
            case type() | types.FunctionType():
                return provided(value) or self._line(value, way)
            case None | bool() | types.EllipsisType():
                return repr(value)
            case enum.Enum():
                return f"{self.of(type(value), way)}.{value.name}"
        kind = type(value)
        if kind in (int, str, bytes):
            return ascii(value)
        if kind is float:
            return str(value.hex())
        if kind is complex:
            return f"complex({value.real.hex()},{value.imag.hex()})"
        if kind is dict:
            return f"dict({','.join(f'{self.of(k, way)}:{self.of(x, way)}' for k, x in value.items())})"
        if kind in (tuple, list, set, frozenset):
            items = [self.of(x, f"{way}[{i}]") for i, x in enumerate(value)]
            return f"{kind.__name__}({','.join(items if kind in (tuple, list) else sorted(items))})"
        if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
            if value.dtype.hasobject:
                return f"objects{self.of((tuple(value.shape), value.tolist()), way)}"
            name = value.dtype.descr if value.dtype.names else value.dtype.str
            return f"array({name},{tuple(value.shape)},{hashlib.sha256(value.tobytes()).hexdigest()})"
        return provided(value) or self._made(value, kind, way)

    def _made(self, value: Any, kind: type, way: str) -> str:
        """What is made of functions and values: partials, caches, methods, objects."""
        if isinstance(value, functools.partial):
            return f"partial{self.of((value.func, value.args, value.keywords), way)}"
        if isinstance(value, functools._lru_cache_wrapper):
            return f"cached({self.of(value.__wrapped__, way)})"
        if isinstance(value, types.MethodType):
            return f"method{self.of((value.__func__, value.__self__), way)}"
        if isinstance(getattr(value, "py_func", None), types.FunctionType):  # compiled by numba
            return self.of(value.py_func, way)
        if isinstance(value, _WRITTEN):
            owner = getattr(value, "__self__", None)
            if owner is None or isinstance(owner, types.ModuleType):
                raise NoText(f"{way}: {value.__name__} is compiled code")
            return f"{value.__name__} of {self.of(owner, way)}"
        if kind is types.SimpleNamespace:
            name = "namespace"
        else:
            python = [base for base in kind.__mro__[1:-1] if _python(base.__module__)]
            as_tuple = hasattr(kind, "_fields")
            odd = [
                b for b in python if b.__name__ not in ("Generic", "Protocol", "ABC") and not (as_tuple and b is tuple)
            ]
            if odd or _python(kind.__module__) or not kind.__flags__ & 512:
                raise NoText(f"{way}: the content of {kind.__name__} cannot be read")
            name = self.of(kind, way)
        held = {k: x for k, x in getattr(value, "__dict__", {}).items() if not _cached(kind, k)}
        for base in kind.__mro__:
            own = vars(base).get("__slots__", ())
            held |= {k: getattr(value, k) for k in ((own,) if isinstance(own, str) else own) if hasattr(value, k)}
        inside = ",".join(f"{k}={self.of(held[k], f'{way}.{k}')}" for k in sorted(held))
        return f"{name}({self.of(tuple(value), way)},{inside})" if isinstance(value, tuple) else f"{name}({inside})"

    def _line(self, value: Any, way: str) -> str:
        if id(value) not in self.seen:
            at = len(self.lines)
            self.seen[id(value)] = f"#{at}"
            self.lines.append("")
            self.lines[at] = " ".join(self._kind(value, way) if isinstance(value, type) else self._rule(value, way))
        return self.seen[id(value)]

    def _rule(self, rule: types.FunctionType, way: str) -> list[str]:
        way = way if way.endswith(rule.__name__) else f"{way} -> {rule.__name__}"
        try:
            body, names = _read(rule.__code__, "".join(linecache.getlines(rule.__code__.co_filename, rule.__globals__)))
        except NoText as error:
            raise NoText(f"{way}: {error}") from None
        said = [body]
        said += [f"{n}={self.of(x, way)}" for n, x in _given(rule) if x]
        cells = dict(zip(rule.__code__.co_freevars, rule.__closure__ or (), strict=True))
        for name, chains in names:
            if name in cells:
                try:
                    held = cells[name].cell_contents
                except ValueError:
                    raise NoText(f"{way}: {name} has no value") from None
            elif name in rule.__globals__:
                held = rule.__globals__[name]
            elif provided(getattr(sys.modules["builtins"], name, None)):
                continue
            else:
                raise NoText(f"{way}: {name} is not defined")
            if not isinstance(held, types.ModuleType):
                said.append(f"{name}={self.of(held, f'{way} -> {name}')}")
                continue
            for chain in chains:
                at: list[str] = [name]
                value: Any = held
                while isinstance(value, types.ModuleType) and len(at) <= len(chain):
                    at.append(chain[len(at) - 1])
                    value = getattr(value, at[-1], _ABSENT)
                if value is _ABSENT or isinstance(value, types.ModuleType):
                    raise NoText(f"{way}: {'.'.join(at)} is a module, or not there")
                said.append(f"{'.'.join(at)}={self.of(value, way)}")
        return said + [f".{k}={self.of(x, way)}" for k, x in sorted(vars(rule).items()) if k != "__wrapped__"]

    def _kind(self, kind: type, way: str) -> list[str]:
        if not kind.__flags__ & 512:
            raise NoText(f"{way}: {kind.__name__} is compiled code")
        meta = [] if type(kind) in (type, enum.EnumType) else [type(kind)]
        texts = [f"class {kind.__name__}", *(self.of(base, way) for base in (*meta, *kind.__bases__))]
        space, names_done = vars(kind), set[str]()
        named = issubclass(kind, tuple) and "_fields" in space
        if named:
            names, new = space["_fields"], getattr(space["__new__"], "__func__", space["__new__"])
            defaults = new.__defaults__ if new.__code__.co_filename == "<string>" else new
            texts.append(f"fields={self.of(tuple(names), way)} defaults={self.of(defaults, way)}")
            names_done.update(names)
        if "__dataclass_fields__" in space:
            field_defaults = [(f.name, f.default, f.default_factory) for f in fields(kind)]
            rows = tuple(tuple(None if x is MISSING else x for x in row) for row in field_defaults)
            texts.append(f"fields={self.of(rows, way)}")
        numbered = issubclass(kind, enum.Enum)
        if numbered and (members := tuple((member.name, member.value) for member in kind)):  # type: ignore[attr-defined]
            texts.append(f"members={self.of(members, way)}")
            names_done.update(name for name, _ in members)
        hidden = "_" if numbered or (issubclass(kind, tuple) and hasattr(kind, "_fields")) else ("__", "_abc_")
        for name in sorted(space.keys() - names_done):
            content = space[name]
            if isinstance(content, types.GetSetDescriptorType | types.MemberDescriptorType):
                continue
            called, inner = _called(content)
            if isinstance(inner, types.FunctionType):
                is_of_module = inner.__globals__.get("__name__") == kind.__module__
                if not is_of_module or inner.__code__.co_filename == "<string>":
                    continue
            elif name.startswith(hidden):
                continue
            if called == "property":
                text = f"property{self.of((content.fget, content.fset), way)}"
            elif called:
                text = f"{called}({self.of(inner, way)})"
            else:
                text = self.of(content, way)
            texts.append(f"{name}={text}")
        return texts


def _called(content: Any) -> tuple[str, Any]:
    if isinstance(content, property):
        return "property", content.fget
    if isinstance(content, functools.cached_property):
        return "property", content.func
    if isinstance(content, staticmethod | classmethod):
        return type(content).__name__, content.__func__
    return "", getattr(content, "func", content)


def _cached(kind: type, name: str) -> bool:
    return isinstance(getattr(kind, name, None), functools.cached_property)


def _given(rule: types.FunctionType) -> list[tuple[str, Any]]:
    return [("defaults", rule.__defaults__), ("keywords", rule.__kwdefaults__)]


# ------------------------------------------------------------ what Python and numpy provide


def provided(value: Any) -> str:
    """The dotted name of a function or class of theirs; "" for anything else."""
    if not callable(value):
        return ""
    home = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if home is None:
        owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
        home = getattr(owner, "__module__", "numpy")
    if not (isinstance(home, str) and isinstance(name, str) and _python(home)):
        return ""
    try:
        named = functools.reduce(getattr, name.split("."), sys.modules.get(home))
    except AttributeError:
        return ""
    return f"{home}.{name}" if type(named) is type(value) and named == value else ""


@functools.lru_cache(maxsize=1024)
def _python(module: str) -> bool:
    top = module.split(".")[0]
    place = getattr(sys.modules.get(top), "__file__", None) or ""
    inside = place.startswith(sysconfig.get_paths()["stdlib"]) and "site-packages" not in place
    return top == "numpy" or (top in sys.stdlib_module_names and (not place or inside))


# ------------------------------------------------------------ definitions


@functools.lru_cache(maxsize=64)
def _parsed(name: str, text: str) -> tuple[ast.Module, list[types.CodeType]]:
    codes = [compile(text, name, "exec", dont_inherit=True)]
    for code in codes:  # grows as it goes
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return ast.parse(text), codes


@functools.lru_cache(maxsize=4096)
def _read(code: types.CodeType, text: str) -> tuple[str, list[tuple[str, list[tuple[str, ...]]]]]:
    """Parameters and body of a function as text, and the names that it reads; of the file's `text`, which must be that
    of the loaded code."""
    node = _found(code, text)
    for part in ast.walk(node):
        inside = (
            [part.module or "."]
            if isinstance(part, ast.ImportFrom)
            else [x.name for x in getattr(part, "names", ()) if isinstance(part, ast.Import)]
        )
        if any(not _python(name) for name in inside):
            raise NoText(f"it imports {inside[0]} inside")
    loaded = {*_loaded(code), *code.co_freevars}
    names = [(name, sorted(chains)) for name, chains in sorted(_names(node).items()) if name in loaded]
    return f"{_arguments(node.args)} {_body(node, text)}", names


def _found(code: types.CodeType, text: str) -> Any:
    try:
        tree, codes = _parsed(code.co_filename, text)
    except (SyntaxError, ValueError, RecursionError):
        raise NoText("its source cannot be read") from None
    if not text or not any(_same(code, other_code) for other_code in codes if other_code.co_name == code.co_name):
        raise NoText("its source is not there, or not that of the loaded code")
    fitting: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) == code.co_firstlineno:
                fitting.append(node)
        elif isinstance(node, ast.Lambda) and (code.co_name, code.co_firstlineno) == ("<lambda>", node.lineno):
            at = [p for p in code.co_positions() if None not in p and p[2] != p[3]]
            first, last = (node.body.lineno, node.body.col_offset), (node.body.end_lineno, node.body.end_col_offset)
            if all(first <= (p[0], p[2]) and (p[1], p[3]) <= last for p in at):
                fitting.append(node)
    if not fitting:
        raise NoText("it is neither a def statement nor a lambda")
    return fitting[-1]


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    if (a.co_code, a.co_names, a.co_varnames, a.co_freevars, a.co_firstlineno) != (
        b.co_code, b.co_names, b.co_varnames, b.co_freevars, b.co_firstlineno,
    ) or len(a.co_consts) != len(b.co_consts):  # fmt: skip
        return False
    pairs = zip(a.co_consts, b.co_consts, strict=True)
    return all(
        _same(x, y) if isinstance(x, types.CodeType) and isinstance(y, types.CodeType) else ascii(x) == ascii(y)
        for x, y in pairs
    )


def _body(node: Any, text: str) -> str:
    body = list(node.body) if isinstance(node, ast.FunctionDef) else [ast.Return(node.body)]
    first = getattr(body[0], "value", None) if isinstance(body[0], ast.Expr) else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        del body[0]
    try:
        return " ".join(_said(statement) for statement in body)
    except LookupError:
        source = ast.get_source_segment(text, node) or ""
        return ascii(textwrap.dedent(" " * node.col_offset + source))


def _said(node: Any) -> str:
    """A statement or expression; `LookupError` for one that only its own text can say."""
    if isinstance(node, list):
        return "[" + " ".join(map(_said, node)) + "]"
    if isinstance(node, str) or node is None:
        return f"{node}"
    if isinstance(node, ast.Constant):
        if type(node.value) is complex:
            raise LookupError
        return node.value.hex() if type(node.value) is float else ascii(node.value)
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return f"(Assign {_said([node.target])} {_said(node.value)})"
    name = type(node).__name__
    return "(" + " ".join([name, *(_said(getattr(node, part)) for part in _PARTS[name])]) + ")"


def _arguments(args: ast.arguments) -> str:
    by_place = [argument.arg for argument in args.args]
    if args.posonlyargs:
        by_place = [*(argument.arg for argument in args.posonlyargs), "/", *by_place]
    star = [f"*{args.vararg.arg}"] if args.vararg else ["*"] if args.kwonlyargs else []
    last = [f"**{args.kwarg.arg}"] if args.kwarg else []
    return f"({','.join([*by_place, *star, *(argument.arg for argument in args.kwonlyargs), *last])})"


def _names(node: ast.AST) -> dict[str, set[tuple[str, ...]]]:
    """Names in a definition, with the attributes that are read off them."""
    attributes: dict[str, set[tuple[str, ...]]] = {}

    def look(part: ast.AST, after: tuple[str, ...] = ()) -> None:
        if isinstance(part, ast.Name):
            attributes.setdefault(part.id, set()).add(after)
        elif isinstance(part, ast.Attribute):
            look(part.value, (part.attr, *after))
        else:
            for child in ast.iter_child_nodes(part):
                look(child)

    look(node)
    return attributes


def _loaded(code: types.CodeType) -> list[str]:
    names = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for const in code.co_consts:
        names += _loaded(const) if isinstance(const, types.CodeType) else []
    return names
