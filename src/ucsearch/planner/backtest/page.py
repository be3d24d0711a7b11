"""The page of `ucsearch backtest`: what every policy would have cost, with differences and intervals, on one page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ucsearch.planner.backtest.result import GIVEN, HINDSIGHT, POLICY, BacktestResult
from ucsearch.planner.files.calendar import one_period
from ucsearch.records.files import whole_file
from ucsearch.report.charts import curves, intervals, key, stacked
from ucsearch.report.page import render_page

__all__ = ["write_backtest_page"]

MOST = 5_000  # series listed
_PARTS = {"holding_cost": "holding", "shortage_cost": "shortage", "ordering_cost": "ordering"}
_WORDS = {
    POLICY: "what decide would have sent, fallbacks included",
    HINDSIGHT: "the cheapest orders of all, had demand been known",
    GIVEN: "your policy before it was tuned",
}

_PAGE = """{% extends "base" %}{% from "parts" import headline_of, by_series, fallbacks, unusable, num with context %}
{% block body %}
{{ headline_of(headline, summary) }}
<div class="wide" tabindex="0" role="region" aria-label="Policies">
<table class="sortable"><thead><tr><th scope="col">Policy</th><th scope="col" class="n">Cost [{{ money }}]</th>
{% if revenue %}<th scope="col" class="n">Profit [{{ money }}]</th>{% endif %}
{% for part in parts %}<th scope="col" class="n">{{ part|capitalize }}</th>{% endfor %}
<th scope="col" class="n">Policy saves</th><th scope="col" class="n">95 % interval</th>
<th scope="col" class="n">Fill rate [%]</th><th scope="col" class="n">Service level [%]</th>
<th scope="col" class="n">Stock [{{ units }}]</th><th scope="col" class="n">Orders</th></tr></thead><tbody>
{% for r in rows %}<tr{% if r.ours %} class="ours"{% endif %}><th scope="row">{{ r.name }}</th>
{{ num(r.cost, "Cost", 2) }}
{% if revenue %}{{ num(r.profit, "Profit", 2) }}{% endif %}
{% for x in r.parts %}{{ num(x, "", 2) }}{% endfor %}
<td class="n" data-v="{{ r.share if r.share is number else '' }}">{% if r.share is number %}
{{- r.share|signed(1) }} %{% endif %}</td>
<td class="n" data-v="{{ r.low if r.low is number else '' }}">{% if r.low is number %}
{{- r.low|signed(1) }} to {{ r.high|signed(1) }} %{% endif %}</td>
{{ num(r.fill, "", 1) }}{{ num(r.service, "", 1) }}{{ num(r.stock, "", 1) }}{{ num(r.orders, "", 0) }}</tr>
{% endfor %}</tbody></table></div>
<p class="note">Policy saves: share of the other's cost that your policy saves, below 0 it costs more; the interval is
over {{ count }} series, paired{% if few %}, and needs more of them{% endif %}. Fill rate: share of demand served from
stock in its own period; service level: share of periods without a shortage.</p>
<div class="figures"><div>{{ bars }}{{ legend }}</div>{{ forest }}{{ course }}</div>
{% for line in notes %}<p>{{ line }}</p>{% endfor %}
{{ fallbacks(reasons) }}
{% if chosen %}<h2>What tuning chose</h2><p class="note">On the {{ earlier }} periods before those that are counted.</p>
<div class="wide"><table class="roomy"><thead><tr><th scope="col">Rule</th><th scope="col">Chosen</th>
<th scope="col" class="n">Settings tried</th></tr></thead><tbody>
{% for name, told, tries in chosen %}<tr><td>{{ name }}</td><td>{{ told }}</td>{{ num(tries, "") }}</tr>
{% endfor %}</tbody></table></div>{% endif %}
{{ by_series(series|length, total, money) }}
{% if rival %}<th scope="col" class="n">{{ rival }} [{{ money }}]</th>
<th scope="col" class="n">Saved [{{ money }}]</th>{% endif %}<th scope="col" class="n">Fill rate [%]</th>
<th scope="col" class="n">Stock [{{ units }}]</th><th scope="col" class="n">Orders</th></tr></thead><tbody>
{% for r in series %}<tr><th scope="row" class="long">{{ r.name }}</th>{{ num(r.own, "", 2) }}
{% if rival %}{{ num(r.other, "", 2) }}{{ num(r.saved, "", 2) }}{% endif %}
{{ num(r.fill, "", 1) }}{{ num(r.stock, "", 1) }}{{ num(r.orders, "", 0) }}</tr>
{% endfor %}</tbody></table></div>
{{ unusable(problems) }}{% endblock %}"""


def write_backtest_page(result: BacktestResult, path: str | Path) -> None:
    """The page, whole or not at all."""
    from markupsafe import Markup

    s, rival = result.settings, result.hardest()
    money = s.currency or "currency"
    periods = result.tracks[POLICY].cost.shape[1]
    parts = list(_PARTS.values())
    rows = [_row(result, name) for name in result.tracks]
    bars = stacked("cost", f"Cost by part [{money}]", [(r["name"], r["parts"]) for r in rows], parts, money)
    against = [(r["name"], r["share"], r["low"], r["high"]) for r in rows if r["name"] not in (POLICY, HINDSIGHT)]
    caption = "To the right of zero your policy is cheaper; an interval across zero is open."
    text = render_page(
        _PAGE, title="Backtest", footer="Made by ucsearch backtest. Nothing on this page is fetched from elsewhere.",
        headline=result.headline() or "What each policy would have cost", money=money, units=s.units, parts=parts,
        summary=[("Series", f"{len(result.series):,}"), ("Periods", f"{periods} of {one_period(s.period)}"),
                 ("Released", f"{100.0 * result.released:.1f} %")],
        rows=rows, revenue=any(t.revenue.any() for t in result.tracks.values()), count=len(result.series),
        few=any(not math.isfinite(low) for _, _, low, _ in against),
        # Made of escaped text by the helpers themselves.
        bars=Markup(bars), legend=Markup(key(parts)),
        forest=Markup(intervals("saves", "What the policy saves, %", against, " %", caption) if against else ""),
        course=Markup(curves("course", "Cumulative cost", _course(result, rival), money, one_period(s.period))),
        notes=[*([f"No hindsight: {result.no_hindsight}."] if result.no_hindsight else []), *result.notes,
               *(f"{name}: {_WORDS[name]}." for name in result.tracks if name in _WORDS)],
        reasons=sorted(result.reasons.items(), key=lambda x: (-x[1], x[0])), earlier=result.earlier,
        chosen=[(n, one.text(), one.tries) for n, one in result.knobs.items()],
        series=[_series(result, i, rival) for i in range(min(len(result.series), MOST))], total=len(result.series),
        rival=rival or "", problems=[str(p) for p in result.problems if p.refuses][:100],
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def _course(result: BacktestResult, rival: str | None) -> list[tuple[str, list[float]]]:
    """Cumulative cost of all series by period."""
    names = [name for name in (POLICY, rival, HINDSIGHT) if name in result.tracks]
    return [(str(name), result.tracks[str(name)].cost.sum(axis=0).cumsum().tolist()) for name in names]


def _row(result: BacktestResult, name: str) -> dict[str, Any]:
    f = result.tracks[name].figures()
    a = None if name == POLICY else result.against(name)
    low, high = (a.low, a.high) if a is not None and a.ends.is_known else (math.nan, math.nan)
    return {
        "name": name, "ours": name == POLICY, "cost": f["cost"], "profit": f["revenue"] - f["cost"],
        "parts": [f[k] for k in _PARTS], "fill": 100.0 * f["fill_rate"], "service": 100.0 * f["service_level"],
        "stock": f["average_stock"], "orders": f["orders"],
        "share": math.nan if a is None else 100.0 * a.share, "low": 100.0 * low, "high": 100.0 * high,
    }  # fmt: skip


def _series(result: BacktestResult, i: int, rival: str | None) -> dict[str, Any]:
    own = result.tracks[POLICY].of(i)
    f = own.figures()
    other = None if rival is None else float(result.tracks[rival].net[i])
    cost = float(own.net[0])
    return {
        "name": result.series[i], "own": cost, "other": other, "saved": None if other is None else other - cost,
        "fill": 100.0 * f["fill_rate"], "stock": f["average_stock"], "orders": f["orders"],
    }  # fmt: skip
