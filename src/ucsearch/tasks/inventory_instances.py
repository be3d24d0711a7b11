"""Named instances of LeadTimeInventory, for tests, documents and benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucsearch.tasks.inventory import LeadTimeInventory

__all__ = ["named_instances"]


def named_instances(cls: type[LeadTimeInventory]) -> dict[str, LeadTimeInventory]:
    """Those of the documents, and the sixteen of Zipkin (2008) with continuations around their best levels."""
    found = {
        "bench": cls(capacity=20.0, ramp=3.0, unit_cost=0.5),
        "newsvendor": cls(lead_time=0, order_sizes=tuple(float(x) for x in range(21))),
        "fresh": cls(lead_time=1, shortage=19.0, spoilage=0.5, capacity=30.0),
        "packs": cls(
            lead_time=3, order_sizes=(0.0, 6.0, 12.0, 18.0, 24.0), case_pack=6.0, minimum_order=12.0,
            unmet="backordered", fixed_cost=8.0, price=5.0, unit_cost=2.0, salvage=1.0, capacity=80.0,
            order_budget=60.0,
        ),
    }  # fmt: skip
    for penalty in (4, 9, 19, 39):
        for lead in (1, 2, 3, 4):
            found[f"zipkin-p{penalty}-l{lead}"] = cls(
                lead_time=lead,
                order_sizes=tuple(float(x) for x in range(14)),
                shortage=float(penalty),
                base_stock_levels=tuple(float(5 * (lead + 1) + x) for x in range(-3, 13)),
                order_caps=(4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 13.0),
            )
    return found
