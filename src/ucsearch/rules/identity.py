"""Which rules a task has: a normal text of everything that its functions read, taken when the task is made.

Of a function: its parameters, its body, the values of its defaults and of every name that it captures, helpers
included. A body within the dialect's statements and expressions is printed here, so that formatting, comments,
docstrings and annotations do not count and every Python gives the same text; any other body counts as it is written.
Constants count by value, floats by `hex`. What Python and numpy provide counts by name. What has no text (a function
without its source, compiled code of others, an open file, a lock) is named in `refused`: such a task can be searched,
but not recorded. The verifier has a reading of its own (`ucsearch.verify.identity`).

    #0 (s,a,y,p) (Return (BinOp (Name RATE) (Mult) (Name a))) RATE=0x1.8000000000000p+0
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from typing import Any

from ucsearch.rules.source import Unreadable, definition, definition_text, global_names

__all__ = ["Identity", "identity_of", "text_of"]

# What is printed of each node. Any other node, and the body is taken as it is written.
_NODES = {
    "Assign": "targets value", "AugAssign": "target op value", "If": "test body orelse", "While": "test body orelse",
    "For": "target iter body orelse", "Break": "", "Continue": "", "Pass": "", "Return": "value", "Expr": "value",
    "BinOp": "left op right", "BoolOp": "op values", "UnaryOp": "op operand", "Compare": "left ops comparators",
    "IfExp": "test body orelse", "Call": "func args keywords", "keyword": "arg value", "Attribute": "value attr",
    "Name": "id", "Tuple": "elts", "List": "elts", "Subscript": "value slice", "Slice": "lower upper step",
    "Add": "", "Sub": "", "Mult": "", "Div": "", "FloorDiv": "", "Mod": "", "Pow": "", "UAdd": "", "USub": "",
    "And": "", "Or": "", "Not": "", "Invert": "", "Eq": "", "NotEq": "", "Lt": "", "LtE": "", "Gt": "", "GtE": "",
    "Is": "", "IsNot": "", "In": "", "NotIn": "",
}  # fmt: skip
_HOME = sysconfig.get_paths()["stdlib"]
_CALLERS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_METHODS = (staticmethod, classmethod, property, functools.cached_property)
_HEAP_TYPE = 1 << 9  # flag of classes that Python code has made
_GONE = object()  # where nothing was found
_MOST_KEPT = 4096


class Identity:
    """The normal text of a task's rules, and what to look at to see whether they are still those."""

    def __init__(self) -> None:
        self.text = ""
        self.refused = ""  # the part that cannot be read; "" where there is none
        self.names: list[tuple[Mapping[str, Any], str, Any, str]] = []  # where, key, what was found there, and the way
        self.cells: list[tuple[types.CellType, Any, str]] = []
        self.functions: list[tuple[types.FunctionType, Any, Any, Any, str]] = []  # code, defaults, keyword defaults
        self.contents: list[tuple[Any, Any, str]] = []  # what may change in place, and what it held

    def digest(self, head: str) -> str:
        """SHA-256 of the text under a head: name, version and layout."""
        return hashlib.sha256(f"ucsearch.rules/1\0{head}\n{self.text}".encode()).hexdigest()

    def changed(self) -> str:
        """The part that is another one now; "" where the rules are still those. Microseconds; runs no rule."""
        for where, key, held, path in self.names:
            if where.get(key, _GONE) is not held:
                return path
        for function, code, defaults, named, path in self.functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return path
            if function.__kwdefaults__ is not named:
                return path
        for cell, held, path in self.cells:
            if cell.cell_contents is not held:
                return path
        return next((path for value, held, path in self.contents if not _holds(value, held)), "")


_shared: dict[tuple[int, ...], tuple[Identity, Any]] = {}


def identity_of(roles: Mapping[str, Any]) -> Identity:
    """The identity of the functions and classes of these roles. Tasks of the same functions of a module share one."""
    key = tuple(map(id, roles.values()))
    if key in _shared and not _shared[key][0].changed():
        return _shared[key][0]
    identity = Identity()
    reader = _Reader(identity)
    try:
        lines = [f"{role} = {reader.value(value, role)}" for role, value in roles.items()]
        identity.text = "\n".join([*lines, *(f"#{n} {line}" for n, line in enumerate(reader.lines))])
    except Unreadable as error:
        identity.refused = str(error)
    except RecursionError:
        identity.refused = "objects inside one another without end"
    except Exception as error:  # whatever an object of the user's does when it is looked at
        identity.refused = f"an object cannot be looked at ({type(error).__name__})"
    identity.names = list({(id(one[0]), one[1]): one for one in identity.names}.values())
    if all(map(_stays, roles.values())):  # else the functions are let go with their task
        if len(_shared) >= _MOST_KEPT:
            _shared.clear()
        _shared[key] = identity, tuple(roles.values())
    return identity


