"""Decisions: the gate, the fallback, the final check, and the log a decision is filed in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucsearch.decision.api import Filing, Log
else:
    from ucsearch.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(__name__, {"Filing": "api", "Log": "api"})

__all__ = ["Filing", "Log"]
