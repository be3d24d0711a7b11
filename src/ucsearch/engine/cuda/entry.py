"""The entry of a kernel on a GPU: a thread for a window. The simulator knows `cuda` by this module's name only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import cuda as found

from ucsearch.engine.arrays import Status

__all__ = ["build"]

cuda: Any = found
NOT_PROVED, SEARCH_EXHAUSTED = int(Status.NOT_PROVED), int(Status.SEARCH_EXHAUSTED)


def build(panel_of: Callable[..., None], iset: tuple[int, ...], capped: bool, keep_paths: bool) -> Callable[..., None]:
    """`panel_of`: a kernel's own entry. `capped`: with fewer nodes than the CPU takes, so what ends there is left to
    it. A window left undone has a status below 0."""
    SETTINGS, CAPPED, PATHS = iset, capped, keep_paths

    def uc_panel(
        fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table, path_out, paths,
        lo, hi,
    ):  # fmt: skip
        w = lo + cuda.grid(1)
        if w < hi:
            out_i[w, 0] = -1
            kept = paths if PATHS else paths[:0]
            if PATHS:
                for x in range(paths.shape[1]):
                    for t in range(paths.shape[2]):
                        paths[w, x, t] = -1
            panel_of(
                SETTINGS, fset, states, params, actions, mean, members, weights, q, u, disc, out_i, out_f, flags, table,
                path_out, kept, w, w + 1,
            )  # fmt: skip
            if CAPPED and (out_i[w, 0] == NOT_PROVED or out_i[w, 0] == SEARCH_EXHAUSTED):
                out_i[w, 0] = -1

    return uc_panel
