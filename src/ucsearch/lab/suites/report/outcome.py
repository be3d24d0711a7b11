"""The sections of a suite's report after its figures: tables, what failed and why, how to run it again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.report.deltas import Comparison
from ucsearch.lab.suites.report.parts import bullets, paragraph, records, section, table
from ucsearch.lab.suites.report.sections import anything, conditions
from ucsearch.lab.suites.report.source import Evidence
from ucsearch.lab.suites.report.summary import worst_windows
from ucsearch.lab.suites.report.words import policy, sentence
from ucsearch.report.text import count_text, esc, is_number, number, signed

__all__ = ["failures", "rerun", "tables"]

_WORST = 10  # rows of a table of worst cases


def tables(evidence: Evidence) -> str:
    """The manifest's own tables, the no-go audit, and further figures."""
    parts: list[str] = []
    own = (evidence.get("settings") or {}).get("walkforward") or {}
    if few := (own.get("comparators") or {}).get("series"):
        told = f"Samplers ran on {few} series of each family; their means below are over those alone."
        parts.append(paragraph(told, "note"))
    parts += [_table(t) for t in evidence.get("tables") or []]
    if audit := evidence.get("audit"):
        parts.append(conditions("No-go audit on validation: shares of windows", audit))
    for key, value in (evidence.get("extra") or {}).items():
        if not any(word in str(key) for word in ("calibration", "coverage")):
            parts.append(anything(sentence(str(key)), value))
    return section("tables", "Tables", parts)


def _table(content: Mapping[str, Any]) -> str:
    group = [str(g) for g in content.get("group") or []]
    columns = [c if isinstance(c, Mapping) else {"name": c} for c in content.get("columns") or []]
    heads = [*map(sentence, group), *(str(c.get("name")) for c in columns)]
    rows = [list(r) for r in content.get("rows") or []]
    if not rows or any(len(r) != len(heads) for r in rows):
        return paragraph(f"{content.get('title') or content.get('name')}: no rows.", "note")
    ours = []
    if "policy" in group:
        at = group.index("policy")
        ours = [i for i, r in enumerate(rows) if r[at] == "uc" or str(r[at]).startswith("uc-")]
        for row in rows:
            row[at] = policy(str(row[at]))
    split = f" ({content['split']} split)" if content.get("split") else ""
    hows = [*("" for _ in group), *(str(c.get("how", "")) for c in columns)]
    return table(f"{content.get('title') or content.get('name')}{split}", heads, rows, hows=hows, ours=ours)


# -------------------------------------------------------------------- failures


def failures(evidence: Evidence, found: Sequence[Comparison]) -> str:
    """Conditions that do not hold with what lies behind each; the worst series and windows in any case."""
    return section("failures", "Where it failed and why", _failures(evidence, found))


def _failures(evidence: Evidence, found: Sequence[Comparison]) -> Iterator[str]:
    gate, checks = list(evidence.get("gate") or []), list(evidence.get("checks") or [])
    # Of the audit only the first row decides.
    failed = [r for r in [*(evidence.get("audit") or [])[:1], *gate, *checks] if r.get("pass") is not True]
    if failed:
        yield conditions("Conditions that do not hold", failed)
        yield bullets(dict.fromkeys(w for r in failed if (w := _why(r, found))))
    elif gate or checks:
        yield paragraph("Nothing failed: every condition of the gate and every check holds.")
    else:
        yield paragraph("This suite has no gate and no checks that could fail.", "note")
    slack = _closest(gate)
    if slack and not failed:
        yield conditions("Conditions that held most narrowly", slack)
    yield _worst_series(evidence, [c for c in found if c.gated] or list(found))
    windows = worst_windows(evidence, _WORST)
    if windows:
        yield records("Windows that hurt a rate most", windows)
    if evidence.judged and not any(is_number((r.get("certificate") or {}).get("passed")) for r in evidence.shown):
        yield paragraph("The rows hold no certificates, so no windows can be named for them.", "note")


