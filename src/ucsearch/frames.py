"""Make a data frame from columns in whichever library the user has, through narwhals."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ucsearch.errors import InputError

__all__ = ["make_frame"]

_BACKENDS = ("polars", "pandas", "pyarrow")


def make_frame(columns: Mapping[str, Any], backend: str = "auto") -> Any:
    """A native frame; `auto` takes the first of polars, pandas and pyarrow that is installed."""
    import narwhals as nw

    if backend not in ("auto", *_BACKENDS):
        raise InputError("backend", repr(backend), f"'auto' or one of {_BACKENDS}")
    for name in _BACKENDS if backend == "auto" else (backend,):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        library: Any = name
        return nw.from_dict(dict(columns), backend=library).to_native()
    raise InputError(
        "backend", repr(backend), "polars, pandas or pyarrow to be installed", hint="pip install 'ucsearch[io]'"
    )
