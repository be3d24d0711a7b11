"""All that leans on numba's insides: how a kernel's functions are compiled, and how machine code is kept on disk.

Numba optimises every function by itself and makes machine code of it, then does so again with each caller. Nobody calls
the inner functions of a kernel but the kernel: here they are lowered only, and the whole is optimised once, in the
entry. Optimising changes no value (no fast-math, no contraction). Kernels compile without this module too, more slowly
(`jit.Numba(whole=True)`); the two give the same bytes.

Numba's own cache is not used as it is, since it can hand out code that is not the function's:

- It names what it compiles by a number that counts within a process, also functions of its own, such as the sort that
  `np.sort` and `np.argsort` are made of. Two functions compiled by two processes can carry different code under one
  name; a third process that loads both runs one of them twice. So numbers begin elsewhere in every process.
- It looks at a function's own file only, not at helpers and constants of other files, which are in its code too; and
  what a closure captures it would pickle. Here who keeps a function says by a stamp what it is made of.
- It takes damaged files, and folders that others can write, at their word.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

import contextlib
import copy
import importlib.util
import itertools
import logging
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as ll
import numba.core.types
import numba.np.arrayobj
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import Cache, CompileResultCacheImpl, IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import IRLegalization
from numba.np.arrayobj import fix_integer_index as _either_way

from ucsearch.engine.cache import FOLDER, file_lock

__all__ = ["ENTRY", "INNER", "Files", "OnDisk", "for_any_number", "own_names", "spare_scipy"]

types: Any = numba.core.types  # typed in part only
_log = logging.getLogger("ucsearch")
_NAMES = 47  # bits of the number that a process' names begin with
_COUNTING = ("NRT_incref", "NRT_decref")  # numba's pass that takes needless counting out knows it by these names
_ENVIRONMENT = "_ZN08NumbaEnv"  # how numba's symbols of environments begin


class _Real:
    """Stands for a code generator, with one thing changed."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _NoEngine(_Real):
    """As numba asks one for an inner function, which has no machine code."""

    def set_env(self, name: str, env: Any) -> None:
        """Done by the entry."""


class _SideBySide(_Real):
    """Takes sums which stand side by side in the text, those of several actions, in vectors: each in its own order
    still. Level 3 of LLVM in place of level 2 makes no search faster, and takes a tenth more of its time."""

    def _module_pass_manager(self, **options: Any) -> Any:
        return self._real._module_pass_manager(**{"slp_vectorize": True, "opt": 2, **options})


class _InnerLibrary(JITCodeLibrary):
    @property
    def codegen(self) -> Any:
        return _NoEngine(self._codegen)

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(library, "_reload_init"):  # older releases have none
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
        self._own = {f.name for f in self._final_module.functions if not f.is_declaration}
        super().finalize()

    def _optimize_final_module(self) -> None:
        # Names of other kernels in this process must not be taken for this one's, and what is not called goes.
        for f in self._final_module.functions:
            if not f.is_declaration and f.name not in self._own and not f.name.startswith(_COUNTING):
                f.linkage = ll.Linkage.internal
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
        state.targetctx = copy.copy(state.targetctx)
        if state.flags.boundscheck:  # a rule: looked at where it is made an index
            state.targetctx.uc_checked = state.func_id.unique_name
            state.targetctx.enable_boundscheck = False
        else:  # a function of ours: no index of it counts from the end
            state.targetctx.uc_from_start = state.func_id.unique_name
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _ChosenInner(_Chosen):
    _name = "ucsearch_inner_library"
    library = _InnerLibrary


@register_pass(mutates_CFG=False, analysis_only=True)
class _ChosenEntry(_Chosen):
    _name = "ucsearch_entry_library"
    library = _EntryLibrary


def _pipeline(chosen: type[_Chosen]) -> type[CompilerBase]:
    class Made(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.add_pass_after(chosen, IRLegalization)
            passes.finalize()
            return [passes]

    return Made


def _index(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """An index below 0 counts from the end in Python, so numba looks at every index before it is used, and where it is
    told to check them three times. In loops of ours none is below 0. In rules one comparison tells those that need no
    second look. What numba compiles for a function within is left as it is."""
    name = context.fndesc.unique_name
    if getattr(context, "uc_from_start", None) == name:
        return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)
    if getattr(context, "uc_checked", None) == name:
        signed = context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)
        return _checked(context, builder, signed, size)
    return _either_way(context, builder, kind, index, size)


