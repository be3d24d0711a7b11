"""The orders as they stand: the decisions of the last run with every override in, for those who send them.

A row for each series that orders something (of other tasks: for each series that does something); what is on hold or
refused has none, and is counted. `[orders] by` names a column of the states, such as supplier: then there is a file for
each of its values. Without it, where `[shared]` has a limit for each truck, there is a file for each truck. With two
suppliers each has a row of its own, or, by "supplier", a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import DataError, InputError
from ucsearch.planner.decide.rows import COLUMNS, REFUSED, column_kinds
from ucsearch.planner.files.columns import usual_names
from ucsearch.planner.files.table import Style, Table, check_writable, open_table, refuse_overwriting, write_table
from ucsearch.planner.recorded.decisions_file import OVERRIDDEN, Standing, standing
from ucsearch.planner.recorded.shared import Load, overridden_decisions, standing_loads
from ucsearch.planner.settings import Settings
from ucsearch.planner.settings.own import own_tasks
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditReader
from ucsearch.scale.segments.reader import SegmentReader

__all__ = ["Order", "Orders", "run_orders"]

_UNSENT = ("HOLD", REFUSED)
_PROGRAM = "ucsearch"
BY_SUPPLIER = "supplier"  # [orders] by: with two suppliers no column of the states is needed


class Order(NamedTuple):
    """One series' order."""

    series: str
    group: str  # the supplier, truck, ...; "" where orders are not split
    supplier: str  # of two
    quantity: float | str | None  # units ordered, or the action of other tasks; None: nothing is sent
    label: str  # of an action that has one
    date: str
    arrival: str
    expected_cost: float | None  # of what was decided; None where a person decided otherwise
    outcome: str  # OVERRIDDEN where a person's action counts
    decided_by: str
    reason: str
    decision: str  # id of the record


class Orders(NamedTuple):
    """What was written."""

    orders: tuple[Order, ...]
    files: tuple[tuple[Path, int], ...]  # with their rows
    waiting: tuple[str, ...]  # series for which nothing is sent until a person decides
    idle: int  # series that need no order
    overridden: int
    overfilled: tuple[Load, ...]  # shared limits that people's orders break


def run_orders(settings: Settings, decisions: Path, log: Path, out: Path, states: Path | None = None) -> Orders:
    """Write the orders that stand to `out`, or a file for each value of `[orders] by` beside it. `decisions` is what
    `decide` wrote; overrides are read from the log. Refused where the log holds a newer decision of a series."""
    by = settings.orders.by or next((one.per for one in settings.shared.values() if one.per), "")
    by_supplier = by == BY_SUPPLIER and bool(getattr(settings.task, "suppliers", ()))
    if by and states is None and not by_supplier:
        raise InputError("files.states", "nothing", f"the file with the column {by!r} ([orders] by)")
    refuse_overwriting(
        {"the orders": out},
        {"the decisions": decisions, "the states": states, "the log": log, "the settings": settings.file or None},
    )
    check_writable(out)
    style = Style.of(states if states is not None else decisions, settings.columns.decimal)
    table = open_table(decisions, style.decimal)
    groups = _groups(settings, states, by) if by and states is not None and not by_supplier else {}
    with SegmentReader(log).knowing(own_tasks(settings)) as reader:
        overridden = overridden_decisions(reader)
        found = tuple(_read(settings, table, reader, log, groups, overridden))
        loads = standing_loads(reader, list(overridden.values()), settings)
    if by_supplier:
        found = tuple(o._replace(group=o.supplier, supplier="") for o in found)
    waiting = tuple(o.series for o in found if o.quantity is None)
    sent = [o for o in found if o.quantity is not None and (o.quantity != 0.0 or not _has_orders(table))]
    files = []
    for path, rows in _parts(out, sent, by):
        refuse_overwriting({"the orders": path}, {"the decisions": decisions, "the states": states, "the log": log})
        files.append((path, _write(path, rows, settings, by, style, _has_orders(table))))
    broken = tuple(load for load in loads if load.is_overfilled)
    idle = len({o.series for o in found}) - len({o.series for o in sent}) - len(waiting)
    return Orders(found, tuple(files), waiting, idle, sum(o.outcome == OVERRIDDEN for o in found), broken)


def _has_orders(table: Table) -> bool:
    return "order" in table.columns


def _read(
    settings: Settings, table: Table, reader: SegmentReader, log: Path, groups: Mapping[str, str],
    overridden: Mapping[str, Row],
) -> Iterator[Order]:  # fmt: skip
    wanted = [c for c in COLUMNS if c in table.columns]
    for name in ("series", "outcome", "certificate"):
        if name not in wanted:
            raise InputError(str(table.path), f"columns {', '.join(table.columns)}", f"the column {name!r} of `decide`")
    segment = max((row.seq for row in reader.iterate("segment")), default=0)
    kinds, suppliers = column_kinds(settings.task), tuple(getattr(settings.task, "suppliers", ()))
    for block in table.blocks(wanted):
        texts = {c: block.texts(c) for c in wanted if kinds[c] is str}
        numbers = {c: block.numbers(c)[0] for c in wanted if kinds[c] is float}
        for i, series in enumerate(texts["series"]):
            cell: dict[str, Any] = {c: x[i] for c, x in texts.items()}
            cell |= {c: float(x[i]) for c, x in numbers.items()}
            group = groups.get(series, "")
            if (row := overridden.get(series)) is not None:
                _check_newest(table, log, series, row, cell["certificate"])
                yield from _ordered(standing(settings, reader, row, cell), group, suppliers)
                continue
            entry = AuditReader.newest(reader, series)
            if not segment or (entry is not None and entry.seq > segment):
                _check_newest(table, log, series, entry, cell["certificate"])
            yield from _decided(cell, group, suppliers)


