"""Indices of our own functions count from the start alone.

An index below 0 counts from the end in Python, so numba looks at every index before it is used, in loops that a search
runs through millions of times. In the loops of our templates, and in the functions of our own tasks, no index is below
0; in a user's functions one may be.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

import copy
from typing import Any

import numba.core.types
import numba.np.arrayobj
from numba.np.arrayobj import fix_integer_index as _either_way

__all__ = ["from_start"]

types: Any = numba.core.types  # typed in part only


def from_start(context: Any, function: str) -> Any:
    """This target context for the function of that unique name; what numba compiles for it within is left as it is."""
    own = copy.copy(context)
    own.uc_from_start = function
    return own


def _fixed(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    own = getattr(context, "uc_from_start", None)
    if own is None or context.fndesc.unique_name != own:
        return _either_way(context, builder, kind, index, size)
    return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)


numba.np.arrayobj.fix_integer_index = _fixed
