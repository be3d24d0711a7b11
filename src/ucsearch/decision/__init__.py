"""Decisions: the gate, the fallback, the final check, the log a decision is filed in, and frames of decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucsearch.decision.api import Filing, Log
    from ucsearch.decision.view import frame_of
else:
    from ucsearch.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(__name__, {"Filing": "api", "Log": "api", "frame_of": "view"})

__all__ = ["Filing", "Log", "frame_of"]
