"""The frozen forecast: members, their weights, or action scores, with a hash of all of it.

Shapes: W windows, J members, H horizon, F fields of an outcome, m actions. A single trace is a panel with W = 1.
Members are kept in a canonical order (sorted by content), so neither the hash nor any sum depends on the order in
which they were handed over.
"""

from __future__ import annotations

from ucsearch.trace.trace import Coupling, Method, Trace, join_traces

__all__ = ["Coupling", "Method", "Trace", "join_traces"]