def text_of(value: Any) -> str:
    """The normal text of a value that holds no functions."""
    return _Reader(Identity()).value(value, "")


def _stays(value: Any) -> bool:
    module = sys.modules.get(str(getattr(value, "__module__", "")))
    return value is None or getattr(module, str(getattr(value, "__qualname__", "")), None) is value


def _content(value: Any) -> Any:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list | set):
        return list(value)
    return (value.dtype, value.shape, value.tobytes())


def _holds(value: Any, held: Any) -> bool:
    content = _content(value)
    if isinstance(content, tuple):  # of an array
        return bool(content == held)
    if isinstance(value, dict):
        content, held = ([x for pair in pairs for x in pair] for pairs in (content, held))
    return len(content) == len(held) and all(a is b for a, b in zip(content, held, strict=True))


class _Reader:
    """Reads values; functions and classes become numbered lines, each once."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}

    def value(self, value: Any, path: str) -> str:
        kind = type(value)
        if value is None or kind in (bool, int, type(Ellipsis)):
            return repr(value)
        if kind is float:
            return float.hex(value)
        if kind is complex:
            return f"complex({value.real.hex()},{value.imag.hex()})"
        if kind in (str, bytes):
            return ascii(value)
        if kind in (tuple, list, set, frozenset, dict):
            return self._container(value, kind.__name__, path)
        if kind.__module__ == "numpy" and hasattr(value, "dtype"):
            return self._array(value, path)
        if (name := _provided(value)) is not None:
            return name
        if isinstance(value, type):
            return self._numbered(value, self._class, path)
        if isinstance(value, enum.Enum):
            return f"{self.value(kind, path)}.{value.name}"
        if isinstance(value, functools.partial):
            return f"partial{self.value((value.func, value.args, value.keywords), path)}"
        if isinstance(value, functools._lru_cache_wrapper):
            return f"cached({self.value(value.__wrapped__, path)})"
        if isinstance(value, types.MethodType):
            return f"method{self.value((value.__func__, value.__self__), path)}"
        if isinstance(value, _CALLERS):
            return self._method(value, path)
        function = getattr(value, "py_func", value)  # of a function that numba compiles
        if isinstance(function, types.FunctionType):
            return self._numbered(function, self._function, path)
        return self._object(value, kind, path)

    def _numbered(self, value: Any, read: Any, path: str) -> str:
        number = self.numbers.get(id(value))
        if number is None:
            number = self.numbers[id(value)] = len(self.lines)
            self.lines.append("")
            self.lines[number] = " ".join(read(value, path))
        return f"#{number}"

    def _container(self, value: Any, name: str, path: str) -> str:
        if name not in ("tuple", "frozenset"):
            self.identity.contents.append((value, _content(value), path))
        if name == "dict":
            items = [f"{self.value(k, path)}:{self.value(x, f'{path}[{k!r}]')}" for k, x in value.items()]
        else:
            items = [self.value(x, f"{path}[{i}]") for i, x in enumerate(value)]
        return f"{name}({','.join(sorted(items) if 'set' in name else items)})"

    def _array(self, value: Any, path: str) -> str:
        if value.dtype.hasobject:
            return f"objects{self.value((tuple(value.shape), value.tolist()), path)}"
        if hasattr(value, "flags") and type(value).__name__ == "ndarray":
            self.identity.contents.append((value, _content(value), path))
        kind = value.dtype.str if value.dtype.names is None else value.dtype.descr
        digest = hashlib.sha256(value.tobytes()).hexdigest()
        return f"array({kind},{tuple(value.shape)},{digest})"

    def _method(self, value: Any, path: str) -> str:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            raise Unreadable(f"{path}: {value.__name__} is compiled code without a text")
        return f"{value.__name__} of {self.value(owner, path)}"

    # ------------------------------------------------------------ functions

    def _function(self, function: types.FunctionType, path: str) -> Iterator[str]:
        if not path.endswith(function.__name__):
            path = f"{path} -> {function.__name__}"
        code, identity = function.__code__, self.identity
        identity.functions.append((function, code, function.__defaults__, function.__kwdefaults__, path))
        try:
            node = definition(function)
            yield _parameters(node.args)
            yield _text_of(function, node)
        except Unreadable as error:
            raise Unreadable(f"{path}: {error}") from None
        for module in _imported(node):
            if not _is_python(module):
                raise Unreadable(f"{path}: import of {module} inside the function; import it at the top of its module")
        for name, held in (("defaults", function.__defaults__), ("keywords", function.__kwdefaults__)):
            if held:
                yield f"{name}={self.value(held, path)}"
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        read = global_names(code)
        for name, chains in sorted(_chains(node).items()):
            if name in cells:
                try:
                    held = cells[name].cell_contents
                except ValueError:
                    raise Unreadable(f"{path}: captures {name} before it has a value") from None
                identity.cells.append((cells[name], held, f"{path} -> {name}"))
            elif name in read:
                held = function.__globals__.get(name, _GONE)
                identity.names.append((function.__globals__, name, held, f"{path} -> {name}"))
            else:
                continue
            if held is not _GONE:
                yield from self._captured(held, name, chains, path)
            elif _provided(getattr(sys.modules["builtins"], name, None)) is None:
                raise Unreadable(f"{path}: {name} is not defined where the task is made")
        for name, held in sorted(vars(function).items()):
            if name != "__wrapped__":
                identity.names.append((vars(function), name, held, f"{path}.{name}"))
                yield f".{name}={self.value(held, f'{path}.{name}')}"

    def _captured(self, held: Any, name: str, chains: set[tuple[str, ...]], path: str) -> Iterator[str]:
        """The value of a name; of a module, what is read off it."""
        if not isinstance(held, types.ModuleType):
            yield f"{name}={self.value(held, f'{path} -> {name}')}"
            return
        for chain in sorted(chains):
            value: Any = held
            at = name
            for part in chain:
                if not isinstance(value, types.ModuleType):
                    break
                at, space = f"{at}.{part}", vars(value)
                value = getattr(value, part, _GONE)
                self.identity.names.append((space, part, space.get(part, _GONE), f"{path} -> {at}"))
            if isinstance(value, types.ModuleType) or value is _GONE:
                raise Unreadable(f"{path} -> {at}: a module as a value; read its names")
            yield f"{at}={self.value(value, f'{path} -> {at}')}"

    # ------------------------------------------------------------ classes and objects

    def _class(self, kind: type, path: str) -> Iterator[str]:
        if not kind.__flags__ & _HEAP_TYPE:
            raise Unreadable(f"{path}: {kind.__name__} is compiled code without a text")
        yield f"class {kind.__name__}"
        for base in (*([type(kind)] if type(kind) not in (type, enum.EnumType) else []), *kind.__bases__):
            yield self.value(base, path)
        space = vars(kind)
        fields = space.get("_fields", ()) if issubclass(kind, tuple) else ()
        if fields:
            made = space["__new__"]
            made = getattr(made, "__func__", made)
            own = made.__defaults__ if made.__code__.co_filename == "<string>" else made
            yield f"fields={self.value(tuple(fields), path)} defaults={self.value(own, path)}"
            self.identity.names.append((space, "__new__", space["__new__"], f"{path}.__new__"))
            self.identity.functions.append((made, made.__code__, made.__defaults__, made.__kwdefaults__, path))
        if "__dataclass_fields__" in space:
            declared = [(f.name, f.default, f.default_factory) for f in dataclasses.fields(kind)]
            content = tuple(tuple(None if x is dataclasses.MISSING else x for x in field) for field in declared)
            yield f"fields={self.value(content, path)}"
        members = [(one.name, one.value) for one in kind] if issubclass(kind, enum.Enum) else []
        if members:
            yield f"members={self.value(tuple(members), path)}"
        known = {*fields, *(name for name, _ in members)}
        for name, held in sorted(space.items()):
            if name in known or not _counts(kind, name, held):
                continue
            self.identity.names.append((space, name, held, f"{path}.{name}"))
            yield f"{name}={self._member(held, f'{path}.{name}')}"

    def _member(self, held: Any, path: str) -> str:
        if isinstance(held, property):
            return f"property{self.value((held.fget, held.fset), path)}"
        if isinstance(held, functools.cached_property):
            return f"property({self.value(held.func, path)})"
        if isinstance(held, staticmethod | classmethod):
            return f"{type(held).__name__}({self.value(held.__func__, path)})"
        return self.value(held, path)

    def _object(self, value: Any, kind: type, path: str) -> str:
        """An object by its class and its attributes."""
        plain = kind is types.SimpleNamespace
        if not plain and not _is_plain(kind):
            article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
            raise Unreadable(f"{path}: {article} {kind.__name__} has no content that can be read")
        space = getattr(value, "__dict__", {})
        kept = {x for x in space if isinstance(getattr(kind, x, None), functools.cached_property)}
        held = {x: space[x] for x in space if x not in kept}
        self.identity.names.extend((space, x, held[x], f"{path}.{x}") for x in held)
        for base in kind.__mro__:
            slots = vars(base).get("__slots__", ())
            held.update(
                {x: getattr(value, x) for x in ([slots] if isinstance(slots, str) else slots) if hasattr(value, x)}
            )
        own = ",".join(f"{name}={self.value(held[name], f'{path}.{name}')}" for name in sorted(held))
        if isinstance(value, tuple):
            own = f"{self.value(tuple(value), path)},{own}"
        return f"{'namespace' if plain else self.value(kind, path)}({own})"


def _is_plain(kind: type) -> bool:
    """Whether objects of this class keep nothing but their attributes, or the items of a NamedTuple."""
    bases = [base for base in kind.__mro__[:-1] if base is kind or _is_python(base.__module__)]
    named = ("Generic", "Protocol", "ABC")
    fits = (b.__name__ in named or (b is tuple and hasattr(kind, "_fields")) for b in bases[1:])
    return not _is_python(kind.__module__) and bool(kind.__flags__ & _HEAP_TYPE) and all(fits)


def _counts(kind: type, name: str, held: Any) -> bool:
    """Whether a member of a class is the user's: constants and methods, not what Python or a decorator adds."""
    if isinstance(held, types.GetSetDescriptorType | types.MemberDescriptorType):
        return False
    function = held.fget if isinstance(held, property) else getattr(held, "func", getattr(held, "__func__", held))
    if isinstance(function, types.FunctionType):
        return function.__globals__.get("__name__") == kind.__module__ and function.__code__.co_filename != "<string>"
    machinery = issubclass(kind, enum.Enum) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    return not name.startswith("_" if machinery else ("__", "_abc_"))


