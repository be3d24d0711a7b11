"""The sections of a suite's report up to its results: verdict, what was tested, deltas, trade-offs, certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.protocol.comparison import SHARE
from ucsearch.lab.suites.report import charts
from ucsearch.lab.suites.report.deltas import Comparison
from ucsearch.lab.suites.report.parts import (
    bullets,
    fields,
    folded,
    mark,
    paragraph,
    records,
    section,
    table,
    tiles,
    tone,
)
from ucsearch.lab.suites.report.source import REFERENCES, Evidence
from ucsearch.lab.suites.report.summary import (
    RATES,
    compute,
    coverages,
    family_mean,
    figure_of,
    margins,
    points,
    risk_rates,
)
from ucsearch.lab.suites.report.words import CLASSES, key_figures, policy, sentence
from ucsearch.report.text import bytes_text, count_text, esc, joined, number

__all__ = ["calibrations", "certificates", "deltas", "tested", "trade_offs", "verdict"]

_KEY = (
    ('<circle cx="10" cy="6" r="4.5" class="fill-main"/>', "mean over series"),
    ('<path d="M10 1v10" class="bar main"/>', "Student-t lower bound"),
    ('<path d="M6 6l4 -4l4 4l-4 4z" class="fill-main"/>', "bootstrap-t lower bound"),
    ('<circle cx="10" cy="6" r="3" class="hollow"/>', "percentile bootstrap, shown only: it decides nothing"),
    ('<path d="M1 6h18" class="thin main"/>', "up to the upper bound"),
    ('<path d="M4 4v5M9 4v5M16 4v5" class="rug"/>', "one series each"),
)


# -------------------------------------------------------------------- verdict


def verdict(evidence: Evidence) -> str:
    """Claim class, what may be said, and the reasons."""
    found = evidence.verdict
    claim = found.get("class")
    name, meaning = CLASSES.get(str(claim), ("No verdict", "The manifest holds no verdict; nothing may be claimed."))
    gate, checks = evidence.get("gate") or [], evidence.get("checks") or []
    inner = [
        f'<p class="class">{esc(name)}</p>',
        paragraph(meaning, "sub"),
        f"<p><b>Endpoint:</b> {esc(found['endpoint'])}</p>" if found.get("endpoint") else "",
        f"<p><b>What may be said:</b> {esc(found['interpretation'])}</p>" if found.get("interpretation") else "",
    ]
    parts = [f'<div class="verdict {tone(claim)}">{"".join(inner)}</div>', tiles(key_figures(found.get("key") or {}))]
    if reasons := found.get("reasons"):
        parts += ["<h3>Reasons</h3>", bullets(map(str, reasons))]
    for title, rows in (("Promotion gate", gate), ("Checks", checks)):
        if rows:
            held = sum(r.get("pass") is True for r in rows)
            parts.append(folded(f"{title}: {held} of {count_text(len(rows), 'row')} hold", conditions("", rows)))
    return "\n".join(p for p in parts if p)


def conditions(caption: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the gate or checks as a table."""
    has = {key: any(r.get(key) is not None for r in rows) for key in ("family", "comparator", "windows", "positive")}
    heads = ["Condition", *(sentence(k) for k in has if has[k]), "Seen", "Needed", "Result"]
    lines = []
    for r in rows:
        about = [policy(r[k]) if k == "comparator" and r.get(k) else r.get(k) for k in has if has[k]]
        seen, needed = number(r.get("left")), f"{_sign(r.get('op'))} {number(r.get('right'))}"
        lines.append([sentence(str(r.get("name"))), *about, seen, needed, mark(r.get("pass"))])
    return table(caption, heads, lines, raw=[len(heads) - 1])


def _sign(op: object) -> str:
    return {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}.get(str(op), str(op))


# -------------------------------------------------------------------- what was tested


def tested(evidence: Evidence) -> str:
    """Suite, task, data, splits, policies and budgets."""
    return section("tested", "What was tested against what", _tested(evidence))


def _tested(evidence: Evidence) -> Iterator[str]:
    settings = dict(evidence.get("settings") or {})
    if evidence.policies:
        others = [policy(p) for p in evidence.policies if p != evidence.judged and p not in REFERENCES]
        against = (
            f"{policy(evidence.judged)} against {joined(others)}" if evidence.judged and others else joined(others)
        )
        size = f"{count_text(len(evidence.shown), 'window')} of {count_text(_series(evidence), 'series', 'series')}"
        families = count_text(len(evidence.families), "family", "families")
        yield paragraph(f"{against}, on {size} in {families} ({evidence.split} split).")
    elif evidence.rows:
        yield paragraph("No policy was run on held-out data.")
    yield tiles(_facts(evidence, settings))
    yield _splits(evidence)
    yield _policies(evidence)
    yield _selection(evidence)
    data = evidence.get("data") or []
    if data:
        lines = [
            [d.get("name"), bytes_text(d.get("bytes")), d.get("status"), f"<code>{esc(d.get('sha256'))}</code>"]
            for d in data
        ]
        yield table("Data files", ["File", "Size", "Status", "SHA-256"], lines, raw=[3])
    else:
        yield paragraph("No data files: all data are generated or come with the package.", "note")
    kind = str(evidence.get("kind"))
    own = settings.get(kind) if isinstance(settings.get(kind), Mapping) else settings
    yield folded("All settings of the suite", fields("", dict(own or {})))
    series = {
        f"{split}, {family}": ids for split, of in (evidence.get("splits") or {}).items() for family, ids in of.items()
    }
    yield folded("Series in each split", fields("", series))


