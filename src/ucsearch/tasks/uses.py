"""What first actions of the built-in tasks use of things that series share: `(s, a, p) -> units`, at least 0."""

from __future__ import annotations

from typing import Any

from ucsearch.tasks.inventory_rules import ordered

__all__ = ["charging", "discharging", "lines", "spend", "units"]


def units(s: Any, a: float, p: Any) -> float:
    """Units ordered, packs and minimum orders counted."""
    return ordered(s, a, p)


def spend(s: Any, a: float, p: Any) -> float:
    """Currency spent on the order, its fixed cost included."""
    quantity = ordered(s, a, p)
    return float(p.fixed_cost + p.unit_cost * quantity) if quantity > 0.0 else 0.0


def lines(s: Any, a: float, p: Any) -> float:
    """1 for an order, 0 for none."""
    return 1.0 if ordered(s, a, p) > 0.0 else 0.0


def charging(s: Any, a: float, p: Any) -> float:
    """Power drawn from the grid, MW."""
    return max(a, 0.0)


def discharging(s: Any, a: float, p: Any) -> float:
    """Power fed into the grid, MW."""
    return max(-a, 0.0)