def _checked(context: Any, builder: Any, index: Any, size: Any) -> Any:
    first = builder.block
    with builder.if_then(builder.icmp_unsigned(">=", index, size), likely=False):
        wrapped = builder.add(index, size)
        with builder.if_then(builder.icmp_unsigned(">=", wrapped, size), likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("index is out of bounds",))
        second = builder.block
    place = builder.phi(index.type)
    place.add_incoming(index, first)
    place.add_incoming(wrapped, second)
    return place


def for_any_number(dispatcher: Any) -> Any:
    """One copy of a function for numbers that are written and for those that are not: numba would compile both.
    Constants get in when all is linked."""
    if hasattr(dispatcher, "get_call_template"):  # else NUMBA_DISABLE_JIT is set
        template_of = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: template_of(tuple(map(types.unliteral, args)), kws)
    return dispatcher


def spare_scipy() -> None:
    """numba imports scipy.linalg (a fifth of a first decision) to see whether it could multiply matrices. That scipy is
    there is enough to know: a function that does multiply imports it then."""
    if "numba.np.arraymath" in sys.modules or "scipy.linalg" in sys.modules:
        return
    import numba.np.linalg as linalg

    ensure_blas = linalg.ensure_blas

    def is_there() -> None:
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("no scipy")

    linalg.ensure_blas = is_there
    try:
        import numba.np.arraymath as arraymath
    finally:
        linalg.ensure_blas = ensure_blas
    vars(arraymath)["ensure_blas"] = ensure_blas


def own_names() -> None:
    """Let numba's names of functions begin at a number of this process' own. Names only: no result depends on it."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(_NAMES))


class OnDisk(NullCache):
    """Where machine code is kept; looked for at a function's first call, when all that it uses is there."""

    def __init__(self, files: Callable[[], Files | None], name: str) -> None:
        self._make, self._name = files, name
        self._found: Files | None = None
        self._asked = False

    @property
    def cache_path(self) -> str | None:
        files = self._files()
        return None if files is None else files.cache_path

    def _files(self) -> Files | None:
        if not self._asked:
            self._asked = True
            self._found = self._make()
        return self._found

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        files = self._files()
        if files is None:
            return None
        try:
            with file_lock(files.folder, FOLDER):
                return files.load_overload(sig, target_context)
        except Exception as error:  # damaged: it is compiled again, and written over
            _log.debug("machine code of %s is not read: %r", self._name, error)
            with contextlib.suppress(OSError), file_lock(files.folder, FOLDER):
                files.flush()  # a damaged index would take nothing new
            return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        files = self._files()
        if files is None:
            return
        try:
            with file_lock(files.folder, FOLDER):  # two files, which belong together
                files.save_overload(sig, cres)
        except Exception as error:  # a full disk: the code is in memory
            _log.debug("machine code of %s is not kept: %r", self._name, error)

    def flush(self) -> None:
        files = self._files()
        if files is not None:
            files.flush()


class _Kept(CompileResultCacheImpl):
    """How compiled code is written, without numba's choice of a place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno


class Files(Cache):
    """Numba's cache in our own folder, under a name and a stamp of ours."""

    def __init__(self, function: Callable[..., Any], folder: Path, name: str, stamp: str) -> None:
        self.folder = folder
        self._name, self._py_func = repr(function), function
        self._impl = _Kept(function)
        place = folder / FOLDER
        place.mkdir(mode=0o700, exist_ok=True)
        self._cache_path = str(place)
        self._cache_file = IndexDataCacheFile(self._cache_path, name, stamp)
        self.enable()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple()  # the stamp knows the code, and what it captures

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._impl.check_cachable(data):
            self._cache_file.save(self._index_key(sig, data.codegen), self._impl.reduce(data))


numba.np.arrayobj.fix_integer_index = _index
INNER: dict[str, Any] = {"pipeline_class": _pipeline(_ChosenInner)}  # options of njit
ENTRY: dict[str, Any] = {"pipeline_class": _pipeline(_ChosenEntry)}
own_names()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=own_names)
