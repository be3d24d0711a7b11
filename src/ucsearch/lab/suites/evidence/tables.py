"""Tables are data: a specification says which rows are grouped and how each column is computed; `fill` computes it.

The runner writes with it and the recheck derives with it, so a table can be checked without the code that ran.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import UC, Row
from ucsearch.lab.suites.protocol.comparison import holds
from ucsearch.replay.metrics import cvar20
from ucsearch.replay.statistics import bootstrap_key, cluster_interval, mean

__all__ = ["HOWS", "cell", "cell_check", "check_row", "column", "fill", "flatten", "table"]

Record = Mapping[str, Any]


def column(name: str, source: str, how: str = "mean", over: str | None = None) -> dict[str, Any]:
    """The specification of a column: `how` the windows' field `source` is put together, for ratios `over` another."""
    return {"name": name, "from": source, "how": how} | ({} if over is None else {"over": over})


def table(
    name: str, title: str, group: Sequence[str], columns: Sequence[Mapping[str, Any]], order: Sequence[str],
    *, only: Sequence[str] | None = None, split: str | None = "test",
) -> dict[str, Any]:  # fmt: skip
    """The specification of a table, as `fill` takes it: policies in this `order`, those of `only` alone."""
    spec = {"name": name, "title": title, "split": split, "group": list(group), "columns": list(columns)}
    return spec | {"order": list(order)} | ({} if only is None else {"where": {"policy": list(only)}})


