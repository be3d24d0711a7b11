"""A page to look at: whether the forecast intervals were right, as one HTML file without a network."""

from __future__ import annotations

from pathlib import Path

from ucsearch.planner.calibrate import LEVEL, CalibrateResult, Variant
from ucsearch.records.files import whole_file
from ucsearch.report.page import render_page

__all__ = ["write_page"]

_PAGE = """{% extends "base" %}{% block body %}
<p>{{ r.series }} series, {{ r.origins }} past forecasts each, {{ r.horizon }} periods ahead, season {{ r.season }};
model {{ r.model }}.
Errors are relative to the mean of each series.</p>
<p class="lead"><strong>{{ verdict }}</strong></p>
<div class="wide" tabindex="0" role="region" aria-label="Figures"><table class="roomy"><thead><tr><th></th>
{% for v in r.variants %}<th scope="col" class="n">{{ v.name }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr><th scope="row">{{ row[0] }}</th>
{% for x in row[1:] %}<td class="n">{{ x }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
<ul class="key">{% for v in r.variants %}<li><svg viewBox="0 0 20 12" aria-hidden="true">
<rect class="{{ colours[loop.index0 % 2] }}" width="16" height="12"/></svg>{{ v.name }}</li>
{% endfor %}<li>dashed line: what it should be</li></ul>
<h2>In pictures</h2>
<div class="figures charts">{% for chart in charts %}
<div><h3>{{ chart.title }}</h3><p class="note">{{ chart.note }}</p>
<svg viewBox="0 0 {{ chart.width }} 232" role="img" style="max-width:{{ chart.width }}px"
aria-label="{{ chart.title }}">
<text class="s" x="2" y="8">{{ chart.axis }}</text>
{% for tick in chart.ticks %}<line class="grid" x1="{{ chart.left }}" x2="{{ chart.width }}" y1="{{ tick.y }}"
y2="{{ tick.y }}"/><text class="s" x="{{ chart.left - 4 }}" y="{{ tick.y }}" dy="3"
text-anchor="end">{{ tick.text }}</text>
{% endfor %}{% for bar in chart.bars %}<rect class="{{ bar.kind }}" x="{{ bar.x }}" y="{{ bar.y }}" width="{{ bar.w }}"
height="{{ bar.h }}"><title>{{ bar.told }}</title></rect>
{% endfor %}{% for line in chart.labels %}<text class="s" x="{{ line.x }}" y="212"
text-anchor="middle">{{ line.text }}</text>
{% endfor %}<text class="s" x="{{ chart.width }}" y="228" text-anchor="end">{{ chart.across }}</text>
{% if chart.nominal is not none %}<line class="least" x1="{{ chart.left }}" x2="{{ chart.width }}"
y1="{{ chart.nominal }}" y2="{{ chart.nominal }}"/>{% endif %}
</svg></div>{% endfor %}</div>
<h2>Coverage by phase of the season, worst first</h2>
<p class="note">Share of outcomes inside the {{ level }} % interval. Forecasts can be right on average and wrong by
phase.</p>
<div class="figures charts">{% for v in r.variants %}<div><h3>{{ v.name }}</h3>
<div class="wide" tabindex="0" role="region" aria-label="Phases"><table class="sortable roomy"><thead><tr>
<th scope="col">Phase</th><th scope="col" class="n">Covered</th><th scope="col" class="n">Bias</th>
<th scope="col" class="n">Forecasts</th></tr></thead><tbody>
{% for p in v.phases[:24] %}<tr><th scope="row">{{ p.label }}</th>
<td class="n" data-v="{{ p.coverage }}">{{ '%.1f' % (100 * p.coverage) }} %</td>
<td class="n" data-v="{{ p.bias }}">{{ '%+.3f' % p.bias }}</td><td class="n">{{ p.count }}</td></tr>
{% else %}<tr><td colspan="4">no season</td></tr>{% endfor %}</tbody></table></div></div>{% endfor %}</div>
{% endblock %}"""

_COLOURS = ("fill-other", "fill-main")  # as they are, recalibrated
_TOP, _BOTTOM, _LEFT = 18.0, 195.0, 44  # _LEFT: room for the figures of the y axis