def _check_newest(table: Table, log: Path, series: str, row: Row | None, certificate: str) -> None:
    """The decision in the file must be the newest one in the log."""
    if row is None or row.id != certificate:
        newest = "none of this series" if row is None else row.id[:12]
        raise DataError(
            f"{table.path}, series {series}: saw decision {certificate[:12]}, expected the newest in {log} ({newest}); "
            "run `ucsearch decide` again"
        )


def _decided(cell: dict[str, Any], group: str, suppliers: Sequence[str]) -> Iterator[Order]:
    """As it was decided; with two suppliers what each of them gets."""
    planned = _number(cell["order"]) if "order" in cell else _number(cell["action"])
    if cell["outcome"] in _UNSENT:
        planned = None
    elif planned is None:
        planned = _number(cell["action"])
    first = Order(
        cell["series"], group, "", planned, "", cell.get("date", ""), cell.get("arrival", ""),
        _number(cell["expected_cost"]), cell["outcome"], _PROGRAM, cell.get("sentence", ""), cell["certificate"],
    )  # fmt: skip
    if planned is None or not suppliers:
        yield first
        return
    more = _number(cell["expedited"])
    if planned or not more:
        yield first._replace(supplier=suppliers[0])
    if more:  # what is expected to be paid stands in the first row of a series
        cost = None if planned else first.expected_cost
        arrival = cell.get("expedited_arrival", "")
        yield first._replace(supplier=suppliers[1], quantity=more, arrival=arrival, expected_cost=cost)


def _ordered(made: Standing, group: str, suppliers: Sequence[str]) -> Iterator[Order]:
    """As it stands: with the last override in force."""
    for own in _decided(made.cells, group, suppliers):
        if made.override is None:
            yield own
            continue
        label, who, why = (str(made.override.get(name) or "") for name in ("label", "who", "why"))
        yield own._replace(label=label, decided_by=who, reason=why)


def _number(value: Any) -> Any:
    """Nothing where a cell is empty; actions that are tuples are texts."""
    return None if value is None or value == "" or value != value else value


def _groups(settings: Settings, states: Path, by: str) -> dict[str, str]:
    """The value of the column `by` of every series."""
    table = open_table(states, settings.columns.decimal)
    name = usual_names(table, settings.columns).series
    for column in (name, by):
        if column not in table.columns:
            raise InputError(str(states), f"columns {', '.join(table.columns)}", f"a column {column!r}")
    found: dict[str, str] = {}
    for block in table.blocks([name, by]):
        for series, group, place in zip(block.texts(name), block.texts(by), block.places, strict=True):
            if not group:
                raise DataError(f"{states}, {table.unit} {place}, column {by}, series {series}: saw nothing")
            found[series] = group
    return found


def _parts(out: Path, sent: Sequence[Order], by: str) -> Iterator[tuple[Path, list[Order]]]:
    """The files with their orders."""
    if not by:
        yield out, list(sent)
        return
    names: dict[str, str] = {}
    for group in sorted({o.group for o in sent}):
        name = re.sub(r"[^\w.-]+", "_", group).strip(".") or "_"
        if name.casefold() in names:
            raise InputError(f"orders.by: {by}", f"{group!r} and {names[name.casefold()]!r}", "names of two files")
        names[name.casefold()] = group
        yield out.with_name(f"{out.stem}-{name}{out.suffix}"), [o for o in sent if o.group == group]


def _cents(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 2)


def _write(path: Path, orders: Sequence[Order], settings: Settings, by: str, style: Style, has_orders: bool) -> int:
    quantity = f"order [{settings.units}]" if has_orders else "action"
    cost = f"expected_cost [{settings.currency}]" if settings.currency else "expected_cost"
    labelled = any(o.label for o in orders) and not has_orders
    named, texts = any(o.supplier for o in orders), any(isinstance(o.quantity, str) for o in orders)
    columns: dict[str, type] = {"series": str, **({by: str} if by else {}), **({BY_SUPPLIER: str} if named else {})}
    columns[quantity] = str if texts else float
    columns |= {"label": str} if labelled else {}
    columns |= {"date": str, **({"arrival": str} if has_orders else {}), cost: float, "outcome": str}
    columns |= {"decided_by": str, "reason": str, "decision": str}

    def rows() -> Iterator[Sequence[Any]]:
        for o in orders:
            places = [*([o.group] if by else []), *([o.supplier] if named else [])]
            yield [
                o.series, *places, o.quantity, *([o.label] if labelled else []), o.date,
                *([o.arrival] if has_orders else []), _cents(o.expected_cost), o.outcome, o.decided_by, o.reason,
                o.decision,
            ]  # fmt: skip

    return write_table(path, columns, rows, for_people=True, style=style)