def flatten(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One record for each row and policy: the row's own fields, the policy's metrics, and for `uc` also `cert_...`."""
    out = []
    for row in rows:
        head = {name: value for name, value in row.items() if not isinstance(value, Mapping)}
        for policy, metrics in (row.get("policies") or {}).items():
            record = {**head, **metrics, "policy": policy}
            if policy == UC:
                record |= {f"cert_{name}": value for name, value in (row.get("certificate") or {}).items()}
            out.append(record)
    return out


def fill(spec: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """The table with its `rows`. A table whose `how` is "given" is no aggregate and is passed on as it is.

    Members of a specification: `name`, `title`, `split` (null: all rows), `group` (fields), `columns` (`name`, `from`,
    `how`, and for ratios `over`), and optionally `where` (field: value or values) and `order` (policies first to last;
    others follow by name). A row of the table holds the group's values, then the columns'.
    """
    if spec.get("how") == "given":
        if not isinstance(spec.get("rows"), list):
            raise InputError(f"table {spec.get('name')!r}", "no rows", "rows, since it is given")
        return dict(spec)
    name = f"table {spec.get('name')!r}"
    group, columns = list(spec["group"]), list(spec["columns"])
    records = [r for r in flatten(rows) if _is_wanted(r, spec)]
    for column in columns:
        how = column.get("how")
        if how not in HOWS:
            raise InputError(f"{name}: how", repr(how), f"one of {', '.join(HOWS)}")
        needed = [column.get("from")] if how != "count" else []
        needed += [column.get("over")] if how in ("ratio", "rate_family_mean") else []
        for source in needed:
            if records and not any(source in r for r in records):
                raise InputError(f"{name}: column {column.get('name')!r}", repr(source), "a field that some row has")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        for part in group:
            if part not in record:
                raise InputError(f"{name}: group", repr(part), "a field that every row has")
        groups.setdefault(tuple(record[part] for part in group), []).append(record)
    rank = {policy: i for i, policy in enumerate(spec.get("order") or ())}

    def place(key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [_place(part, value, rank) for part, value in zip(group, key, strict=True)]

    lines = [[*key, *(_value(column, groups[key]) for column in columns)] for key in sorted(groups, key=place)]
    return {**{k: v for k, v in spec.items() if k != "rows"}, "rows": lines}


def _is_wanted(record: Record, spec: Mapping[str, Any]) -> bool:
    if spec.get("split") is not None and record["split"] != spec["split"]:
        return False
    for part, wanted in (spec.get("where") or {}).items():
        if record.get(part) not in (wanted if isinstance(wanted, list) else [wanted]):
            return False
    return True


def _place(part: str, value: Any, rank: Mapping[str, int]) -> tuple[Any, ...]:
    """Numbers before text, so that a group of mixed values has an order too."""
    first = rank.get(value, len(rank)) if part == "policy" else 0
    return (first, 0, value, "") if isinstance(value, (int, float)) else (first, 1, 0, str(value))


def _value(column: Mapping[str, Any], records: Sequence[Record]) -> float | int | None:
    result = HOWS[column["how"]](records, column)
    return result if result is None or math.isfinite(result) else None


def _known(records: Iterable[Record], column: Mapping[str, Any]) -> list[float]:
    """Values that are there; null means "not defined here" and does not take part."""
    return [r[column["from"]] for r in records if r.get(column["from"]) is not None]


def _pairs(records: Iterable[Record], column: Mapping[str, Any]) -> list[tuple[float, float]]:
    both = [(r.get(column["from"]), r.get(column["over"])) for r in records]
    return [(a, b) for a, b in both if a is not None and b]


def _mean(records: Sequence[Record], column: Mapping[str, Any]) -> float:
    return mean(_known(records, column))


def _family_mean(records: Sequence[Record], column: Mapping[str, Any]) -> float:
    """Windows -> series -> family -> equal mean over families."""
    return mean(list(_family_means(records, column).values()))


def _family_means(records: Sequence[Record], column: Mapping[str, Any]) -> dict[str, float]:
    nested: dict[str, dict[str, list[float]]] = {}
    for r in records:
        if r.get(column["from"]) is not None:
            nested.setdefault(r["family"], {}).setdefault(r["series"], []).append(r[column["from"]])
    return {f: mean([mean(windows) for windows in series.values()]) for f, series in nested.items()}


def _cluster(records: Sequence[Record], column: Mapping[str, Any], end: int) -> float:
    """An end of the interval that drawing whole data sets again gives; `clusters` names each family's."""
    means, clusters = _family_means(records, column), column["clusters"]
    return cluster_interval(means, clusters, bootstrap_key(0, "clusters", column["from"]))[end]


def _rate_family_mean(records: Sequence[Record], column: Mapping[str, Any]) -> float:
    """Decisions -> window -> family -> equal mean over families."""
    nested: dict[str, list[float]] = {}
    for r in records:
        nested.setdefault(r["family"], []).extend(a / b for a, b in _pairs([r], column))
    return mean([mean(rates) for rates in nested.values() if rates])


def _ratio(records: Sequence[Record], column: Mapping[str, Any]) -> float:
    pairs = _pairs(records, column)
    below = math.fsum(b for _, b in pairs)
    return math.fsum(a for a, _ in pairs) / below if below else math.nan


def _sum(records: Sequence[Record], column: Mapping[str, Any]) -> float:
    values = _known(records, column)
    return math.fsum(values) if values else math.nan


HOWS: dict[str, Callable[[Sequence[Record], Mapping[str, Any]], float | int | None]] = {
    "mean": _mean,
    "sum": _sum,
    "min": lambda records, column: min(_known(records, column), default=None),
    "max": lambda records, column: max(_known(records, column), default=None),
    "count": lambda records, column: len(records),
    "ratio": _ratio,
    "cvar20": lambda records, column: cvar20(values) if (values := _known(records, column)) else None,
    "family_mean": _family_mean,
    "family_min": lambda records, column: min(_family_means(records, column).values(), default=None),
    "family_max": lambda records, column: max(_family_means(records, column).values(), default=None),
    "cluster_low": lambda records, column: _cluster(records, column, 1),
    "cluster_high": lambda records, column: _cluster(records, column, 2),
    "rate_family_mean": _rate_family_mean,
}
"""How a column is computed from the windows of its group."""


# -------------------------------------------------------------------- checks


def cell(tables: Sequence[Mapping[str, Any]], place: Mapping[str, Any]) -> Any:
    """The value at `{"table": name, "row": [values of the group], "column": name}`."""
    table = next((t for t in tables if t["name"] == place.get("table")), None)
    if table is None:
        raise InputError("check.from.table", repr(place.get("table")), f"one of {[t['name'] for t in tables]}")
    names = [c["name"] for c in table["columns"]]
    key, size = list(place.get("row") or []), len(table["group"])
    line = next((line for line in table["rows"] if line[:size] == key), None)
    if line is None:
        raise InputError(f"check.from.row of table {table['name']!r}", key, "the values of one of its rows")
    if place.get("column") not in names:
        raise InputError(f"check.from.column of table {table['name']!r}", repr(place.get("column")), f"one of {names}")
    return line[size + names.index(place["column"])]


def cell_check(
    name: str, table: str, row: Sequence[str], column: str, op: str = "==", right: float = 0
) -> dict[str, Any]:
    """A condition on a cell of a table, as `check_row` takes it."""
    return {"name": name, "from": {"table": table, "row": list(row), "column": column}, "op": op, "right": right}


def check_row(spec: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A check with `pass` computed; its `left` too, if `from` says where in the tables it stands."""
    left = cell(tables, spec["from"]) if spec.get("from") is not None else spec["left"]
    if isinstance(left, float) and not math.isfinite(left):
        left = None
    return {**spec, "left": left, "pass": holds(left, spec["op"], spec["right"])}
