"""`ucsearch monitor --html`: every stream on one page, those that need a person first."""

from __future__ import annotations

from pathlib import Path

from ucsearch.pipeline.watch import COVERED, StreamReport, WatchReport, curve_of
from ucsearch.pipeline.watch_words import advice, name_of, state_words
from ucsearch.records.files import whole_file
from ucsearch.report.evidence import evidence_curve, rank_histogram
from ucsearch.report.page import render_page

__all__ = ["write_watch_page"]

MOST = 2_000  # series in the table
CURVES = 24  # series drawn

_PAGE = """{% extends "base" %}{% from "parts" import tiles, tag, filter, num with context %}
{% block body %}
<p class="lead">{{ count_text(r.series|length, "series", "series") }}, {{ count_text(r.outcomes, "outcome") }} from
{{ r.first }} to {{ r.last }}.
{% if r.tripped %}<strong>{{ count_text(r.tripped|length, "stream is", "streams are") }} tripped: somebody has to
look.</strong>{% else %}Nothing is tripped.{% endif %}</p>
{{ tiles(summary) }}
<p class="note">Evidence says how unlikely the outcomes are if the forecasts are honest: an honest forecast comes to
{{ r.settings.limit|figure }} within {{ r.settings.within|figure }} outcomes with a chance of at most
{{ "%g" % (100 * r.settings.alpha) }} %. A spread too narrow by {{ "%.0f" % (100 * r.settings.tolerance) }} % is
tolerated. Outcomes that depend on each other from period to period trip earlier: an alarm is a reason to look, not a
proof.</p>
{% if advices %}<ul>{% for about, text in advices %}<li><strong>{{ about }}</strong>: {{ text }}.</li>
{% endfor %}</ul>{% endif %}
{% for note in r.notes %}<p class="note">{{ note }}</p>{% endfor %}
<h2>All series together, and those with most evidence</h2>
<div class="figures">{% for f in figures %}{{ f|safe }}{% endfor %}</div>
<h2>Series</h2>
{{ filter("streams", "Search series", groups, "State") }}
<div class="wide" tabindex="0" role="region" aria-label="Series">
<table id="streams" class="sortable stack roomy" role="table"><thead><tr><th scope="col">Series</th>
<th scope="col">State</th><th scope="col">Since</th><th scope="col" class="n">Evidence</th><th scope="col">About</th>
<th scope="col" class="n">Outcomes</th><th scope="col" class="n">Outside the {{ covered }} % range</th>
<th scope="col" class="n">Lately</th><th scope="col" class="n">Came while tripped</th></tr></thead><tbody>
{% for s in rows %}<tr role="row" data-group="{{ 'tripped' if s.status.tripped else 'calm' }}">
<th scope="row" role="rowheader" class="long">{{ s.series }}</th>
<td data-head="State">{{ tag("tripped", "bad") if s.status.tripped else tag("calm", "good") }}</td>
<td class="day" data-head="Since">{{ s.since }}</td>{{ num(s.status.evidence, "Evidence") }}
<td data-head="About">{{ s.status.about }}</td>{{ num(s.outcomes, "Outcomes") }}
<td class="n" data-head="Outside" data-v="{{ s.missed }}">{{ "%.1f" % (100 * s.missed) }} %</td>
<td class="n" data-head="Lately" data-v="{{ s.missed_lately }}">{{ "%.1f" % (100 * s.missed_lately) }} %</td>
{{ num(s.blocked, "Came while tripped") }}</tr>
{% endfor %}</tbody></table></div>
{% if r.series|length > rows|length %}<p class="note">{{ r.series|length - rows|length }} more are in --out.</p>
{% endif %}
<h2>What happened</h2>
{% if r.events %}<div class="wide" tabindex="0" role="region" aria-label="Events"><table class="sortable roomy"><thead>
<tr><th scope="col">When</th><th scope="col">Series</th><th scope="col">Event</th><th scope="col">About</th>
<th scope="col" class="n">Outcome of its stream</th></tr></thead><tbody>
{% for e in r.events %}<tr><td class="day">{{ e.when }}</td><td>{{ e.series or "all together" }}</td>
<td>{{ tag("tripped", "bad") if e.event == "tripped" else tag("armed again", "good") }}</td><td>{{ e.about }}</td>
<td class="n">{{ e.outcomes|figure }}</td></tr>
{% endfor %}</tbody></table></div>{% else %}<p>Nothing tripped.</p>{% endif %}
{% endblock %}"""


def write_watch_page(report: WatchReport, path: str | Path) -> None:
    """One HTML file, whole or not at all."""
    tripped = sum(s.status.tripped for s in report.series)
    abouts = dict.fromkeys(s.status.about for s in report.tripped)
    drawn = [report.pool, *report.series[:CURVES]]
    figures = [_curve(f"c{i}", stream, report) for i, stream in enumerate(drawn)]
    figures.insert(1, rank_histogram(
        "ranks", "Where outcomes fell among the members", report.ranks,
        "High ends: too narrow. A hill: too wide. A slope: biased. The dashed line is where all bars should end.",
    ))  # fmt: skip
    text = render_page(
        _PAGE, title="Are the forecasts still honest?",
        footer="Made by ucsearch monitor. Nothing on this page is fetched from elsewhere.",
        r=report, figures=figures, rows=report.series[:MOST], covered=f"{100 * COVERED:g}",
        summary=[
            ("All together", "tripped" if report.pool.status.tripped else "calm"), ("Series tripped", tripped),
            (f"Outside the {100 * COVERED:g} % range", f"{100 * report.pool.missed:.1f} %"),
            ("Lately", f"{100 * report.pool.missed_lately:.1f} %"),
        ],
        groups=[("tripped", tripped), ("calm", len(report.series) - tripped)] if tripped else [],
        advices=[(about, advice(about)) for about in abouts],
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(text.encode("utf-8"))


def _curve(key: str, stream: StreamReport, report: WatchReport) -> str:
    ends = (stream.curve[0][0], stream.curve[-1][0])
    title = name_of(stream.series).capitalize() if not stream.series else name_of(stream.series)
    said = state_words(stream, report.settings.limit)
    return evidence_curve(key, title, list(curve_of(stream)), report.settings.limit, ends, f"{said}.".capitalize())