def _provided(value: Any) -> str | None:
    """The name of a function or class of Python or numpy; None for everything else."""
    if isinstance(value, types.ModuleType) or not (isinstance(value, type) or callable(value)):
        return None
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    if home is None:  # of a method of a class, or of a ufunc
        owner = getattr(value, "__objclass__", getattr(value, "__self__", None))
        home = getattr(owner, "__module__", "numpy")
    if not isinstance(home, str) or not isinstance(name, str) or not _is_python(home):
        return None
    found: Any = sys.modules.get(home)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{home}.{name}" if type(found) is type(value) and bool(found == value) else None


@functools.lru_cache(maxsize=1024)
def _is_python(module: str) -> bool:
    root = module.partition(".")[0]
    if root == "numpy":
        return True
    file = getattr(sys.modules.get(root), "__file__", None)
    own = file is None or (file.startswith(_HOME) and "site-packages" not in file)  # none that is called like one
    return own and root in sys.stdlib_module_names


# ------------------------------------------------------------ texts

_texts: dict[types.CodeType, str] = {}


def _text_of(function: types.FunctionType, node: ast.FunctionDef | ast.Lambda) -> str:
    code = function.__code__
    if code not in _texts:
        if len(_texts) >= _MOST_KEPT:
            _texts.clear()
        try:
            body = node.body if isinstance(node, ast.FunctionDef) else [ast.Return(node.body)]
            if body and isinstance(body[0], ast.Expr) and isinstance(getattr(body[0].value, "value", None), str):
                body = body[1:]
            _texts[code] = " ".join(map(_printed, body))
        except _Outside:
            _texts[code] = ascii(definition_text(function))
    return _texts[code]


