"""Forecasts of other libraries as traces, unchanged.

No forecasting library is imported here or by any module below: the adapters only read what is handed to them.
"""

from __future__ import annotations

from ucsearch.adapters.base import Options, Repair, TraceSet, join_trace_sets
from ucsearch.adapters.chronos import from_autogluon, from_chronos
from ucsearch.adapters.darts import from_darts
from ucsearch.adapters.front import to_traces
from ucsearch.adapters.gluonts import from_gluonts
from ucsearch.adapters.nixtla import from_nixtla
from ucsearch.adapters.sktime import from_sktime
from ucsearch.adapters.wide import from_wide

__all__ = [
    "Options",
    "Repair",
    "TraceSet",
    "from_autogluon",
    "from_chronos",
    "from_darts",
    "from_gluonts",
    "from_nixtla",
    "from_sktime",
    "from_wide",
    "join_trace_sets",
    "to_traces",
]
