"""Machine code from disk without what numba needs only to compile.

Before it reads its own cache, numba imports and registers everything that it can compile: a fifth of the time to a
first decision, of which machine code that is there already uses nothing but the runtime. So that is set up alone.
Whatever is not as it is expected, another numba, a symbol that is not there yet, is left to numba.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

import logging
from typing import Any

__all__ = ["load_machine_code"]

_log = logging.getLogger("ucsearch")
_OBJECT = "object"  # how numba marks machine code


def load_machine_code(kernel: Any) -> bool:
    """Give a dispatcher its one overload from numba's cache; False where that is left to numba, at the first call."""
    try:
        from numba.core.compiler_lock import global_compiler_lock

        with global_compiler_lock:
            return _load(kernel)
    except Exception as error:  # its insides may be others, or the file may be damaged: numba tries in its own way
        _log.debug("machine code is left to numba: %r", error)
        return False


def _load(kernel: Any) -> bool:
    from numba.core.compiler import CompileResult
    from numba.core.runtime import rtsys

    context, cache = kernel.targetctx, kernel._cache
    keys = [key for key in cache._cache_file._load_index() if key == cache._index_key(key[0], context.codegen())]
    if len(keys) != 1:  # one function, one signature
        return False
    rtsys.initialize(context)
    data = cache._cache_file.load(keys[0])
    (_, kind, (_, bitcode)), *_ = data
    if kind != _OBJECT or not _all_there(bitcode):
        return False
    kernel.add_overload(CompileResult._rebuild(context, *data))
    kernel._cache_hits[keys[0][0]] += 1
    return True


def _all_there(bitcode: bytes) -> bool:
    """Whether what the code calls is in this process: some is registered by modules that were not imported, and LLVM
    ends the process where it looks for such a name in vain."""
    import llvmlite.binding as ll

    module = ll.parse_bitcode(bitcode)
    called = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
    read = [v.name for v in module.global_variables if v.is_declaration]
    return all(ll.address_of_symbol(name) for name in (*called, *read))