class _Outside(Exception):
    """A node that the printer does not know."""


def _printed(node: Any) -> str:
    if isinstance(node, list):
        return f"[{' '.join(map(_printed, node))}]"
    if node is None or isinstance(node, str):
        return str(node)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, complex):
            raise _Outside
        return float.hex(node.value) if isinstance(node.value, float) else ascii(node.value)
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        node = ast.Assign([node.target], node.value)
    name = type(node).__name__
    if name not in _NODES:
        raise _Outside
    return f"({' '.join([name, *(_printed(getattr(node, field)) for field in _NODES[name].split())])})"


def _parameters(args: ast.arguments) -> str:
    names = [*(one.arg for one in args.posonlyargs), "/"] if args.posonlyargs else []
    names += [one.arg for one in args.args]
    if args.vararg or args.kwonlyargs:
        names.append(f"*{args.vararg.arg if args.vararg else ''}")
    names += [one.arg for one in args.kwonlyargs]
    return f"({','.join([*names, *([f'**{args.kwarg.arg}'] if args.kwarg else [])])})"


def _chains(node: ast.AST) -> dict[str, set[tuple[str, ...]]]:
    """Names that a definition reads, each with the attributes that follow it."""
    found: dict[str, set[tuple[str, ...]]] = {}
    inner: set[int] = set()
    for one in ast.walk(node):  # from the outside in
        chain: list[str] = []
        top: Any = one
        while isinstance(top, ast.Attribute):
            chain.insert(0, top.attr)
            top = top.value
        if isinstance(top, ast.Name) and id(top) not in inner:
            inner.add(id(top))
            found.setdefault(top.id, set()).add(tuple(chain))
    return found


def _imported(node: ast.AST) -> list[str]:
    found = [one for one in ast.walk(node) if isinstance(one, ast.Import | ast.ImportFrom)]
    each = ([one.module or "."] if isinstance(one, ast.ImportFrom) else [x.name for x in one.names] for one in found)
    return [name for names in each for name in names]
