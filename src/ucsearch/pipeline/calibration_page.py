"""A page to look at: how honest forecasts were, as one HTML file without a network."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, StrictUndefined

from ucsearch.pipeline.calibrating import LEVEL, CalibrateResult, Variant
from ucsearch.records.files import whole_file

__all__ = ["write_page"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Calibration: {{ r.model }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1d2430 }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #dde }
th:first-child, td:first-child { text-align: left } svg { max-width: 100%; height: auto } .muted { color: #5b6472 }
.a { fill: #8a94a6 } .b { fill: #1b6fb3 } .nominal { stroke: #b3261e; stroke-dasharray: 4 3 }
text { font-size: 11px; fill: #1d2430 }
</style></head><body>
<h1>How honest were the forecasts?</h1>
<p>{{ r.series }} series, {{ r.origins }} past forecasts each, {{ r.horizon }} periods ahead, season {{ r.season }};
model {{ r.model }}.
Sizes are in mean sizes of each series.</p>
<table><thead><tr><th></th>{% for v in r.variants %}<th>{{ v.name }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr><td>{{ row[0] }}</td>{% for x in row[1:] %}<td>{{ x }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
<p class="muted">{% for v in r.variants %}<svg width="12" height="12" role="img" aria-label="colour of {{ v.name }}">
<rect class="{{ 'ab'[loop.index0] }}" width="12" height="12"/></svg>
{{ v.name }}&nbsp; {% endfor %}red line: what it should be</p>
{% for chart in charts %}
<h2>{{ chart.title }}</h2><p class="muted">{{ chart.note }}</p>
<svg viewBox="0 0 {{ chart.width }} 220" width="{{ chart.width }}" height="220" role="img"
aria-label="{{ chart.title }}">
{% for bar in chart.bars %}<rect class="{{ bar.kind }}" x="{{ bar.x }}" y="{{ bar.y }}" width="{{ bar.w }}"
height="{{ bar.h }}"><title>{{ bar.told }}</title></rect>
{% endfor %}{% for line in chart.labels %}<text x="{{ line.x }}" y="212" text-anchor="middle">{{ line.text }}</text>
{% endfor %}{% if chart.nominal is not none %}<line class="nominal" x1="0" x2="{{ chart.width }}"
y1="{{ chart.nominal }}" y2="{{ chart.nominal }}"/>{% endif %}
</svg>{% endfor %}
<h2>Coverage by phase of the season, worst first</h2>
<p class="muted">Share of outcomes inside the {{ level }} % interval. Forecasts can be right on average and wrong by
phase.</p>
{% for v in r.variants %}<h3>{{ v.name }}</h3>
<table><thead><tr><th>phase</th><th>covered</th><th>bias</th><th>forecasts</th></tr></thead><tbody>
{% for p in v.phases[:24] %}<tr><td>{{ p.label }}</td><td>{{ '%.1f' % (100 * p.coverage) }} %</td>
<td>{{ '%+.3f' % p.bias }}</td><td>{{ p.count }}</td></tr>
{% else %}<tr><td colspan="4">no season</td></tr>{% endfor %}</tbody></table>{% endfor %}
</body></html>
"""

_TOP, _BOTTOM = 10.0, 195.0


def write_page(result: CalibrateResult, path: str | Path) -> None:
    """One HTML file, whole or not at all; every text is escaped."""
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    charts = [_coverage(result), _phases(result), _pit(result), _crps(result)]
    text = page.render(r=result, rows=_rows(result), charts=[c for c in charts if c["bars"]], level=f"{100 * LEVEL:g}")
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
    title: str, note: str, labels: list[str], values: list[list[float]], top: float, nominal: float | None, unit: str
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
                "kind": "ab"[i % 2], "x": f"{10 + k * slot + i * (slot - 4) / count:.1f}", "y": f"{_BOTTOM - high:.1f}",
                "w": f"{(slot - 4) / count:.1f}", "h": f"{high:.1f}", "told": f"{label}: {row[k]:.3g}{unit}",
            })  # fmt: skip
        if len(labels) <= 30 or k % 4 == 0:
            names.append({"x": f"{10 + k * slot + (slot - 4) / 2:.1f}", "text": label[:9]})
    at = None if nominal is None else f"{_BOTTOM - min(nominal / top, 1.0) * (_BOTTOM - _TOP):.1f}"
    width = f"{20 + slot * len(labels):.0f}"
    return {"title": title, "note": note, "bars": bars, "labels": names, "nominal": at, "width": width}


def _coverage(r: CalibrateResult) -> dict[str, object]:
    at = r.variants[0].report.levels.index(LEVEL)
    values = [(100.0 * v.report.coverage_by_step[at]).tolist() for v in r.variants]
    note = f"Share inside the {100 * LEVEL:g} % interval, by periods ahead."
    steps = [str(h + 1) for h in range(r.horizon)]
    return _chart("Coverage by horizon", note, steps, values, 100.0, 100.0 * LEVEL, " %")


def _phases(r: CalibrateResult) -> dict[str, object]:
    order = [p.label for p in r.variants[0].phases][:48]
    by_label = [{p.label: 100.0 * p.coverage for p in v.phases} for v in r.variants]
    note = f"Share inside the {100 * LEVEL:g} % interval; the worst phase of the forecasts as they are comes first."
    values = [[known[label] for label in order] for known in by_label]
    return _chart("Coverage by phase", note, order, values, 100.0, 100.0 * LEVEL, " %")


def _pit(r: CalibrateResult) -> dict[str, object]:
    values = [_shares(v) for v in r.variants]
    bins = len(values[0])
    labels = [f"{100 * k // bins}-{100 * (k + 1) // bins}" for k in range(bins)]
    note = "Where outcomes fell among the members (PIT, %). High ends: too narrow. A hill: too wide. A slope: biased."
    top = max(2.0 / bins, *(max(row) for row in values))
    return _chart("PIT histogram", note, labels, values, top, 1.0 / bins, "")


def _shares(variant: Variant) -> list[float]:
    shares: list[float] = variant.report.pit.tolist()
    return shares


def _crps(r: CalibrateResult) -> dict[str, object]:
    values = [v.report.crps_by_step.tolist() for v in r.variants]
    top = max(1e-12, *(max(row) for row in values))
    steps = [str(h + 1) for h in range(r.horizon)]
    return _chart("CRPS by horizon", "Error of the whole distribution; less is better.", steps, values, top, None, "")
