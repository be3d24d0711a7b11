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
from ucsearch.engine.compiled.inner import OF_DRIVER, OF_ENTRY, OF_INNER, OF_USER, linked, simplified
from ucsearch.engine.compiled.spelled import GROUPS, ROOM

__all__ = ["WAYS", "make_drive"]

cgutils: Any = numba.core.cgutils  # typed in part only
runtime: Any = numba.core.runtime.context
types: Any = numba.core.types
_FORMAT = 6  # of the file in which a driver is kept, and of what is agreed between driver and operations
_ENTRY = "uc_driver_panel"
_OWN = types.voidptr
_I, _F, _B = types.int64, types.float64, types.boolean
# What the operations return: the functions of these names in a kernel's text that know the task's types.
_OPS: dict[str, Any] = {
    "uc_params": _OWN,
    "uc_tables": _OWN,
    "uc_allowed": _B,
    "uc_ended": _B,
    "uc_final": _F,
    "uc_toward": _F,
    "uc_moved": _B,
    "uc_paid": _F,
    "uc_valued": _I,
    "uc_follow": types.Tuple((_F, _I)),
}
_KEPT = {"uc_params": 0, "uc_tables": 1}  # where at `own` their results are kept
_TAKEN = {"p": 0, "tables": 1}  # arguments that come from there
_KNOWN = ("N", "SCORES", "SCALAR", "BOUNDED", "LATER", "CONTINUATIONS", "HAS_TERMINAL", "HAS_END", *ROOM)
_NUMBERS = {name: f"uc_number_{name.lower()}" for name in _KNOWN}
_CALLED = ("uc_params", "uc_tables", "uc_follow")  # not worth a copy at every call


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

    text = f"MEMBERS = {members}\n\n" + template_text(algorithm, members)
    for name, call in _NUMBERS.items():
        text = re.sub(rf"\b{name}\b", f"{call}()", text)
    return text.replace("def uc_panel(iset", "def uc_panel(own, iset").replace("uc_params(", "uc_params(own, ")


def _compile(text: str, given: tuple[Any, ...]) -> _Driver:
    from ucsearch.engine.compiled.head import HEAD

    space: dict[str, Any] = {"__name__": "ucsearch_driver", "uc_given": WAYS}
    exec(compile(HEAD.format(cache=False), "<ucsearch driver head>", "exec"), space)
    space["uc_entry"] = numba.njit(**{**space["UC"], **OF_DRIVER})
    exec(compile(text, "<ucsearch driver>", "exec"), space)
    uses: dict[str, tuple[Any, ...]] = {}
    arguments = {"uc_params": ["own", "params", "w"], "uc_tables": GROUPS["UC_TABLED"].split(", ")}
    for name in _OPS:
        listed = arguments.get(name) or list(inspect.signature(space[name].py_func).parameters)
        space[name] = _declared(name, listed, uses)
    for call in _NUMBERS.values():
        space[call] = _number(call)
    panel = space["uc_panel"]
    panel.compile((_OWN, *given))
    compiled = panel.overloads[(_OWN, *given)]
    module = simplified(compiled.library, compiled.fndesc.llvm_func_name, _ENTRY)
    return _Driver(module.as_bitcode(), uses)


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
        result = _called(context, builder, function, signature.return_type, signature.args, arguments)
        # `own` itself, not what comes back: then LLVM sees that nobody else knows the place, and no store goes there.
        return arguments[signature.args.index(_OWN)] if name in _KEPT else result

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


def _intrinsic(names: list[str], typed: Callable[..., Any]) -> Any:
    """numba wants arguments by name."""
    space: dict[str, Any] = {"__name__": __name__, "typed": typed}
    listed = ", ".join(["typingctx", *names])
    exec(f"def operation({listed}):\n    return typed({listed})", space)
    made: Any = intrinsic(space["operation"])
    made.uc_makes_nothing = True  # that is counted; see lean.py
    return made


# ---- a task's operations


