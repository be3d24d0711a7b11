"""The part of a kernel that knows nothing of the task, compiled once for all tasks and linked into each kernel.

The loops of an algorithm (its driver) are compiled against functions that are only declared: the operations in `_OPS`.
A task's kernel brings these, compiled from its own rules, and LLVM links and inlines both into one piece, so nothing is
slower than a kernel compiled whole. Parameters and bound tables have a task's own types: the driver hands on a pointer
to the place where both lie (`own`), which stands for both of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numba.core.cgutils
import numba.core.runtime.context
import numba.core.types
from llvmlite import ir
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from ucsearch.cachedir import cache_dir, write_whole
from ucsearch.engine.compiled.cache import DRIVERS
from ucsearch.engine.compiled.inner import OF_ENTRY, OF_INNER, OF_USER, linked, simplified
from ucsearch.engine.compiled.spelled import ROOM

__all__ = ["WAYS", "make_drive"]

cgutils: Any = numba.core.cgutils  # typed in part only
runtime: Any = numba.core.runtime.context
types: Any = numba.core.types
_FORMAT = 5  # of the file in which a driver is kept, and of what is agreed between driver and operations
_ENTRY = "uc_driver_panel"
_OWN = types.voidptr
_I, _F, _B = types.int64, types.float64, types.boolean
_STATES = [types.Array(t, n, "C") for t, n in ((_F, 2), (_I, 1), (_F, 1), (_F, 1), (_I, 2), (_I, 1))]  # see hashing.py
# What the operations return. Their arguments are those of the functions of the same names in the templates.
_OPS: dict[str, Any] = {
    "uc_params": _OWN,
    "uc_ready": _OWN,
    "uc_score": types.Tuple((_I, _I, _I)),
    "uc_score_call": types.Tuple((_I, _I, _I)),
    "uc_extend": types.Tuple((_F, _F, _F, _I, _B, _I)),
    "uc_alive": _B,
    "uc_lost": types.Tuple((_I, _I, _I)),
    "uc_ended": _B,
    "uc_final": _F,
    "uc_perfect": types.Tuple((*_STATES, _I, _B, _I, _I, _I)),
}
_NUMBERS = {"N": "uc_fields", "CONTINUATIONS": "uc_continuations", "LATER": "uc_later"}
_NUMBERS |= {name: f"uc_{name.lower()}" for name in ROOM}
_CALLED = ("uc_score_call", "uc_lost", "uc_perfect", "uc_params", "uc_ready")  # not worth a copy at every call


class _Driver(NamedTuple):
    """A driver as it is kept: LLVM's bitcode, and what it calls."""

    bitcode: bytes
    uses: dict[str, tuple[Any, ...]]  # operation: its arguments' types, with `own` as a void pointer


_drivers: dict[str, _Driver] = {}


def make_drive(algorithm: str, members: bool, space: dict[str, Any]) -> Any:
    """A function for the entry of a kernel whose names are in `space`: it runs the driver on the task's operations."""
    names = list(inspect.signature(space["uc_panel"].py_func).parameters)

    def typed(typingctx: Any, *given: Any) -> tuple[Any, Callable[..., Any]]:
        given = tuple(types.unliteral(t) for t in given)
        driver = _driver(algorithm, members, given)
        place, made = _operations(space, driver)
        numbers = {call: int(space[name]) for name, call in _NUMBERS.items()}
        return types.none(*given), _linker(driver, place, made, numbers)

    return _intrinsic(names, typed)


# ---- the driver


def _driver(algorithm: str, members: bool, given: tuple[Any, ...]) -> _Driver:
    text = _driver_text(algorithm, members)
    machine = cpu_target.target_context.codegen().magic_tuple()
    made_by = (_FORMAT, numba.__version__, llvmlite.__version__, sys.version, machine)
    key = hashlib.sha256(repr((text, made_by, given)).encode()).hexdigest()
    found = _drivers.get(key)
    if found is None:
        folder = cache_dir()
        path = None if folder is None else folder / f"{DRIVERS}{key}.bin"
        found = _drivers[key] = _read(path) or _compile(text, given)
        if path is not None and not path.exists():
            with contextlib.suppress(OSError):  # made again then, by whoever needs it
                _write(path, found)
    return found


def _write(path: Path, driver: _Driver) -> None:
    content = pickle.dumps(tuple(driver))
    write_whole(path, hashlib.sha256(content).digest() + content)


def _read(path: Path | None) -> _Driver | None:
    """From the folder of our own from which machine code is loaded too; what cannot be read is made again."""
    if path is None or not path.exists():
        return None
    with contextlib.suppress(OSError):
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return _Driver(*pickle.loads(content[32:]))
        path.unlink(missing_ok=True)
    return None


