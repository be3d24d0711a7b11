"""The lost-sales table: the optimum and every classic, on named instances, by exact evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ucsearch.replay.classics.instances import Instance
from ucsearch.replay.classics.lost_sales import AverageCost, average_cost, solve
from ucsearch.replay.classics.optimise import (
    optimise_base_stock,
    optimise_capped_base_stock,
    optimise_constant_order,
    optimise_reorder_point,
)
from ucsearch.replay.classics.policies import MyopicOne, MyopicTwo, VectorBaseStock
from ucsearch.tasks.checks import integer

__all__ = ["CLASSICS", "COLUMNS", "Entry", "Row", "csv_rows", "lost_sales_table"]

CLASSICS = (
    "base-stock",
    "capped base-stock",
    "(s, S)",
    "constant order",
    "myopic-1",
    "myopic-2",
    "vector base-stock",
)

COLUMNS = (
    "instance",
    "demand",
    "penalty_cost",
    "lead_time",
    "published_optimum",
    "policy",
    "parameters",
    "cost_lower",
    "cost_upper",
    "gap_percent",
)


@dataclass(frozen=True)
class Entry:
    """One policy on one instance."""

    policy: str
    parameters: tuple[tuple[str, int], ...]  # such as (("S", 17), ("r", 5))
    cost: AverageCost
    gap_percent: float  # above the optimum


@dataclass(frozen=True)
class Row:
    """One instance: the optimum first, then the classics in the order of `CLASSICS`."""

    instance: Instance
    optimum: AverageCost
    classics: tuple[Entry, ...]


def lost_sales_table(
    instances: Sequence[Instance],
    max_lead_time: int = 4,
    *,
    threads: int = 2,
    tolerance: float = 1e-9,
) -> tuple[Row, ...]:
    """Optimum and classics for every instance with a lead time of at most `max_lead_time`.

    Rows come in the order of the instances and do not depend on `threads`: an instance is one thread's work.

    Example
    -------
    >>> from ucsearch.replay.classics.instances import load_instance
    >>> (row,) = lost_sales_table([load_instance("zipkin-poisson-p4-L1")])
    >>> round(row.optimum.value, 2), [(e.policy, round(e.gap_percent, 1)) for e in row.classics[:2]]
    (4.04, [('base-stock', 3.0), ('capped base-stock', 0.6)])
    """
    longest = integer(max_lead_time, "max_lead_time", at_least=1)
    workers = integer(threads, "threads", at_least=1)
    chosen = [instance for instance in instances if instance.lead_time <= longest]
    # Long ones first, so that no thread is left with a long one at the end.
    order = sorted(range(len(chosen)), key=lambda i: (-chosen[i].lead_time, -chosen[i].penalty_cost, i))
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = {i: pool.submit(_row, chosen[i], tolerance) for i in order}
        return tuple(futures[i].result() for i in range(len(chosen)))


def csv_rows(rows: Sequence[Row]) -> list[tuple[object, ...]]:
    """The table as flat records, one per policy and instance, in the order of `COLUMNS`."""
    records: list[tuple[object, ...]] = []
    for row in rows:
        key = (
            row.instance.name,
            row.instance.family,
            row.instance.penalty_cost,
            row.instance.lead_time,
            "" if row.instance.published is None else f"{row.instance.published:.2f}",
        )
        for entry in (Entry("optimum", (), row.optimum, 0.0), *row.classics):
            cost = entry.cost
            records.append(
                (
                    *key,
                    entry.policy,
                    " ".join(f"{name}={value}" for name, value in entry.parameters),
                    f"{cost.lower:.9f}",
                    f"{cost.upper:.9f}",
                    f"{entry.gap_percent:.4f}",
                )
            )
    return records


def _row(instance: Instance, tolerance: float) -> Row:
    model = instance.model()
    optimum = solve(model, tolerance=tolerance).cost
    entries: list[Entry] = []

    def add(cost: AverageCost, **parameters: int) -> None:
        policy = CLASSICS[len(entries)]
        gap = 100.0 * (cost.value / optimum.value - 1.0)
        entries.append(Entry(policy, tuple(parameters.items()), cost, gap))

    plain = optimise_base_stock(model, tolerance=tolerance)
    add(plain.cost, S=plain.policy.level)
    capped = optimise_capped_base_stock(model, plain, tolerance=tolerance)
    add(capped.cost, S=capped.policy.level, r=capped.policy.cap)
    reorder = optimise_reorder_point(model, plain, tolerance=tolerance)
    add(reorder.cost, s=reorder.policy.reorder_point, S=reorder.policy.level)
    constant = optimise_constant_order(model)
    add(constant.cost, r=constant.policy.quantity)
    add(average_cost(model, MyopicOne(model), tolerance=tolerance))
    add(average_cost(model, MyopicTwo(model), tolerance=tolerance))
    levels = model.morton_levels
    vector = average_cost(model, VectorBaseStock(levels), tolerance=tolerance)
    add(vector, **{f"s{k}": level for k, level in enumerate(levels)})
    return Row(instance, optimum, tuple(entries))
