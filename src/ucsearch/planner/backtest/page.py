"""The page of `ucsearch backtest`: what every policy would have cost, with differences and intervals, on one page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ucsearch.planner.backtest.result import GIVEN, GREEDY, HINDSIGHT, POLICY, BacktestResult
from ucsearch.planner.files.calendar import one_period
from ucsearch.records.files import whole_file
from ucsearch.report.charts import curves, intervals, key, stacked
from ucsearch.report.page import render_page

__all__ = ["write_backtest_page"]

Columns = list[tuple[str, str, str]]  # key, name, unit

MOST = 5_000  # series listed
_WORDS = {
    POLICY: "what decide would have sent, fallbacks included",
    HINDSIGHT: "the best plan of all, had the outcomes been known",
    GIVEN: "your policy before it was tuned",
    GREEDY: "the same values of every order, the truck filled by value per litre without a price",
}

_PAGE = """{% extends "base" %}{% from "parts" import headline_of, by_series, fallbacks, unusable, num with context %}
{% block body %}
{{ headline_of(headline, summary) }}
<div class="wide" tabindex="0" role="region" aria-label="Policies">
<table class="sortable"><thead><tr><th scope="col">Policy</th>
<th scope="col" class="n">{{ word|capitalize }} [{{ money }}]</th>
{% if earns %}<th scope="col" class="n">Profit [{{ money }}]</th>{% endif %}
{% for name in costs %}<th scope="col" class="n">{{ name|capitalize }}</th>{% endfor %}
<th scope="col" class="n">{{ ahead }}</th><th scope="col" class="n">95 % interval</th>
{% for name in others %}<th scope="col" class="n">{{ name|capitalize }}</th>{% endfor %}</tr></thead><tbody>
{% for r in rows %}<tr{% if r.ours %} class="ours"{% endif %}><th scope="row">{{ r.name }}</th>
{{ num(r.total, word|capitalize, 2) }}
{% if earns %}{{ num(r.profit, "Profit", 2) }}{% endif %}
{% for x in r.costs %}{{ num(x, "", 2) }}{% endfor %}
<td class="n" data-v="{{ r.ahead if r.ahead is number else '' }}">{% if r.ahead is number %}
{{- r.ahead|signed(digits) }}{{ sign }}{% endif %}</td>
<td class="n" data-v="{{ r.low if r.low is number else '' }}">{% if r.low is number %}
{{- r.low|signed(digits) }} to {{ r.high|signed(digits) }}{{ sign }}{% endif %}</td>
{% for x in r.others %}{{ num(x, "", places[loop.index0]) }}{% endfor %}</tr>
{% endfor %}</tbody></table></div>
<p class="note">Below 0 your policy did worse; intervals are over {{ units }}, paired
{%- if few %}, and some need more of them{% endif %}.{% for name, told in shares %} {{ name|capitalize }}:
{{ told }}.{% endfor %}</p>
<div class="figures">{% if bars %}<div>{{ bars }}{{ legend }}</div>{% endif %}{{ forest }}{{ course }}</div>
{% for line in notes %}<p>{{ line }}</p>{% endfor %}
{{ fallbacks(reasons) }}
{% if chosen %}<h2>What tuning chose</h2><p class="note">On the {{ earlier }} periods before those that are counted.</p>
<div class="wide"><table class="roomy"><thead><tr><th scope="col">Rule</th><th scope="col">Chosen</th>
<th scope="col" class="n">Settings tried</th></tr></thead><tbody>
{% for name, told, tries in chosen %}<tr><td>{{ name }}</td><td>{{ told }}</td>{{ num(tries, "") }}</tr>
{% endfor %}</tbody></table></div>{% endif %}
{{ by_series(series|length, total, money) }}
{% if rival %}<th scope="col" class="n">{{ rival }} [{{ money }}]</th>
<th scope="col" class="n">Better by [{{ money }}]</th>{% endif %}
{% for name in others %}<th scope="col" class="n">{{ name|capitalize }}</th>{% endfor %}</tr></thead><tbody>
{% for r in series %}<tr><th scope="row" class="long">{{ r.name }}</th>{{ num(r.own, "", 2) }}
{% if rival %}{{ num(r.other, "", 2) }}{{ num(r.better, "", 2) }}{% endif %}
{% for x in r.others %}{{ num(x, "", 1) }}{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{{ unusable(problems) }}{% endblock %}"""


def write_backtest_page(result: BacktestResult, path: str | Path) -> None:
    """The page, whole or not at all."""
    from markupsafe import Markup

    s, rival, money, columns = result.settings, result.hardest(), result.money, result.columns()
    costs = [c for c in columns if c[0].endswith("_cost")]
    others = [c for c in columns if c not in costs]
    rows = [_row(result, name, costs, others) for name in _ranked(result)]
    # Counts have no decimal places.
    columns_of_others = zip(*(row["others"] for row in rows), strict=True)
    places = [0 if all(x == int(x) for x in column if math.isfinite(x)) else 1 for column in columns_of_others]
    names = [name for _, name, _ in costs]
    against = [(r["name"], r["ahead"], r["low"], r["high"]) for r in rows if r["name"] not in (POLICY, HINDSIGHT)]
    drawn = [row for row in against if math.isfinite(row[1])]
    sign = " %" if result.in_shares else ""
    title = "What the policy earns more, %" if result.earns else "What the policy saves, %"
    if not result.in_shares:
        title = f"Policy better by, {money} per {result.unit}"
    ahead = "Policy earns more" if result.earns else "Policy saves"
    if not result.in_shares:
        ahead = f"Policy better by [{money} per {result.unit}]"
    caption = "To the right of zero your policy is better; an interval across zero is open."
    bars, course = "", f"Cumulative {result.word}"
    if result.word == "cost":
        bars = stacked("cost", f"Cost by part [{money}]", [(r["name"], r["costs"]) for r in rows], names, money)
    shares = s.task.words(s.units, s.currency).shares
    text = render_page(
        _PAGE, title="Backtest", footer="Made by ucsearch backtest. Nothing on this page is fetched from elsewhere.",
        headline=result.headline() or "What each policy would have done", money=money, word=result.word,
        costs=names, others=[f"{name} [{unit}]" if unit else name for _, name, unit in others],
        summary=[("Series", f"{len(result.series):,}"),
                 ("Periods", f"{result.tracks[POLICY].reward.shape[1]} of {one_period(s.period)}"),
                 ("Released", f"{100.0 * result.released:.1f} %")],
        ahead=ahead,
        sign=sign, digits=1 if result.in_shares else 2, units=result.units,
        rows=rows, places=places, earns=any("profit" in r for r in rows),
        few=any(not math.isfinite(low) for _, _, low, _ in against),
        shares=[(name, told) for name, (_, _, told) in shares.items()],
        # Made of escaped text by the helpers themselves.
        bars=Markup(bars), legend=Markup(key(names)),
        forest=Markup(intervals("saves", title, drawn, sign, caption) if drawn else ""),
        course=Markup(curves("course", course, _course(result, rival), money, one_period(s.period))),
        notes=[*([f"No hindsight: {result.no_hindsight}."] if result.no_hindsight else []), *result.notes,
               *(f"{name}: {_WORDS[name]}." for name in result.tracks if name in _WORDS)],
        reasons=sorted(result.reasons.items(), key=lambda x: (-x[1], x[0])), earlier=result.earlier,
        chosen=[(n, chosen.text(), chosen.tries) for n, chosen in result.knobs.items()],
        series=[_series(result, i, rival, others) for i in range(min(len(result.series), MOST))],
        total=len(result.series), rival=rival or "", problems=[str(p) for p in result.problems if p.refuses][:100],
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def _ranked(result: BacktestResult) -> list[str]:
    """The policy first, then the others from the strongest on, hindsight last."""
    policies = [name for name in (POLICY, GIVEN) if name in result.tracks]
    last = [name for name in (HINDSIGHT,) if name in result.tracks]
    others = [name for name in result.tracks if name not in (*policies, *last)]
    return [*policies, *sorted(others, key=lambda name: float(result.tracks[name].net.sum())), *last]


def _shown(result: BacktestResult, reward: Any) -> Any:
    """A cost as a cost, a profit as a profit."""
    return -reward if result.word == "cost" else reward


def _course(result: BacktestResult, rival: str | None) -> list[tuple[str, list[float]]]:
    """Cumulative cost or profit of all series by period."""
    names = [str(name) for name in (POLICY, rival, HINDSIGHT) if name in result.tracks]
    return [(name, _shown(result, result.tracks[name].reward.sum(axis=0).cumsum()).tolist()) for name in names]


def _row(result: BacktestResult, name: str, costs: Columns, others: Columns) -> dict[str, Any]:
    figures = result.figures(name)
    row: dict[str, Any] = {
        "name": name, "ours": name == POLICY, "total": figures[result.word],
        "costs": [figures.get(key, math.nan) for key, _, _ in costs], "others": _cells(figures, others),
        "ahead": math.nan, "low": math.nan, "high": math.nan,
    }  # fmt: skip
    if result.earns:
        row["profit"] = -float(result.tracks[name].net.sum())
    if name == POLICY:
        return row
    against = result.against(name)
    row["ahead"] = 100.0 * against.share if result.in_shares else against.money.mean
    if against.ends.is_known:
        row["low"], row["high"] = (
            (100.0 * against.low, 100.0 * against.high) if result.in_shares else against.money[4:6]
        )
    return row


def _cells(figures: dict[str, float], columns: Columns) -> list[float]:
    return [(100.0 if unit == "%" else 1.0) * figures.get(key, math.nan) for key, _, unit in columns]


def _series(result: BacktestResult, i: int, rival: str | None, others: Columns) -> dict[str, Any]:
    figures = result.tracks[POLICY].of(i)
    reward = float(figures.reward.sum())
    rivals = None if rival is None else float(result.tracks[rival].reward[i].sum())
    return {
        "name": result.series[i],
        "own": _shown(result, reward),
        "others": _cells(figures.figures(result.settings.task), others),
        "other": None if rivals is None else _shown(result, rivals),
        "better": None if rivals is None else reward - rivals,
    }
