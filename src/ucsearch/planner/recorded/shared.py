"""What sharing a limit made of a recorded decision, in words and figures, from the records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.allocation.api import Allocation
from ucsearch.allocation.problem import group_label
from ucsearch.allocation.record import recorded_allocation
from ucsearch.allocation.show import TODAY
from ucsearch.formatting import action_figure, figure
from ucsearch.planner.settings import Settings
from ucsearch.planner.settings.own import own_tasks, recorded_task
from ucsearch.records.canonical import decode_number
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditReader
from ucsearch.records.overrides import recorded_action, recorded_inputs
from ucsearch.scale.segments.reader import SegmentReader

__all__ = ["Load", "allocation_again", "overfilled_limits", "overridden_decisions", "share_words", "standing_loads"]

_NEXT = 3  # in line, that are named


def allocation_again(reader: AuditReader, row: Row, settings: Settings | None, group: str | None = None) -> Allocation:
    """An allocation put together again from its record; with `group` of one limit's series alone."""
    return recorded_allocation(reader, row, lambda record: recorded_task(record["task"], settings), group)


class Load(NamedTuple):
    """How much of a shared limit is used, with the actions that stand."""

    label: str
    used: float
    limit: float

    @property
    def is_overfilled(self) -> bool:
        return not self.used <= self.limit

    @property
    def words(self) -> str:
        return f"{self.label} is overfilled: {figure(self.used)} of {figure(self.limit)} with what people ordered"


def overridden_decisions(reader: AuditReader) -> dict[str, Row]:
    """The newest decision of every series that a person has overridden once."""
    names = {str(row.record.get("series") or "") for row in reader.iterate("override")}
    found = {name: reader.newest(name) for name in sorted(names)}
    return {name: row for name, row in found.items() if row is not None}


def standing_loads(reader: AuditReader, overridden: Sequence[Row], settings: Settings | None) -> list[Load]:
    """The limits that decisions share, as far as `overridden` ones use them, by the newest allocation of each: with
    every person's action in place of the shared one."""
    effective = reader.effective(overridden)
    changes: dict[tuple[int, str], float] = {}
    allocations: dict[tuple[int, str], Row] = {}
    for row in overridden:
        share, stands = effective[row.seq].share, effective[row.seq].action
        if share is None:
            continue
        task = recorded_task(row.record["task"], settings)
        if task is None:
            continue
        inputs = recorded_inputs(row.record, task)
        for shared in share.allocation.record["shared"]:
            group = shared["groups"][share.place]
            if group is None:
                continue
            key = share.allocation.seq, group_label(shared["name"], group)
            uses = [
                0.0 if a is None else task.uses[shared["use"]](inputs.state, decode_number(a), inputs.params)
                for a in (share.action, stands)
            ]
            times = float(decode_number(shared["times"][share.place]))
            changes[key] = changes.get(key, 0.0) + times * (uses[1] - uses[0])
            allocations[key] = share.allocation
    loads = []
    for (seq, label), change in sorted(changes.items()):
        result = allocation_again(reader, allocations[seq, label], settings, label).result
        for part in () if result is None else result.table():
            if part.resource == label:
                loads.append(Load(label, part.used + change, part.limit))
    return loads


def overfilled_limits(log: Path, settings: Settings | None) -> list[Load]:
    """The shared limits of a log that people's orders break."""
    with SegmentReader(log).knowing(own_tasks(settings)) as reader:
        loads = standing_loads(reader, list(overridden_decisions(reader).values()), settings)
    return [load for load in loads if load.is_overfilled]


def share_words(reader: AuditReader, row: Row, settings: Settings | None) -> list[str]:
    """What the newest allocation after a decision made of it: price, what it would have got, who is next in line."""
    share = reader.shares([row]).get(row.seq)
    if share is None:
        return []
    record = share.allocation.record
    alone = row.record["outcome"]["action"]
    names = [group_label(s["name"], g) for s in record["shared"] if (g := s["groups"][share.place]) is not None]
    told = " and ".join(names) or "no limit"
    if not record["claim"]["served"]:
        why = record["claim"]["reason"].replace("_", " ")
        left = f"{share.outcome}, {_shown(share.action)}"
        return [f"Shared limits ({told}, entry {share.allocation.seq}) could not be kept ({why}): {left}."]
    as_alone = share.outcome != "RELEASED" or share.action == alone
    instead = ", as without the limit" if as_alone else f" instead of {_shown(alone)}"
    lines = [f"Shares {told} (entry {share.allocation.seq}): it gets {_shown(share.action)}{instead}."]
    money = settings.currency if settings is not None and settings.currency else "units of reward"
    for k, shared in enumerate(record["shared"]):
        own = shared["groups"][share.place]
        if own is not None:
            lines += _limit_words(reader, share.allocation, record, k, own, str(row.record["series"]), money, settings)
    return [*lines, TODAY] if "later" not in record else lines


def _limit_words(
    reader: AuditReader, row: Row, record: Mapping[str, Any], k: int, group: str, series: str, money: str,
    settings: Settings | None,
) -> list[str]:  # fmt: skip
    shared = record["shared"][k]
    price = float(decode_number(record["prices"][k][sorted(shared["limits"]).index(group)]))
    label, limit = group_label(shared["name"], group), figure(float(decode_number(shared["limits"][group])))
    if "later" in record:  # values of today's actions are then no longer those of the decisions
        return [f"{label}: limit {limit}; one more unit is worth about {figure(price, 4)} {money}."]
    result = allocation_again(reader, row, settings, label).result
    if result is None:
        return []
    used = next(p.used for p in result.table() if p.resource == label)
    worth = f"one more unit is worth about {figure(price, 4)} {money}" if price > 0.0 else "the limit does not bind"
    lines = [f"{label}: {figure(used)} of {limit} used; {worth}."]
    line = result.next_in_line(label, len(result.problem.series)) if price > 0.0 else []
    if line:
        first = ", ".join(f"{n} ({figure(gain, 4)} {money} a unit, {figure(use)})" for n, gain, use in line[:_NEXT])
        lines.append(f"Next in line for more of {label}: {first}.")
        place = next((i for i, (name, *_) in enumerate(line, 1) if name == series), 0)
        if place > _NEXT:
            lines.append(f"{series} is number {place} in line.")
    return lines


def _shown(action: Any) -> str:
    return "nothing" if action is None else action_figure(recorded_action(action))