def _driver_text(algorithm: str, members: bool) -> str:
    from ucsearch.engine.compiled.codegen import template_text

    constants = f"MEMBERS = {members}\nSCORES = False\nHAS_TERMINAL = True\nHAS_END = True\nSCALAR = True\n\n"
    text = constants + template_text(algorithm, members)
    for name, call in _NUMBERS.items():
        text = re.sub(rf"\b{name}\b", f"{call}()", text)
    text = text.replace("def uc_panel(iset", "def uc_panel(own, iset").replace("uc_params(", "uc_params(own, ")
    head, programme, rest = text.partition("def uc_programme(")
    return head + programme + rest.replace("uc_score(", "uc_score_call(", 3) if programme else text


def _compile(text: str, given: tuple[Any, ...]) -> _Driver:
    from ucsearch.engine.compiled.head import HEAD

    space: dict[str, Any] = {"__name__": "ucsearch_driver", "uc_given": WAYS}
    exec(compile(HEAD.format(cache=False), "<ucsearch driver head>", "exec"), space)
    space["uc_entry"] = space["uc_inner"]
    exec(compile(text, "<ucsearch driver>", "exec"), space)
    uses: dict[str, tuple[Any, ...]] = {}
    taken = {name: inspect.signature(space[_template(name)].py_func) for name in _OPS if _template(name) in space}
    for name, signature in taken.items():
        space[name] = _declared(name, list(signature.parameters), uses)
    space["uc_params"] = _declared("uc_params", ["own", "params", "w"], uses)
    for call in _NUMBERS.values():
        space[call] = _number(call)
    panel = space["uc_panel"]
    panel.compile((_OWN, *given))
    compiled = panel.overloads[(_OWN, *given)]
    module = simplified(compiled.library, compiled.fndesc.llvm_func_name, _ENTRY)
    return _Driver(module.as_bitcode(), uses)


def _template(name: str) -> str:
    return "uc_score" if name == "uc_score_call" else name


def _declared(name: str, names: list[str], uses: dict[str, tuple[Any, ...]]) -> Any:
    """A function that calls what a kernel will bring under this name."""

    def typed(typingctx: Any, *given: Any) -> tuple[Any, Callable[..., Any]]:
        given = tuple(_plain(t) for t in given)
        if uses.setdefault(name, given) != given:
            raise TypeError(f"{name} is called with {given} and with {uses[name]}")
        return _OPS[name](*given), _caller(name)

    return _intrinsic(names, typed)


def _plain(given: Any) -> Any:
    given = types.unliteral(given)
    if isinstance(given, types.Boolean):
        return _B
    return _I if isinstance(given, types.Integer) else given


def _caller(name: str) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        form = context.call_conv.get_function_type(signature.return_type, signature.args)
        function = cgutils.get_or_insert_function(builder.module, form, name.replace("uc_", "uc_op_", 1))
        return _called(context, builder, function, signature.return_type, signature.args, arguments)

    return generate


def _called(context: Any, builder: Any, function: Any, returned: Any, given: Any, arguments: Any) -> Any:
    status, result = context.call_conv.call_function(builder, function, returned, given, arguments)
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


def _number(name: str) -> Any:
    """A whole number that a kernel will bring; a constant once it is linked."""

    def typed(typingctx: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.IntType(64), []), name)
            function.attributes.add("readnone")
            function.attributes.add("nounwind")
            return builder.call(function, [])

        return _I(), generate

    return _intrinsic([], typed)


def _intrinsic(names: list[str], typed: Callable[..., Any], lends: bool = False, takes: bool = False) -> Any:
    """numba wants arguments by name. `lends`: what it gives stays its own; `takes`: what it gets becomes its own where
    nothing is counted. See lean.py."""
    space: dict[str, Any] = {"__name__": __name__, "typed": typed}
    listed = ", ".join(["typingctx", *names])
    exec(f"def operation({listed}):\n    return typed({listed})", space)
    made: Any = intrinsic(space["operation"])
    made.uc_lends, made.uc_takes = lends, takes
    return made


# ---- a task's operations


def _operations(space: dict[str, Any], driver: _Driver) -> tuple[Any, dict[str, Any]]:
    """The type of the place of parameters and tables, and the compiled operations by name."""
    uses = driver.uses
    parameters = _compiled(space["uc_params"], uses["uc_params"][1:]).signature.return_type
    names = list(inspect.signature(space["uc_ready"].py_func).parameters)
    ready = tuple(parameters if name == "p" else t for name, t in zip(names, uses["uc_ready"], strict=True))
    tables = _compiled(space["uc_ready"], ready).signature.return_type
    place = types.Tuple((parameters, tables))
    own = types.CPointer(place)
    return place, {
        name: _compiled(_operation(name, space), tuple(own if t == _OWN else t for t in given))
        for name, given in uses.items()
    }


def _compiled(function: Any, given: tuple[Any, ...]) -> Any:
    function.compile(given)
    return function.overloads[given]


