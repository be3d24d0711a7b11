"""Bounded and exact search over feasible paths, in two engines that give the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucsearch.engine.panel import PanelPlan
else:
    from ucsearch.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(__name__, {"PanelPlan": "panel"})

__all__ = ["PanelPlan"]
