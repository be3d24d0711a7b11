"""What the monitor found, in a planner's words: as text, as a table, as JSON and as a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ucsearch.monitor.bets import ADVICE
from ucsearch.planner.files.table import Style, write_table
from ucsearch.planner.monitor.job import COVERED, StreamReport, WatchReport, curve_of
from ucsearch.planner.recorded.explain import plain
from ucsearch.records.files import whole_file
from ucsearch.report.charts import evidence_curve, rank_histogram
from ucsearch.report.page import render_page
from ucsearch.report.text import count_text, number

__all__ = [
    "advice",
    "name_of",
    "state_words",
    "watch_text",
    "write_watch",
    "write_watch_page",
]


SHOWN = 20  # series listed in the terminal
_COLUMNS: dict[str, type] = {
    "series": str, "state": str, "since": str, "evidence": float, "limit": float, "about": str, "outcomes": int,
    "missed": float, "missed_lately": float, "blocked": int, "missed_blocked": float, "missed_free": float,
}  # fmt: skip


def name_of(series: str) -> str:
    return plain(series) if series else "all series together"


def advice(about: str) -> str:
    return ADVICE.get(about, "")


def state_words(stream: StreamReport, limit: float) -> str:
    """One sentence about a stream."""
    if not stream.status.tripped:
        return f"calm, evidence {_rounded(stream.status.evidence)} of {number(limit)}"
    return f"tripped {stream.since}: {stream.status.about}, {_missed(stream)}"


def _missed(stream: StreamReport) -> str:
    return (
        f"{100 * stream.missed_lately:.0f} % of outcomes lately fell outside the range that should hold "
        f"{100 * COVERED:g} %"
    )


def _rounded(value: float) -> str:
    return number(float(f"{value:.3g}"))


def watch_text(report: WatchReport) -> str:
    """What a person needs first comes first."""
    limit = report.settings.limit
    count = len({e.series for e in report.events if e.event == "tripped"})
    lines = [
        f"{count_text(len(report.series), 'series', 'series')}, {count_text(report.outcomes, 'outcome')} from "
        f"{report.first} to {report.last}; {len(report.tripped)} tripped now, {count} at some time.",
        f"A forecast that is right trips within {number(report.settings.within)} outcomes with a chance of at most "
        f"{100 * report.settings.alpha:g} %.",
        "",
        f"All series together: {state_words(report.pool, limit)}.",
    ]
    tripped = [s for s in report.series if s.status.tripped]
    if tripped:
        lines += ["", "Tripped now (releases stop, the fallback is used):"]
        lines += [f"  {name_of(s.series)}: {state_words(s, limit)}" for s in tripped[:SHOWN]]
        lines += _more(tripped)
    for about in dict.fromkeys(s.status.about for s in (report.pool, *tripped) if s.status.tripped):
        lines.append(f"  {about}: {advice(about)}.")
    calm = [s for s in report.series if not s.status.tripped]
    if calm:
        lines += ["", "Calm, the most suspicious first:"]
        lines += [f"  {name_of(s.series)}: {state_words(s, limit)}" for s in calm[: SHOWN // 2]]
        lines += _more(calm, SHOWN // 2)
    if report.events:
        lines += ["", "What happened:"]
        lines += [f"  {_event(e)}" for e in report.events[-SHOWN:]]
        if len(report.events) > SHOWN:
            lines.insert(
                len(lines) - SHOWN,
                f"  {len(report.events) - SHOWN} earlier events are on the page",
            )
    blocked = _blocked(report)
    if blocked:
        lines += ["", blocked]
    lines += [f"Note: {note}" for note in report.notes]
    return "\n".join(lines)


def _more(streams: Sequence[StreamReport], shown: int = SHOWN) -> list[str]:
    return [f"  and {len(streams) - shown} more"] if len(streams) > shown else []


def _event(e: Any) -> str:
    what = f"tripped, {e.about}" if e.event == "tripped" else "was armed again after calm outcomes"
    return f"{e.when}  {name_of(e.series)} {what} (outcome {e.outcomes:,} of its stream)"


def _blocked(report: WatchReport) -> str:
    """Whether trips were worth it: misses while tripped against the rest."""
    held = [s for s in report.series if s.blocked]
    count = sum(s.blocked for s in held)
    if not count:
        return ""
    during = sum(s.missed_blocked * s.blocked for s in held) / count
    free = [(s.missed_free, s.outcomes - s.blocked) for s in held if s.outcomes > s.blocked]
    rest = math.fsum(m * n for m, n in free) / max(1, sum(n for _, n in free))
    return (
        f"{100 * count / report.outcomes:.1f} % of outcomes came while their own series was tripped; "
        f"{100 * during:.1f} % of these fell outside the {100 * COVERED:g} % range, {100 * rest:.1f} % of the same "
        "series' others."
    )


def _row(stream: StreamReport, limit: float) -> list[Any]:
    state = "tripped" if stream.status.tripped else "calm"
    return [
        stream.series, state, stream.since, stream.status.evidence, limit, stream.status.about, stream.outcomes,
        stream.missed, stream.missed_lately, stream.blocked, stream.missed_blocked, stream.missed_free,
    ]  # fmt: skip


def write_watch(report: WatchReport, path: str | Path, style: Style = Style()) -> int:  # noqa: B008 - never changed
    """One row per series, the pool (an empty name) first; .csv or .parquet."""

    def rows() -> Iterator[Sequence[Any]]:
        for stream in (report.pool, *report.series):
            yield _row(stream, report.settings.limit)

    return write_table(path, _COLUMNS, rows, style=style)


MOST = 2_000  # series in the table
CURVES = 24  # series drawn

_PAGE = """{% extends "base" %}{% from "parts" import tiles, tag, filter, num with context %}
{% block body %}
<p class="lead">{{ count_text(r.series|length, "series", "series") }}, {{ count_text(r.outcomes, "outcome") }} from
{{ r.first }} to {{ r.last }}.
{% if r.tripped %}<strong>{{ count_text(r.tripped|length, "stream is", "streams are") }} tripped: somebody has to
look.</strong>{% else %}Nothing is tripped.{% endif %}</p>
{{ tiles(summary) }}
<p class="note">Evidence says how unlikely the outcomes are if the forecasts are right: a right forecast comes to
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
{% if r.series|length > rows|length %}<p class="note">{{ r.series|length - rows|length }} more are in files.watched.</p>
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
        _PAGE, title="Are the forecasts still right?",
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
