"""The page of `ucsearch backtest` for storage, capacity and interventions: every policy with its interval."""

from __future__ import annotations

import math
from pathlib import Path

from ucsearch.planner.backtest.result import HINDSIGHT, POLICY
from ucsearch.planner.backtest.result_any import AnyResult
from ucsearch.planner.files.calendar import one_period
from ucsearch.records.files import whole_file
from ucsearch.report.charts import curves, intervals
from ucsearch.report.page import render_page

__all__ = ["write_any_page"]

MOST = 5_000  # series listed

_PAGE = """{% extends "base" %}{% from "parts" import headline_of, by_series, fallbacks, unusable, num with context %}
{% block body %}
{{ headline_of(headline, summary) }}
<div class="wide" tabindex="0" role="region" aria-label="Policies">
<table class="sortable"><thead><tr><th scope="col">Policy</th>
<th scope="col" class="n">{{ word|capitalize }} [{{ money }}]</th>
<th scope="col" class="n">Policy better by [{{ money }} per {{ unit }}]</th><th scope="col" class="n">95 % interval</th>
{% for name in columns %}<th scope="col" class="n">{{ name|capitalize }}</th>{% endfor %}</tr></thead><tbody>
{% for r in rows %}<tr{% if r.ours %} class="ours"{% endif %}><th scope="row">{{ r.name }}</th>
{{ num(r.total, "", 2) }}{{ num(r.mean, "", 2) }}
<td class="n">{% if r.low is number %}{{ r.low|signed(2) }} to {{ r.high|signed(2) }}{% endif %}</td>
{% for x in r.figures %}{{ num(x, "", 1) }}{% endfor %}</tr>
{% endfor %}</tbody></table></div>
<p class="note">Below 0 your policy did worse. Intervals are over {{ unit }}s, paired.</p>
<div class="figures">{{ forest }}{{ course }}</div>
{% for line in notes %}<p>{{ line }}</p>{% endfor %}
{{ fallbacks(reasons) }}
{{ by_series(series|length, total, money) }}
{% if rival %}<th scope="col" class="n">{{ rival }} [{{ money }}]</th>
<th scope="col" class="n">Better by [{{ money }}]</th>{% endif %}</tr></thead><tbody>
{% for r in series %}<tr><th scope="row" class="long">{{ r.name }}</th>{{ num(r.own, "", 2) }}
{% if rival %}{{ num(r.other, "", 2) }}{{ num(r.ahead, "", 2) }}{% endif %}</tr>
{% endfor %}</tbody></table></div>
{{ unusable(problems) }}{% endblock %}"""


def write_any_page(result: AnyResult, path: str | Path) -> None:
    """The page, whole or not at all."""
    from markupsafe import Markup

    s, rival = result.settings, result.hardest()
    rows, against = [], []
    for name in result.tracks:
        found = None if name == POLICY else result.difference(name)
        mean, low, high = (math.nan,) * 3 if found is None else found
        known = found is not None and found.is_known
        rows.append({
            "name": name, "ours": name == POLICY, "total": result.total(name), "mean": mean if found else None,
            "low": low if known else None, "high": high, "figures": [x for _, _, x in result.figures(name)],
        })  # fmt: skip
        if known and name not in (POLICY, HINDSIGHT):
            against.append((name, mean, low, high))
    caption = "To the right of zero your policy is better; an interval across zero is open."
    title = f"Policy better by, {result.money} per {result.unit}"
    series = []
    for i, name in enumerate(result.series[:MOST]):
        own = result.sign * float(result.tracks[POLICY].reward[i].sum())
        other = own if rival is None else result.sign * float(result.tracks[rival].reward[i].sum())
        series.append({"name": name, "own": own, "other": other, "ahead": result.sign * (own - other)})
    text = render_page(
        _PAGE, title="Backtest", footer="Made by ucsearch backtest. Nothing on this page is fetched from elsewhere.",
        headline=result.headline() or "What each policy would have done", money=result.money, word=result.word,
        unit=result.unit, columns=[f"{n} [{u}]" if u else n for n, u, _ in result.figures(POLICY)],
        summary=[("Series", f"{len(result.series):,}"),
                 ("Periods", f"{result.tracks[POLICY].reward.shape[1]} of {one_period(s.period)}"),
                 ("Released", f"{100.0 * result.released:.1f} %")],
        rows=rows, forest=Markup(intervals("better", title, against, "", caption)) if against else "",
        course=Markup(curves("course", f"Cumulative {result.word}", _course(result, rival), result.money)),
        notes=[*result.tuned(), *result.notes], reasons=sorted(result.reasons.items(), key=lambda x: (-x[1], x[0])),
        series=series, total=len(result.series), rival=rival or "",
        problems=[str(p) for p in result.problems if p.refuses][:100],
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def _course(result: AnyResult, rival: str | None) -> list[tuple[str, list[float]]]:
    """Cumulative profit or cost of all series by period."""
    names = [name for name in (POLICY, rival, HINDSIGHT) if name in result.tracks]
    total = {name: result.tracks[str(name)].reward.sum(axis=0).cumsum() for name in names}
    return [(str(name), (result.sign * values).tolist()) for name, values in total.items()]
