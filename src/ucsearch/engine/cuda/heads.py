"""Text before a kernel's own: imports and decorators, for the device and for plain Python, and what is spelled out
because a device treats it otherwise."""

from __future__ import annotations

__all__ = ["IMPORTS", "MOST_WHOLE", "PLAIN_IMPORTS", "TOOLS"]

MOST_WHOLE = 2**31  # of a user's whole numbers: a product of two is still one of 64 bits

IMPORTS = """\
import collections
import inspect
import math
import numpy
import numpy as np
from numba import cuda

# The simulator and older releases do not know every option. A linker that optimises would fuse what NVVM did not.
UC_KNOWN = inspect.signature(cuda.jit).parameters
UC_INLINE = {"forceinline": True} if "forceinline" in UC_KNOWN else {}
UC_ENTRY = {"lto": False} if "lto" in UC_KNOWN else {}

def uc_inner(function):
    return cuda.jit(device=True)(function)

def uc_inline(function):
    return cuda.jit(device=True, **UC_INLINE)(function)

def uc_entry(function):
    return cuda.jit(function, cache=True, **UC_ENTRY)  # called without the function, it would forget `lto`

# reshape() would link in a library, and a kernel with one cannot be kept on disk.
try:
    from numba import types
    from numba.cuda import cgutils
    from numba.cuda.extending import intrinsic
    from numba.cuda.np import arrayobj

    @intrinsic
    def uc_shaped(typingctx, flat, shape):
        made = types.Array(flat.dtype, len(shape), "C")

        def codegen(context, builder, sig, args):
            source = arrayobj.make_array(sig.args[0])(context, builder, args[0])
            target = arrayobj.make_array(made)(context, builder)
            given = zip(cgutils.unpack_tuple(builder, args[1]), sig.args[1])
            sizes = [context.cast(builder, size, kind, types.intp) for size, kind in given]
            strides = [source.itemsize]
            for size in sizes[:0:-1]:
                strides.insert(0, builder.mul(strides[0], size))
            arrayobj.populate_array(
                target, data=source.data, shape=sizes, strides=strides, itemsize=source.itemsize,
                meminfo=source.meminfo, parent=source.parent,
            )
            return target._getvalue()

        return made(flat, shape), codegen
except ImportError:
    @uc_inner
    def uc_shaped(flat, shape):
        return flat.reshape(shape)
"""
PLAIN_IMPORTS = """\
import collections
import math
import numpy
import numpy as np

def uc_inner(function):
    return function

def uc_shaped(flat, shape):
    return flat.reshape(shape)

uc_inline = uc_entry = uc_inner
"""
TOOLS = (
    f"""\
UC_MOST = {float(MOST_WHOLE)}
"""
    + """\
uc_user = uc_own = uc_lean_call = uc_inner
uc_lean = uc_pasted = uc_inline
UC_HUGE = 9.2e18
UC_LEAST = -9223372036854775808

@uc_inline
def uc_max(a, b):
    return b if b > a else a

@uc_inline
def uc_min(a, b):
    return b if b < a else a

# Whole numbers beyond 64 bits, and NaN, as x86 converts them.
@uc_inline
def uc_floor(x):
    return np.int64(math.floor(x)) if -UC_HUGE < x < UC_HUGE else UC_LEAST

@uc_inline
def uc_ceil(x):
    return np.int64(math.ceil(x)) if -UC_HUGE < x < UC_HUGE else UC_LEAST

@uc_inline
def uc_index(i, n):
    if i < 0:
        i += n
    if i < 0 or i >= n:
        raise IndexError("out of range")
    return i

@uc_inline
def uc_divisor(x):
    if x == 0.0:
        raise ZeroDivisionError("division by zero")
    return x

@uc_inline
def uc_radicand(x):
    if x < 0.0:
        raise ValueError("root of less than nothing")
    return x

@uc_inline
def uc_whole(x):
    if not (-UC_MOST < x < UC_MOST):
        raise OverflowError("a whole number too large for exact products")
    return x

# A device function may not return an array of its own, but a tuple that holds one.
@uc_inner
def uc_take(heap, n, fill):
    at = heap[1][0]
    if n < 0 or at + n > heap[0].shape[0]:
        raise MemoryError("no room left")
    heap[1][0] = at + n
    taken = heap[0][at:at + n]
    if fill == fill:
        for i in range(n):
            taken[i] = fill
    return (taken,)

@uc_inner
def uc_take_shaped(heap, shape, fill):
    n = 1
    for x in shape:
        n *= x
    return (uc_shaped(uc_take(heap, n, fill)[0], shape),)

@uc_inner
def uc_put(target, source):
    for at in np.ndindex(source.shape):
        target[at] = source[at]

@uc_inner
def uc_fresh(w, out_i, paths):
    out_i[w, 0] = -1
    if paths.shape[0] > 0:
        for x in range(paths.shape[1]):
            for t in range(paths.shape[2]):
                paths[w, x, t] = -1

"""
)