def write_page(result: CalibrateResult, path: str | Path) -> None:
    """One HTML file, whole or not at all; every text is escaped."""
    charts = [_coverage(result), _phases(result), _pit(result), _crps(result)]
    text = render_page(
        _PAGE, title="Were the forecast intervals right?", colours=_COLOURS, level=f"{100 * LEVEL:g}",
        footer="Made by ucsearch calibrate. Nothing on this page is fetched from elsewhere.",
        r=result, verdict=result.verdict(), rows=_rows(result), charts=[c for c in charts if c["bars"]],
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def _rows(r: CalibrateResult) -> list[list[str]]:
    rows = []
    for i, level in enumerate(r.variants[0].report.levels):
        told = [f"{100 * v.report.coverage[i]:.1f} %" for v in r.variants]
        rows.append([f"inside the {100 * level:g} % interval", *told])
    rows.append(["bias", *(f"{v.bias_by_step.mean():+.3f}" for v in r.variants)])
    rows.append(["CRPS", *(f"{v.report.crps:.4f}" for v in r.variants)])
    rows.append(["PIT distance (0 is perfect)", *(f"{v.report.pit_distance:.3f}" for v in r.variants)])
    return rows


def _chart(
    title: str,
    note: str,
    labels: list[str],
    values: list[list[float]],
    top: float,
    nominal: float | None,
    axis: str,
    unit: str,
    across: str,
) -> dict[str, object]:
    """Bars side by side: values by variant and place."""
    count = len(values)
    slot = max(18.0, min(60.0, 760.0 / max(1, len(labels))))
    bars, names = [], []
    for k, label in enumerate(labels):
        for i, row in enumerate(values):
            share = min(max(row[k] / top, 0.0), 1.0) if top > 0.0 else 0.0
            high = share * (_BOTTOM - _TOP)
            bars.append({
                "kind": _COLOURS[i % 2], "x": f"{_LEFT + k * slot + i * (slot - 4) / count:.1f}",
                "y": f"{_BOTTOM - high:.1f}", "w": f"{(slot - 4) / count:.1f}", "h": f"{high:.1f}",
                "told": f"{label}: {row[k]:.3g}{unit}",
            })  # fmt: skip
        if len(labels) <= 30 or k % 4 == 0:
            names.append({"x": f"{_LEFT + k * slot + (slot - 4) / 2:.1f}", "text": label[:9]})
    at = None if nominal is None else f"{_BOTTOM - min(nominal / top, 1.0) * (_BOTTOM - _TOP):.1f}"
    ticks = [
        {"y": f"{_BOTTOM - part * (_BOTTOM - _TOP):.1f}", "text": f"{part * top:.3g}{unit}"} for part in (0.0, 0.5, 1.0)
    ]
    return {
        "title": title, "note": note, "bars": bars, "labels": names, "nominal": at, "axis": axis, "across": across,
        "ticks": ticks,
        "left": _LEFT, "width": f"{_LEFT + 10 + slot * len(labels):.0f}",
    }  # fmt: skip


def _coverage(r: CalibrateResult) -> dict[str, object]:
    at = r.variants[0].report.levels.index(LEVEL)
    values = [(100.0 * v.report.coverage_by_step[at]).tolist() for v in r.variants]
    note = f"Share inside the {100 * LEVEL:g} % interval, by periods ahead."
    steps = [str(h + 1) for h in range(r.horizon)]
    level = 100.0 * LEVEL
    return _chart("Coverage by horizon", note, steps, values, 100.0, level, "outcomes inside", " %", "periods ahead")


def _phases(r: CalibrateResult) -> dict[str, object]:
    order = [p.label for p in r.variants[0].phases][:48]
    by_label = [{p.label: 100.0 * p.coverage for p in v.phases} for v in r.variants]
    note = f"Share inside the {100 * LEVEL:g} % interval; the worst phase of the forecasts as they are comes first."
    values = [[known[label] for label in order] for known in by_label]
    level, across = 100.0 * LEVEL, "phase of the season"
    return _chart("Coverage by phase", note, order, values, 100.0, level, "outcomes inside", " %", across)


def _pit(r: CalibrateResult) -> dict[str, object]:
    values = [[100.0 * share for share in _shares(v)] for v in r.variants]
    bins = len(values[0])
    labels = [f"{100 * k // bins}-{100 * (k + 1) // bins}" for k in range(bins)]
    note = "Where outcomes fell among the sample paths. High ends: too narrow. A hill: too wide. A slope: biased."
    top = max(200.0 / bins, *(max(row) for row in values))
    across = "percentile of the forecast"
    return _chart("PIT histogram", note, labels, values, top, 100.0 / bins, "share of outcomes", " %", across)


def _shares(variant: Variant) -> list[float]:
    shares: list[float] = variant.report.pit.tolist()
    return shares


def _crps(r: CalibrateResult) -> dict[str, object]:
    values = [v.report.crps_by_step.tolist() for v in r.variants]
    top = max(1e-12, *(max(row) for row in values))
    steps = [str(h + 1) for h in range(r.horizon)]
    note = "Error of the whole distribution; less is better."
    axis = "CRPS, relative to mean demand"
    return _chart("CRPS by horizon", note, steps, values, top, None, axis, "", "periods ahead")