def _series(evidence: Evidence) -> int:
    return len({(r["family"], r["series"]) for r in evidence.shown})


def _facts(evidence: Evidence, settings: Mapping[str, Any]) -> dict[str, Any]:
    versions = evidence.get("versions") or {}
    chosen = evidence.get("selection") or {}
    card = evidence.get("card") or {}
    seeds = evidence.get("seeds")
    facts: dict[str, Any] = {"suite": evidence.suite, "kind": evidence.get("kind")}
    if chosen:
        facts |= {"chosen on validation": chosen.get("candidate"), "risk λ": chosen.get("risk")}
    facts["test split opened"] = count_text(int(evidence.get("looks") or 0), "time")
    facts["seeds" if seeds is not None else "seed"] = seeds if seeds is not None else settings.get("seed")
    if card:
        facts["benchmark card"] = f"{card.get('name')} ({str(card.get('sha256'))[:8]}…)"
    facts |= {str(k): v for k, v in versions.items()}
    return {k: v for k, v in facts.items() if v is not None}


def _splits(evidence: Evidence) -> str:
    splits = evidence.get("splits") or {}
    families = sorted({str(f) for of in splits.values() for f in of})
    if not families:
        return ""
    order = [s for s in ("design", "fit", "validation", "test") if s in splits]
    order += sorted(s for s in splits if s not in order)
    windows: dict[tuple[str, str], int] = {}
    for row in evidence.rows:
        key = (str(row["split"]), str(row["family"]))
        windows[key] = windows.get(key, 0) + 1
    heads: list[str] = ["Family"]
    lines: list[list[Any]] = [[f] for f in families]
    for split in order:
        heads.append(f"{sentence(split)}: series")
        seen = any(windows.get((split, f)) for f in families)
        if seen:
            heads.append("windows")
        for line, family in zip(lines, families, strict=True):
            line.append(len(splits[split].get(family, ())))
            if seen:
                line.append(windows.get((split, family), 0))
    return table("Splits", heads, lines)


def _selection(evidence: Evidence) -> str:
    record = evidence.selection
    if record is None:
        return ""
    lines = []
    for c in record.get("candidates") or []:
        figures = c.get("figures") or {}
        known = [figures.get(k) for k in ("certificate", "risk_active_weakest", "margin", "utility")]
        lines.append([c.get("id"), c.get("risk"), "yes" if c.get("eligible") else "no", *known])
    ours = [i for i, line in enumerate(lines) if line[0] == record.get("candidate")]
    heads = ["Candidate", "λ", "Eligible", "Certificate", "Weakest risk-active", "Smallest mean delta", "Utility"]
    told = paragraph(f"Choice on validation: {record.get('reason')}.")
    return told + folded(count_text(len(lines), "candidate"), table("", heads, lines, ours=ours) if lines else "")


def _policies(evidence: Evidence) -> str:
    lines = []
    for who in evidence.policies:
        nodes = family_mean(evidence.shown, who, figure_of("oracle_nodes"))
        lines.append([policy(who), family_mean(evidence.shown, who, compute), "yes" if nodes else "no"])
    if not lines:
        return ""
    each = "decision" if all(r.get("decisions") for r in evidence.shown) else "window"
    heads = ["Policy", f"Nodes per {each}", "Oracle nodes among them"]
    ours = [i for i, who in enumerate(evidence.policies) if who == evidence.judged]
    return table("Policies and the compute they used", heads, lines, ours=ours)


# -------------------------------------------------------------------- results


def deltas(evidence: Evidence, found: Sequence[Comparison]) -> str:
    """A forest plot for each comparator, those of the gate first."""
    if not found:
        why = "No comparison with intervals: " + (
            "the test split stayed closed."
            if not evidence.shown
            else "this suite compares policies in tables, without a judged policy and families of series."
        )
        return section("deltas", "Family deltas with intervals", [paragraph(why, "note")])
    form = (
        "(cost of the comparator − ours) / (their sum)"
        if evidence.form == "cost"
        else "(our reward − the comparator's) / (sum of their magnitudes)"
    )
    key = "".join(f'<li><svg viewBox="0 0 20 12" aria-hidden="true">{s}</svg>{esc(t)}</li>' for s, t in _KEY)
    parts = [
        paragraph(
            f"Delta of a series: {form}, its windows averaged first; right of zero we are better. One-sided 97.5 % "
            "lower bounds of the family's mean; the smaller of Student-t and bootstrap-t must be above zero."
        ),
        f'<ul class="key">{key}</ul>',
    ]
    for title, gated in (("Comparators of the promotion gate", True), ("Further comparators", False)):
        some = [c for c in found if c.gated is gated]
        # Weak comparators are far away; on one axis with them the gate's would be a blur.
        scale = charts.delta_scale([d for c in some for d in c.deltas])
        figures = [
            charts.forest(f"delta-{gated:d}-{n}", f"Against {policy(c.comparator)}", c.deltas, scale, c.note)
            for n, c in enumerate(some)
        ]
        if figures:
            parts += [f"<h3>{esc(title)}</h3>", f'<div class="figures">{"".join(figures)}</div>']
    return section("deltas", "Family deltas with intervals", parts)