def _operation(name: str, space: dict[str, Any]) -> Any:
    """The kernel's function of that name, called with `own` where it takes the parameters and the tables."""
    template = _template(name)
    names = list(inspect.signature(space[template].py_func).parameters)
    lent = {"p": "of_parameters(p)", "tables": "of_tables(tables)"}
    passed = ", ".join(lent.get(name, name) for name in names)
    call = f"{template}({passed})"
    if name == "uc_params":
        names, call = ["own", *names], f"keep_parameters(own, {call})"
    elif name == "uc_ready":
        call = f"keep_tables(p, {call})"
    own = {
        # A name of the kernel's own: under one that kernels share, machine code that another process made of another
        # task's rules would be taken for this one's where both are loaded.
        "__name__": space["__name__"],
        template: space[template],
        "of_parameters": _part(0),
        "of_tables": _part(1),
        "keep_parameters": _keep(0),
        "keep_tables": _keep(1),
    }
    exec(f"def operation({', '.join(names)}):\n    return {call}", own)
    return numba.njit(**space["UC"], forceinline=name not in _CALLED)(own["operation"])


def _part(at: int) -> Any:
    """Parameters or tables of a place."""

    def typed(typingctx: Any, own: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = builder.load(cgutils.gep_inbounds(builder, arguments[0], 0, at))
            if context.enable_nrt:
                context.nrt.incref(builder, signature.return_type, value)
            return value

        return own.dtype[at](own), generate

    return _intrinsic(["own"], typed, lends=True)


def _keep(at: int) -> Any:
    """Put parameters or tables into a place; what was there is let go."""

    def typed(typingctx: Any, own: Any, value: Any) -> tuple[Any, Callable[..., Any]]:
        if own.dtype[at] != value:
            raise TypeError(f"{value} instead of {own.dtype[at]}")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            where = cgutils.gep_inbounds(builder, arguments[0], 0, at)
            if context.enable_nrt:  # else who calls has no reference of its own to let go
                context.nrt.incref(builder, value, arguments[1])
            runtime.NRTContext(context, True).decref(builder, value, builder.load(where))
            builder.store(arguments[1], where)
            return arguments[0]

        return own(own, value), generate

    return _intrinsic(["own", "value"], typed, takes=True)


# ---- both together


def _linker(driver: _Driver, place: Any, made: dict[str, Any], numbers: dict[str, int]) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        library = context.active_code_library
        library.add_linking_library(linked(library.codegen, driver.bitcode))
        for name, operation in made.items():
            library.add_linking_library(operation.library)
            _forward(context, builder.module, name, driver.uses[name], operation)
        for name, number in numbers.items():
            _constant(builder.module, name, number)
        where = cgutils.alloca_once(builder, context.get_value_type(place), zfill=True)
        pointer = builder.bitcast(where, context.get_value_type(_OWN))
        given = (_OWN, *signature.args)
        form = context.call_conv.get_function_type(types.none, given)
        function = cgutils.get_or_insert_function(builder.module, form, _ENTRY)
        status, _ = context.call_conv.call_function(builder, function, types.none, given, [pointer, *arguments])
        context.nrt.decref(builder, place, builder.load(where))
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return generate


def _forward(context: Any, module: Any, name: str, given: tuple[Any, ...], operation: Any) -> None:
    """The operation under the name by which the driver calls it; pointers differ in nothing but their types."""
    convention, signature = context.call_conv, operation.signature
    own = next((t for t in signature.args if isinstance(t, types.CPointer)), None)
    returned = _OPS[name]
    found = signature.return_type
    if isinstance(found, types.BaseTuple):
        found = types.Tuple([types.unliteral(t) for t in found])
    if (returned if returned != _OWN else own) != found:
        raise TypeError(f"{name} returns {signature.return_type}, not {returned}")
    asked = convention.get_function_type(returned, given)
    has = convention.get_function_type(signature.return_type, signature.args)
    target = cgutils.get_or_insert_function(module, has, operation.fndesc.llvm_func_name)
    function = cgutils.get_or_insert_function(module, asked, name.replace("uc_", "uc_op_", 1))
    if name not in _CALLED:
        function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block())
    arguments = [
        builder.bitcast(value, form) if value.type != form else value
        for value, form in zip(function.args, has.args, strict=True)
    ]
    builder.ret(builder.call(target, arguments))


def _constant(module: Any, name: str, number: int) -> None:
    function = cgutils.get_or_insert_function(module, ir.FunctionType(ir.IntType(64), []), name)
    function.attributes.add("alwaysinline")
    ir.IRBuilder(function.append_basic_block()).ret(ir.Constant(ir.IntType(64), number))


# What a kernel's text asks for as `uc_given`.
WAYS = {"inner": OF_INNER, "user": OF_USER, "entry": OF_ENTRY, "drive": make_drive}