class _Operation(NamedTuple):
    """A task's function, compiled, and the names of what it takes."""

    names: list[str]
    compiled: Any


def _operations(space: dict[str, Any], driver: _Driver) -> tuple[Any, dict[str, _Operation]]:
    """The type of the place of parameters and tables, and the operations by name."""
    made: dict[str, _Operation] = {}
    kept: list[Any] = []
    for name in sorted(driver.uses, key=lambda name: _KEPT.get(name, len(_KEPT))):
        function, given = space[name], driver.uses[name]
        names = list(inspect.signature(function.py_func).parameters)
        if name == "uc_params":
            given = given[1:]  # without `own`
        given = tuple(kept[_TAKEN[x]] if x in _TAKEN else t for x, t in zip(names, given, strict=True))
        function.compile(given)
        made[name] = _Operation(names, function.overloads[given])
        if name in _KEPT:
            kept.append(made[name].compiled.signature.return_type)
    return types.Tuple(kept), made


# ---- both together


def _linker(driver: _Driver, place: Any, made: dict[str, _Operation], numbers: dict[str, int]) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        library = context.active_code_library
        library.add_linking_library(linked(library.codegen, driver.bitcode))
        for name, operation in made.items():
            library.add_linking_library(operation.compiled.library)
            _forward(context, builder.module, place, name, driver.uses[name], operation)
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


def _forward(context: Any, module: Any, place: Any, name: str, given: tuple[Any, ...], operation: _Operation) -> None:
    """The operation under the name by which the driver calls it. What lies at `own` is lent, so nothing is counted."""
    convention, signature = context.call_conv, operation.compiled.signature
    returned, found = _OPS[name], types.unliteral(signature.return_type)
    if isinstance(found, types.BaseTuple) and name not in _KEPT:
        found = types.Tuple([types.unliteral(t) for t in found])
    if name not in _KEPT and returned != found:
        raise TypeError(f"{name} returns {found}, not {returned}")
    has = convention.get_function_type(found, signature.args)
    target = cgutils.get_or_insert_function(module, has, operation.compiled.fndesc.llvm_func_name)
    asked = convention.get_function_type(returned, given)
    function = cgutils.get_or_insert_function(module, asked, name.replace("uc_", "uc_op_", 1))
    if name not in _CALLED:
        function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block())
    values = list(convention.decode_arguments(builder, given, function))
    where = next((v for v, t in zip(values, given, strict=True) if t == _OWN), None)
    parts: list[Any] = []
    if where is not None:
        whole = builder.bitcast(where, context.get_value_type(place).as_pointer())
        parts = [cgutils.gep_inbounds(builder, whole, 0, at) for at in range(len(place))]
    taken = [
        builder.load(parts[_TAKEN[x]]) if x in _TAKEN else v
        for x, v in zip(operation.names, values[len(values) - len(operation.names) :], strict=True)
    ]
    result, error = function.args[:2]
    if name not in _KEPT:
        passed = context.get_arg_packer(signature.args).as_arguments(builder, taken)
        builder.ret(builder.call(target, [result, error, *passed]))
        return
    status, made = convention.call_function(builder, target, found, signature.args, taken)
    with cgutils.if_unlikely(builder, status.is_error):
        builder.store(status.excinfoptr, error)
        builder.ret(status.code)
    runtime.NRTContext(context, True).decref(builder, found, builder.load(parts[_KEPT[name]]))
    builder.store(made, parts[_KEPT[name]])
    builder.ret(ir.Constant(status.code.type, 0))


def _constant(module: Any, name: str, number: int) -> None:
    function = cgutils.get_or_insert_function(module, ir.FunctionType(ir.IntType(64), []), name)
    function.attributes.add("alwaysinline")
    ir.IRBuilder(function.append_basic_block()).ret(ir.Constant(ir.IntType(64), number))


# What a kernel's text asks for as `uc_given`.
WAYS = {"inner": OF_INNER, "user": OF_USER, "entry": OF_ENTRY, "drive": make_drive}