def trade_offs(evidence: Evidence) -> str:
    """Cost or reward against drawdown and against compute, a point per policy."""
    form = evidence.form
    good = "lower" if form == "cost" else "upper"
    means = "Means over windows, then series, then families."
    drawn = []
    falls = points(evidence, figure_of("drawdown"))
    if len(falls) > 1:
        caption = f"{good.capitalize()} left is better. {means}"
        title = f"{sentence(form)} against drawdown"
        drawn.append(charts.scatter("drawdown", title, falls, "Max drawdown", sentence(form), caption=caption))
    nodes = points(evidence, compute)
    if len(nodes) > 1:
        caption = f"{good.capitalize()} left is better. Expansions and oracle nodes. {means}"
        each = "decision" if all(r.get("decisions") for r in evidence.shown) else "window"
        title = f"{sentence(form)} against compute"
        drawn.append(
            charts.scatter("compute", title, nodes, f"Nodes per {each}", sentence(form), log_x=True, caption=caption)
        )
    if not drawn:
        return ""
    title = f"{sentence(form)} against drawdown and compute" if len(drawn) == 2 else f"{sentence(form)} by policy"
    return section("trade-offs", title, [f'<div class="figures">{"".join(drawn)}</div>'])


def certificates(evidence: Evidence) -> str:
    """Risk-active rates by family, and how large the margins are."""
    drawn = []
    found = risk_rates(evidence)
    if found:
        known = [n for n in RATES if any(r.values[n] is not None for r in found)]
        shapes = ("filled, its value at the right", "ring", "square")
        inner = joined(f"{n} ({shape})" for n, shape in zip(known, shapes, strict=False))
        caption = f"Shares of decisions: {inner}. Decisions, then windows, then families."
        drawn.append(charts.rates("rates", "Risk-active rate by family", found, known, SHARE, caption))
    for field, title, caption in (
        ("margin", "Margin between the best and second-best retained action", "In units of the score."),
        (
            "gap",
            "Gap to every other first action",
            "Below zero the action is not proved best of those offered. In units of the score.",
        ),
    ):
        groups = margins(evidence, field)
        if groups:
            drawn.append(
                charts.strips(field, title, groups, "Mean of a window's decisions", f"A dot per window. {caption}")
            )
    if not drawn:
        return ""
    return section("certificates", "Certificates", [f'<div class="figures">{"".join(drawn)}</div>'])


# -------------------------------------------------------------------- calibration


def calibrations(evidence: Evidence) -> str:
    """Whatever the suite reports about calibration: coverage as a figure, all of it as tables."""
    extra = evidence.get("extra") or {}
    parts: list[str] = []
    if found := coverages(evidence):
        caption = "On the dashed line both agree. Means over windows, then series, then families."
        figure = charts.calibration("coverage", "Coverage of forecast intervals", found, caption)
        parts.append(f'<div class="figures">{figure}</div>')
    for key, value in extra.items():
        if not any(word in str(key) for word in ("calibration", "coverage")):
            continue
        lines = _coverage(value)
        if lines:
            figure = charts.calibration(
                f"calibration-{len(parts)}", sentence(str(key)), lines, "On the dashed line both agree."
            )
            parts.append(f'<div class="figures">{figure}</div>')
        parts.append(anything(sentence(str(key)), value))
    return section("calibration", "Calibration", parts)


def _coverage(value: Any) -> dict[str, list[tuple[float, float]]]:
    """Pairs of nominal and observed coverage by what they belong to, where the records have both."""
    out: dict[str, list[tuple[float, float]]] = {}
    rows = value if isinstance(value, list) else []
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        level = next((row[k] for k in ("nominal", "level") if k in row), None)
        seen = next((row[k] for k in ("observed", "coverage", "empirical") if k in row), None)
        pair = [float(v) for v in (level, seen) if isinstance(v, (int, float)) and 0.0 <= v <= 1.0]
        if len(pair) == 2:
            name = ", ".join(str(v) for v in row.values() if isinstance(v, str)) or "all"
            out.setdefault(name, []).append((pair[0], pair[1]))
    return out


def anything(title: str, value: Any) -> str:
    """A further figure of whatever shape."""
    if isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
        return records(title, value)
    if isinstance(value, Mapping):
        if value and all(isinstance(v, Mapping) for v in value.values()):
            return records(title, [{"of": k, **v} for k, v in value.items()])
        return fields(title, value)
    return fields(title, {title: value})