def _closest(gate: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Passing rows with an inequality, those with least room first."""
    known = [r for r in gate if r.get("op") in (">=", ">", "<=", "<") and is_number(r.get("left"))]
    return sorted(known, key=lambda r: abs(r["left"] - r["right"]))[:5]


def _why(row: Mapping[str, Any], found: Sequence[Comparison]) -> str:
    """What lies behind a condition that does not hold, as far as the rows tell."""
    name, family = str(row.get("name")), row.get("family")
    where = f"{family}: " if family else ""
    if row.get("comparator") is not None:
        return _why_bound(row, found)
    if row.get("left") is None:
        return f"{where}{sentence(name)} has no finite value, which counts as failed."
    left = float(row["left"])
    if "positive" in row and "windows" in row:
        return (
            f"{row['windows'] - row['positive']} of {count_text(row['windows'], 'validation window')} offer no "
            "positive candidate, so the route stopped before its test split."
        )
    if name == "risk_active_family":
        return (
            f"{where}in {number(1.0 - left, 4)} of decisions λ was idle or nothing was proved. Where λ is idle, an "
            "action that is best without regard to risk stays best with it, as in times of excess stock."
        )
    if name == "certificate":
        return f"In {number(1.0 - left, 4)} of decisions the action was not proved best of those offered."
    if name == "violations":
        return f"{count_text(int(left), 'action')} broke the task's rules; the fallback took their place."
    if name == "selection_eligible":
        return "No candidate met the conditions on validation; the one of largest utility was run for the record."
    if name == "selected_risk":
        return "Validation preferred a search that ignores uncertainty."
    return ""


def _why_bound(row: Mapping[str, Any], found: Sequence[Comparison]) -> str:
    who = str(row["comparator"])
    delta = next((d for c in found if c.comparator == who for d in c.deltas if d.label == str(row.get("family"))), None)
    if delta is None:
        return ""
    better = sum(v > 0.0 for v in delta.each)
    count = f"{better} of {count_text(len(delta.each), 'series', 'series')}"
    head = f"{delta.label} against {policy(who)}: mean {signed(delta.mean, 4)}, better on {count}"
    if not math.isfinite(delta.mean):
        return f"{delta.label} against {policy(who)}: a series lacks a figure, so there is no bound."
    if not delta.mean > 0.0:
        return f"{head}. The comparator is at least as good on average; more series would not change that."
    return f"{head}. Better on average, but series differ too much for their number to put the bound above zero."


def _worst_series(evidence: Evidence, found: Sequence[Comparison]) -> str:
    lines = [(s.delta, s.family, s.series, c.comparator, s) for c in found for s in c.series if math.isfinite(s.delta)]
    lines.sort(key=lambda v: v[:4])
    if not lines:
        return ""
    rows = [[s.series, s.family, policy(who), delta, s.own, s.other] for delta, _, _, who, s in lines[:_WORST]]
    heads = ["Series", "Family", "Against", "Delta", f"Our {evidence.form}", f"Its {evidence.form}"]
    return table("Series with the lowest deltas", heads, rows)


# -------------------------------------------------------------------- again


def rerun(evidence: Evidence) -> str:
    """Commands that repeat the run and check it."""
    versions = evidence.get("versions") or {}
    own = f"ucsearch=={versions['ucsearch']}" if versions.get("ucsearch") else "ucsearch"
    suite = evidence.suite if evidence.is_shipped else "suite.toml"
    data = " --data-dir DATA" if evidence.get("data") else ""
    lines = [
        f"pip install '{own}'",
        f"ucsearch evidence run {suite}{data} --out OUT",
        f"ucsearch evidence verify OUT/{evidence.suite}",
        f"ucsearch evidence page OUT/{evidence.suite}",
    ]
    where = "DATA is the folder with the files listed above, OUT a fresh folder." if data else "OUT is a fresh folder."
    parts = [
        f"<pre><code>{esc(chr(10).join(lines))}</code></pre>",
        paragraph(where + " On the same platform the evidence comes out byte for byte the same."),
        paragraph(
            "Before this page was written, rates, deltas, bounds, gate and verdict were derived again from the rows."
            + "".join(f" Note: {note}." for note in evidence.notes)
        ),
        "" if evidence.is_shipped else paragraph("suite.toml lies beside this report.", "note"),
        paragraph("The whole manifest is embedded in this page: JSON in the element with the id “evidence”.", "note"),
    ]
    return section("rerun", "Run it again", parts)
