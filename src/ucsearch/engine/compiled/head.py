"""What a kernel module begins and ends with: how its functions are compiled, and the loops that may be linked in."""

from __future__ import annotations

from ucsearch.engine.compiled.spelled import GROUPS

__all__ = ["HEAD", "TAIL"]

HEAD = """\
import collections
import math
import numpy
import numpy as np
from numba import njit

# Ways to compile are put in by who loads this; without them numba compiles the text as it is, but for a user's rules:
# it does not know that option, and without guards they are not compiled. These are ways of kind 7: of another kind
# would be another text, so machine code on disk is never that of older ways.
UC_GIVEN = globals().get("uc_given") or dict(inner={{}}, user={{"guards": True}}, entry={{}}, drive=lambda *given: None)
UC = dict(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **UC_GIVEN["inner"])

UC_USER = dict(UC, boundscheck=True, **UC_GIVEN["user"])

def uc_inner(function):
    return njit(**UC)(function)

# An index past the end raises in a user's function, and a number that Python takes otherwise; our own loops need no
# such checks.
def uc_user(function):
    return njit(**UC_USER)(function)

# Tasks of the library are tested for that, every function of theirs.
def uc_own(function):
    return njit(**UC)(function)

def uc_user_inline(function):
    return njit(**UC_USER, forceinline=True)(function)

def uc_inline(function):
    return njit(**UC, forceinline=True)(function)

def uc_pasted(function):
    # What it gives stays whose it was: nothing is handed over that would have to be counted.
    return njit(**UC, inline="always")(function)

def uc_lean(function):
    # No reference counting: nothing in here may allocate. Counting is atomic and would cost more than the work itself.
    return njit(**UC, forceinline=True, _nrt=False)(function)

def uc_lean_call(function):
    return njit(**UC, _nrt=False)(function)

def uc_entry(function):
    return njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, cache={cache}, **UC_GIVEN["entry"])(function)
"""

_PANEL = GROUPS["UC_PANEL"]
TAIL = f"""

# The loops above know nothing of the task: they may be linked in, compiled before (see split.py).
uc_drive = UC_GIVEN["drive"]("{{algorithm}}", MEMBERS, globals())


@uc_entry
def uc_split_panel({_PANEL}):
    uc_drive({_PANEL})


if uc_drive is not None:
    uc_panel = uc_split_panel
"""
