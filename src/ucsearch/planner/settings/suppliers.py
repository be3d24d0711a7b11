"""The tables [[supplier]] of a settings file: of one supplier, or of a regular and a faster one, as parameters of the
task."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ucsearch.planner.settings.tables import Table

__all__ = ["Supplier", "supplier_problems", "with_suppliers"]

FASTER = "expedited_"
_SIZES = {"": "order_sizes", FASTER: "expedited_sizes"}


class Supplier(Table):
    """Whom to order from, and on what terms; with two, the one with the shorter lead time is the expedited one."""

    name: str = Field(default="", description="for labels and orders; left out: regular, expedited")
    lead_time: int | dict[str, float] = Field(
        description="periods from order to arrival; of a single supplier also a table of lead times with their "
        "probabilities, such as {2 = 0.7, 3 = 0.3}"
    )
    unit_cost: float = Field(default=0.0, description="currency per unit ordered")
    fixed_cost: float = Field(default=0.0, description="currency per order")
    minimum_order: float = Field(default=0.0, description="units; smaller orders are raised to it")
    case_pack: float = Field(default=0.0, description="units; orders are rounded up to whole packs")
    price_breaks: dict[str, float] = Field(
        default={}, description="unit cost from an order size on, such as {100 = 4.5, 500 = 4.2}"
    )
    order_sizes: tuple[float, ...] = Field(default=(), description="whole units on offer; left out: as [actions] lots")


def supplier_problems(content: dict[str, Any]) -> list[str]:
    """What is wrong with the tables beside each other and beside [task], by key."""
    tables, task = content.get("supplier"), content.get("task")
    if not isinstance(tables, list) or not isinstance(task, dict):
        return []
    found = []
    if len(tables) > 2:
        found.append(f"supplier: saw {len(tables)} tables, expected one or two")
    leads = [table.get("lead_time") for table in tables if isinstance(table, dict)]
    if len(leads) == 2 and any(isinstance(lead, dict) for lead in leads):
        found.append("supplier.lead_time: saw a table, expected periods: with two suppliers lead times are certain")
    if len(leads) == 2 and leads[0] == leads[1]:
        found.append(f"supplier.lead_time: saw {leads[0]} twice, expected a regular supplier and a faster one")
    names = [table.get("name") for table in tables if isinstance(table, dict)]
    if len(names) == 2 and (names[0] is None) != (names[1] is None):
        found.append("supplier.name: saw one name, expected one for each supplier")
    own = [name for name in Supplier.model_fields if name != "name"]
    twice = [name for name in (*own, *(FASTER + x for x in own), "expedited_sizes", "suppliers") if name in task]
    return found + [f"task.{name}: saw a value, expected it under [[supplier]] alone" for name in twice]


def with_suppliers(content: dict[str, Any]) -> None:
    """[task] with what the tables say; of tables that cannot be read nothing is taken over."""
    tables, task = content.get("supplier"), content.get("task")
    if not isinstance(tables, list) or not isinstance(task, dict) or not 1 <= len(tables) <= 2:
        return
    if not all(isinstance(table, dict) and isinstance(table.get("lead_time"), int | dict) for table in tables):
        return
    if len(tables) == 2 and not all(isinstance(table["lead_time"], int) for table in tables):
        return
    ordered = tables if len(tables) == 1 else sorted(tables, key=lambda table: -int(table["lead_time"]))
    for prefix, table in zip(("", FASTER), ordered, strict=False):
        for name, value in table.items():
            if name == "order_sizes":
                task[_SIZES[prefix]] = value
            elif name != "name":
                task[prefix + name] = value
    if len(ordered) == 2 and all(table.get("name") for table in ordered):
        task["suppliers"] = [table["name"] for table in ordered]
