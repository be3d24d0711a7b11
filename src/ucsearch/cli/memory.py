"""Memory that a long job gives back and asks for again.

Every search makes room for its states, some megabytes, and lets it go. By default the C library hands such blocks back
to the system at once, and the next search gets pages that must be filled with zeros first: a sixth of a closed loop's
processor time.
"""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, in malloc.h
# Bytes: a block below is taken from what was freed before. Before its version 2.35 glibc takes no more than the second.
_MOST, _MOST_BEFORE = 1 << 30, 1 << 25


def keep_freed_memory() -> bool:
    """Let this process reuse what it frees; for commands that own their process. Whether the C library agreed."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library: nothing is lost but time
        return False
    taken = mallopt(_MMAP_THRESHOLD, _MOST) or mallopt(_MMAP_THRESHOLD, _MOST_BEFORE)
    return bool(taken and mallopt(_TRIM_THRESHOLD, _MOST))
