"""The page of `ucsearch decide`: all decisions with their reasons on one page, to sort and filter without a network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ucsearch.allocation.api import Allocation
from ucsearch.allocation.show import TODAY
from ucsearch.errors import UCSearchError
from ucsearch.planner.decide.rows import PLACE, REFUSED
from ucsearch.planner.files.table import open_table
from ucsearch.planner.settings import Settings
from ucsearch.records.files import whole_file
from ucsearch.report.charts import spark
from ucsearch.report.page import render_page
from ucsearch.report.text import number

__all__ = ["DecidePage", "last_run"]

_NEXT = 3  # in line for more of a limit, that are named
_DRAWN = 8  # periods in the picture of a row: this one and those planned after it
MOST = 5_000  # rows on a page; a browser takes a second or two for them
_FIRST = ("HOLD", REFUSED, "FALLBACK", "OVERRIDDEN", "RELEASED")  # who needs a person comes first
_TONES = {"HOLD": "bad", REFUSED: "bad", "FALLBACK": "warn", "OVERRIDDEN": "warn", "RELEASED": "good"}
_MEANING = {
    "RELEASED": "the planned action, which met every condition of the gate",
    "FALLBACK": "the cautious action, allowed but not proved",
    "HOLD": "nothing is sent: a person has to decide",
    REFUSED: "the rows of this series could not be used",
    "OVERRIDDEN": "a person's order, in place of the decision",
}

_PAGE = """{% extends "base" %}{% from "parts" import tiles, tag, filter, num with context %}
{% block body %}
<p class="lead">{{ count_text(total, "series", "series") }} decided{% if dates %} for {{ dates }}{% endif %}.
{% if attention %}<strong>{{ attention }} need{{ "s" if attention == 1 else "" }} a person.</strong>
{% else %}None needs your attention.{% endif %}</p>
{{ tiles(summary) }}
<p class="note">{% for name, text in meanings %}<strong>{{ name }}</strong>: {{ text }}.
{% endfor %}Money is in {{ money }}, quantities in {{ units }}.</p>
{% if has.before %}<p class="note">Last run: what {{ out }} held before this run. The figure beside it is the
difference.</p>
{% endif %}
{% if unshared %}<p><strong>{{ unshared }}</strong></p>{% endif %}
{% if limits %}
<h2>Shared limits</h2>
<table class="stack roomy" role="table"><thead><tr><th scope="col">Limit</th><th scope="col" class="n">Used</th>
<th scope="col" class="n">Of</th><th scope="col" class="n">One more unit is worth [{{ money }}]</th>
<th scope="col" class="n">Series that got less</th><th scope="col">Next in line</th></tr></thead><tbody>
{% for l in limits %}<tr role="row"><th scope="row" role="rowheader">{{ l.name }}</th>
{{ num(l.used, "Used") }}{{ num(l.limit, "Of") }}
{{ num(l.price, "One more unit is worth", 4) }}{{ num(l.cut, "Got less") }}
<td data-head="Next in line">{{ l.next|join(", ") }}</td></tr>
{% endfor %}</tbody></table>
<p class="note">{{ today }}</p>
{% endif %}
{% if total > rows|length %}<p class="note">Shown are {{ count_text(rows|length, "series", "series") }}, those that need
a person first; all are in {{ out }}.</p>{% endif %}
{{ filter("decisions", "Search series, reason, words", groups, "Outcome") }}
<div class="wide" tabindex="0" role="region" aria-label="Decisions">
<table id="decisions" class="sortable stack roomy" role="table">
<thead><tr><th scope="col">Series</th><th scope="col">Outcome</th>
{% if orders %}<th scope="col" class="n">Order [{{ units }}]</th>{% else %}
<th scope="col" class="n">Action</th>{% endif %}
{% if not dates and has.date %}<th scope="col">Date</th>{% endif %}
{% if limits %}<th scope="col" class="n">Without the limit</th>{% endif %}
{% if has.before %}<th scope="col" class="n">Last run</th>{% endif %}
{% if has.arrival %}<th scope="col">Arrives</th>{% endif %}
{% if orders %}<th scope="col" class="n">Stock</th>{% endif %}
<th scope="col" class="n">Expected cost</th>
{% if has.fallback_cost %}<th scope="col" class="n">Cost of falling back</th>{% endif %}
{% if has.plan %}<th scope="col">Now and next</th>{% endif %}
<th scope="col">Why</th></tr></thead>
<tbody>
{% for r in rows %}
<tr role="row" data-group="{{ r.outcome }}"><th scope="row" role="rowheader" class="long">{{ r.series }}</th>
<td data-head="Outcome" data-v="{{ r.outcome }}">{{ tag(r.outcome, tones[r.outcome]) }}</td>
{{ num(r.order if orders else r.action, "Order" if orders else "Action") }}
{% if not dates and has.date %}<td class="day" data-head="Date">{{ r.date }}</td>{% endif %}
{% if limits %}{{ num(r.alone, "Without the limit") }}{% endif %}
{% if has.before %}<td class="n" data-head="Last run" data-v="{{ r.before if r.before is number else '' }}">
{%- if r.before is number %}{{ r.before|figure }}{% if r.moved %} <span class="tag plain">{{ r.moved }}</span>
{%- endif %}{% elif r.before %}{{ r.before }}{% endif %}</td>{% endif %}
{% if has.arrival %}<td class="day" data-head="Arrives">{{ r.arrival }}</td>{% endif %}
{% if orders %}{{ num(r.stock, "Stock") }}{% endif %}
{{ num(r.expected_cost, "Expected cost", 2) }}
{% if has.fallback_cost %}{{ num(r.fallback_cost, "Cost of falling back", 2) }}{% endif %}
{% if has.plan %}<td data-head="Now and next" data-v="{{ r.next }}">{{ r.plan }}</td>{% endif %}
<td class="why" data-head="Why" data-v="{{ r.reason }}">
{% if r.problem and r.problem not in r.sentence %}<p>{{ r.problem }}</p>{% endif %}
{% if r.note %}<p class="binds">{{ r.note }}</p>{% endif %}
<details{% if r.outcome in ("HOLD", "REFUSED", "OVERRIDDEN") %} open{% endif %}><summary>
{%- if r.outcome == "OVERRIDDEN" %}a person decided
{%- elif r.reason != "none" %}{{ r.reason|replace("_", " ") }}{% else %}passed the gate
{%- if r.regret_bound %}, may lose at most {{ r.regret_bound|figure }}{% endif %}{% endif %}</summary>
<p>{{ r.sentence }}</p>
{% if r.next_orders %}<p>Planned next: {{ r.next_orders }}.</p>{% endif %}
<p class="note">certificate <code>{{ r.certificate[:16] }}</code></p></details></td></tr>
{% endfor %}
</tbody></table></div>
<h2>Look further</h2>
<p>Show why, with every alternative; try other numbers; order something else; list the orders in force:</p>
<pre><code>ucsearch explain SERIES
ucsearch explain SERIES --set NAME=VALUE
ucsearch override SERIES QUANTITY --who NAME --why REASON
ucsearch orders</code></pre>
{% endblock %}"""


class DecidePage:
    """Takes rows as they come and keeps those that a page can hold."""

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        self._count = 0

    def add(self, row: Sequence[Any]) -> None:
        kept = self._kept.setdefault(row[PLACE["outcome"]], [])
        if len(kept) < MOST:
            kept.append((self._count, {name: row[i] for name, i in PLACE.items()}))
        self._count += 1

    def _rows(self) -> list[dict[str, Any]]:
        """Those that need a person first, otherwise in the order of the file."""
        rank = {name: i for i, name in enumerate(_FIRST)}
        found = sorted(self._kept.items(), key=lambda item: rank.get(item[0], len(rank)))
        return [row for _, rows in found for _, row in rows][:MOST]

    def write(
        self, path: str | Path, outcomes: Mapping[str, int], fallback: tuple[float, int], settings: Settings, out: Path,
        log: Path, *, orders: bool, allocation: Allocation | None = None, before: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """The page, whole or not at all. `fallback`: what falling back is expected to cost, and the number of series
        with unknown cost. `before`: orders or actions of the last run, by series."""
        rows = self._rows()
        own = "order" if orders else "action"
        for row in rows:
            row |= _drawn(row, own) | _compared(row, own, before)
        total, money = sum(outcomes.values()), settings.currency or "units of reward"
        present = [name for name in _FIRST if outcomes.get(name)]
        summary: list[tuple[str, Any]] = [(name.capitalize(), f"{outcomes[name]:,}") for name in present]
        summary += _totals(rows, total, settings, before, orders=orders)
        if outcomes.get("FALLBACK", 0) > fallback[1]:
            summary.append((f"Falling back is expected to cost [{money}]", f"{fallback[0]:,.2f}"))
        if fallback[1]:
            summary.append(("Fell back at an unknown cost", f"{fallback[1]:,}"))
        columns = ("date", "arrival", "fallback_cost", "before", "plan")
        days = sorted({row["date"] for row in rows} - {""})
        text = render_page(
            _PAGE, title="Decisions", footer="Made by ucsearch decide. Nothing on this page is fetched from elsewhere.",
            rows=rows, total=total, summary=summary, orders=orders, units=settings.units, money=money,
            attention=sum(outcomes.get(name, 0) for name in ("HOLD", REFUSED)),
            groups=[(name, outcomes[name]) for name in present] if len(present) > 1 else [],
            meanings=[(name, _MEANING[name]) for name in present], tones=_TONES,
            has={name: any(row[name] not in (None, "") for row in rows) for name in columns},
            dates=days[0] if len(days) == 1 else "", out=str(out), log=str(log), limits=_limits(allocation),
            unshared="" if allocation is None or allocation.served else allocation.explain(0), today=TODAY,
        )  # fmt: skip
        with whole_file(path) as file:
            file.write(text.encode("utf-8"))


def last_run(decisions: Path, *, orders: bool) -> dict[str, float]:
    """Orders (or actions) of the run before, by series, from the file that this run replaces; none where it is not
    there or is no file of decisions."""
    own = "order" if orders else "action"
    if not decisions.is_file():
        return {}
    try:
        table = open_table(decisions)
        if not {"series", own} <= set(table.columns):
            return {}
        found: dict[str, float] = {}
        for block in table.blocks(["series", own]):
            found |= zip(block.texts("series"), block.numbers(own)[0].tolist(), strict=True)
    except UCSearchError:
        return {}
    return found


def _drawn(row: Mapping[str, Any], own: str) -> dict[str, Any]:
    """A picture of what leaves now and of what is planned after it; amounts of two suppliers stay words."""
    from markupsafe import Markup

    words = (row["next_orders"] or "").split(" (")[0].split()
    try:
        planned = [float(word) for word in words]
    except ValueError:
        planned = []
    if not isinstance(row[own], float) or not planned:
        return {"plan": " ".join(words[:_DRAWN]), "next": ""}
    values = [row[own], *planned][:_DRAWN]
    told = f"now {number(values[0])}, then {', '.join(map(number, values[1:]))}"
    return {"plan": Markup(spark(values, told)), "next": values[1]}


def _compared(row: Mapping[str, Any], own: str, before: Mapping[str, float] | None) -> dict[str, Any]:
    """What the last run sent for this series, and by how much this run differs."""
    if not before:
        return {"before": None, "moved": ""}
    old = before.get(row["series"])
    if old is None:
        return {"before": "new", "moved": ""}
    if math.isnan(old):
        return {"before": "nothing", "moved": ""}
    now = row[own]
    moved = f"{'+' if now > old else '−'}{number(abs(now - old))}" if isinstance(now, float) and now != old else ""
    return {"before": old, "moved": moved}


def _totals(
    rows: Sequence[Mapping[str, Any]], total: int, settings: Settings, before: Mapping[str, float] | None, *,
    orders: bool,
) -> list[tuple[str, Any]]:  # fmt: skip
    """What is sent in all; left out where the page does not hold all rows."""
    if total > len(rows):
        return []
    found: list[tuple[str, Any]] = []
    if orders:
        sent = [row["order"] for row in rows if row["order"]]
        found += [("Series that order", f"{len(sent):,}")]
        found += [(f"Ordered in all [{settings.units}]", number(math.fsum(sent)))]
    costs = [row["expected_cost"] for row in rows if row["expected_cost"] is not None]
    if costs:
        money = settings.currency or "units of reward"
        found.append((f"Expected cost in all [{money}]", f"{math.fsum(costs):,.2f}"))
    if before:
        found.append(("Changed since the last run", f"{sum(bool(row['moved']) for row in rows):,}"))
        gone = len(before.keys() - {row["series"] for row in rows})
        if gone:
            found.append(("In the last run only", f"{gone:,}"))
    return found


def _limits(allocation: Allocation | None) -> list[dict[str, Any]]:
    """Every shared limit: how full it is, its price, who would get more of it first."""
    result = None if allocation is None else allocation.result
    if allocation is None or result is None or not allocation.served:
        return []
    cut: dict[str, int] = {}
    for share in allocation.shares:
        if share.binding and share.action != share.alone:
            cut[share.binding] = cut.get(share.binding, 0) + 1
    return [
        {"name": p.resource, "limit": p.limit, "used": p.used, "price": p.shadow_price, "cut": cut.get(p.resource, 0),
         "next": [name for name, *_ in result.next_in_line(p.resource, _NEXT)] if p.binds else []}
        for p in result.table()
    ]  # fmt: skip
