"""Bounded and exact search over feasible paths, in two engines that give the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucsearch.engine.plan import PanelPlan
else:
    from ucsearch.lazy import lazy_names

    __getattr__, __dir__ = lazy_names(__name__, {"PanelPlan": "plan"})

__all__ = ["PanelPlan"]
