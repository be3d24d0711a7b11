"""How numba compiles a kernel's functions: the inner ones only as far as the entry that takes them in needs.

Numba optimises every function by itself and makes machine code of it, then does so again with each caller. Nobody calls
the inner functions of a kernel but the kernel, so theirs stay as they are lowered, and the whole is optimised once.
Optimising changes no value here (no fast-math, no contraction), so engines still agree in every byte.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

from types import CodeType
from typing import Any

import llvmlite.binding as ll
import numba.core.compiler
import numba.core.dispatcher
import numba.core.ir
import numba.core.types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, LoweringPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import IRLegalization
from numba.core.untyped_passes import InlineClosureLikes, IRProcessing

from ucsearch.engine.compiled.from_start import from_start
from ucsearch.engine.compiled.guarded import guarded
from ucsearch.engine.compiled.lean import borrowing, borrows

__all__ = ["OF_DRIVER", "OF_ENTRY", "OF_INNER", "OF_USER", "linked", "simplified"]

ir: Any = numba.core.ir  # typed in part only
types: Any = numba.core.types
_COUNTING = ("NRT_incref", "NRT_decref")
_ENVIRONMENT = "_ZN08NumbaEnv"  # how numba's symbols of environments begin


class _NoEngine:
    """A code generator as numba asks one for an inner function: it has no machine code that could know its place."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def set_env(self, name: str, env: Any) -> None:
        """Done by the entry."""


class _SideBySide:
    """A code generator that takes sums which stand side by side in the text, those of several actions, in vectors: each
    in its own order still. numba has this off. Level 3 of LLVM instead of level 2 makes no search faster, and takes a
    tenth more of its time."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _module_pass_manager(self, **options: Any) -> Any:
        return self._real._module_pass_manager(**{"slp_vectorize": True, "opt": 2, **options})


class _InnerLibrary(JITCodeLibrary):
    @property
    def codegen(self) -> Any:
        return _NoEngine(self._codegen)

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _get_module_for_linking(self) -> Any:
        """The module itself: nobody but callers of this function has a use for it."""
        self._ensure_finalized()
        if self._shared_module is None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == ll.Linkage.external:
                    function.linkage = ll.Linkage.linkonce_odr
            self._shared_module = self._final_module
        return self._shared_module


class _EntryLibrary(JITCodeLibrary):
    def finalize(self) -> None:
        # What is made here and called from outside; our own names, of operations, are for the driver alone.
        made = (f.name for f in self._final_module.functions if not f.is_declaration)
        self._own = {name for name in made if not name.startswith("uc_")}
        super().finalize()

    def _optimize_final_module(self) -> None:
        # Names of other kernels in this process must not be taken for this one's, and what is not called goes.
        _hide(self._final_module, self._own)
        real: Any = self._codegen
        vectors: Any = _SideBySide(real)
        self._codegen = vectors
        try:
            super()._optimize_final_module()
        finally:
            self._codegen = real

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for variable in self._final_module.global_variables:
            env = lookup_environment(variable.name) if variable.name.startswith(_ENVIRONMENT) else None
            if env is not None:
                self.codegen.set_env(variable.name, env)


class _Chosen(LoweringPass):
    library: type[JITCodeLibrary]

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        if not state.flags.boundscheck:  # a function of ours: a user's are checked
            state.targetctx = from_start(state.targetctx, state.func_id.unique_name)
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _ChosenInner(_Chosen):
    _name = "ucsearch_inner_library"
    library = _InnerLibrary

    def run_pass(self, state: Any) -> bool:
        if state.targetctx.enable_nrt and borrows(state):
            state.targetctx = borrowing(state.targetctx)
        return super().run_pass(state)


@register_pass(mutates_CFG=False, analysis_only=True)
class _ChosenEntry(_Chosen):
    _name = "ucsearch_entry_library"
    library = _EntryLibrary


@register_pass(mutates_CFG=False, analysis_only=False)
class _ByName(FunctionPass):
    """Calls of more than 30 arguments, which Python hands over in a tuple, as calls of so many arguments: an array in a
    tuple is counted, at every call."""

    _name = "ucsearch_arguments_by_name"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        changed = False
        for block in state.func_ir.blocks.values():
            made = {}
            for statement in block.find_insts(ir.Assign):
                value = statement.value
                if not isinstance(value, ir.Expr):
                    continue
                if value.op == "build_tuple":
                    made[statement.target.name] = value.items
                elif value.op == "call" and not value.args and value.vararg is not None and value.vararg.name in made:
                    value.args, value.vararg, changed = list(made[value.vararg.name]), None, True
        return changed


@register_pass(mutates_CFG=True, analysis_only=False)
class _Closures(InlineClosureLikes):
    """Functions of our templates have no closures, comprehensions or arrays made of lists to look for."""

    _name = "ucsearch_inline_closures"

    def run_pass(self, state: Any) -> bool:
        code = state.func_id.code
        inside = any(isinstance(x, CodeType) for x in code.co_consts)
        return False if code.co_name.startswith("uc_") and not inside else bool(super().run_pass(state))


class Flags(numba.core.compiler.Flags):
    """Options of a function that is compiled. numba looks implementations up by them, thousands of times a kernel, and
    would list them all anew each time. Its name is in the names of symbols."""

    __slots__ = ("_hashed", "_hashed_of")

    def __init__(self, copy_from: Any = None) -> None:
        super().__init__(copy_from)
        self._hashed_of: dict[str, Any] | None = None

    def __hash__(self) -> int:
        if self._hashed_of != self._values:
            self._hashed, self._hashed_of = super().__hash__(), dict(self._values)
        found: int = self._hashed
        return found

    def __eq__(self, other: object) -> bool:
        return (type(other) is Flags and self._values == other._values) or bool(super().__eq__(other) is True)


class _Compiler(CompilerBase):
    chosen: type[_Chosen]
    guards = False

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, Flags(flags), locals)

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Closures if of is InlineClosureLikes else of, why) for of, why in passes.passes]
        passes.add_pass_after(_ByName, IRProcessing)
        passes.add_pass_after(self.chosen, IRLegalization)
        if self.guards:
            passes = guarded(passes)
        passes.finalize()
        return [passes]


class _Inner(_Compiler):
    chosen = _ChosenInner


class _Driver(_Inner):
    """What it is handed lies apart: nobody else knows its task's place, and results are in arrays of their own."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.state.flags.noalias = True


class _User(_Inner):
    guards = True


class _Entry(_Compiler):
    chosen = _ChosenEntry


_asked = numba.core.dispatcher._DispatcherBase.get_call_template


def _for_any_number(self: Any, args: Any, kws: Any) -> Any:
    """Functions of our templates are compiled once for numbers that are written and for those that are not. numba makes
    one for each, also where it takes a variable that begins at 0 for a 0 at first. Constants get in when all is linked.
    """
    if self.py_func.__name__.startswith("uc_") and issubclass(self._compiler.pipeline_class, _Compiler):
        args = tuple(map(types.unliteral, args))
    return _asked(self, args, kws)


vars(numba.core.dispatcher)["_DispatcherBase"].get_call_template = _for_any_number

OF_INNER = {"pipeline_class": _Inner}  # options of njit
OF_DRIVER = {"pipeline_class": _Driver}
OF_USER = {"pipeline_class": _User}
OF_ENTRY = {"pipeline_class": _Entry}


def linked(codegen: Any, bitcode: bytes) -> Any:
    """A library of what was lowered before."""
    library = _InnerLibrary(codegen, "ucsearch_driver")
    library._final_module = ll.parse_bitcode(bitcode)
    library._finalized = True
    return library


def simplified(library: Any, old: str, new: str) -> Any:
    """An inner library's module, pasted together, with one function to be called from outside under its new name. It is
    not optimised: loops that are rearranged before it is known what will be in them are slower then."""
    library._ensure_finalized()
    module = library._final_module.clone()
    module.get_function(old).name = new
    _hide(module, {new})
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = ll.Linkage.internal
    passes, builder = library._codegen._module_pass_manager(opt=0, loop_vectorize=False, slp_vectorize=False)
    passes.run(module, builder)
    return module


def _hide(module: Any, but: set[str]) -> None:
    """Counting stays as it is: linked into another module it would get another name, under which numba's pass that
    takes needless counting out does not know it."""
    for function in module.functions:
        if not function.is_declaration and function.name not in but and not function.name.startswith(_COUNTING):
            function.linkage = ll.Linkage.internal
