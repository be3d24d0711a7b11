"""The section of a suite's report about the value gate: practitioners first, then samplers at equal time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.gates.conclusions import conclusion
from ucsearch.lab.suites.gates.primary import GATE
from ucsearch.lab.suites.gates.value import TIMED
from ucsearch.lab.suites.report.parts import bullets, mark, paragraph, section, table, tiles
from ucsearch.lab.suites.report.source import Evidence
from ucsearch.lab.suites.report.words import policy
from ucsearch.report.text import number, signed

__all__ = ["value"]

_EQUAL = 1.5  # a sampler whose time is within this factor of the judged policy's had equal time


def value(evidence: Evidence) -> str:
    """Nothing where the suite declares no practitioners."""
    found = evidence.get("value")
    return "" if found is None else section("value", "Is it worth using? The value gate", _parts(evidence, found))


def _parts(evidence: Evidence, found: Mapping[str, Any]) -> Iterator[str]:
    verdict = (evidence.verdict.get("value") or {}) if evidence.verdict else {}
    if found["gate"] == GATE:
        yield from _primary(evidence, found, verdict)
        return
    yield paragraph(conclusion(evidence.predicate))
    yield tiles({
        "value gate": verdict.get("class"), "judged": found["candidate"], "power before the look": found["power"],
        "uncertainty changed the action": found["uncertainty_active"],
    })  # fmt: skip
    tuned = ((evidence.selection or {}).get("value") or {}).get("practitioners") or {}
    practice = [d for d in found["deltas"] if d["opponent"] not in TIMED]
    yield _deltas("Practitioners, each tuned on the same validation windows", practice)
    if tuned:
        heads = ["Practitioner", "Asked", "Settings tried", "Chosen"]
        lines = [[policy(n), t["endpoint"], t["tries"], _settings(t["settings"])] for n, t in tuned.items()]
        yield table("How practitioners were tuned", heads, lines, long=[3])
    yield _deltas("Samplers at equal time", [d for d in found["deltas"] if d["opponent"] in TIMED])
    yield _times(evidence)
    failed = [row for row in found["gate"] if row["pass"] is not True]
    if failed:
        yield "<h3>Conditions of the value gate that do not hold</h3>"
        yield bullets(map(str, verdict.get("reasons") or []))


def _primary(evidence: Evidence, found: Mapping[str, Any], verdict: Mapping[str, Any]) -> Iterator[str]:
    """The primary question of value gate 2: its answer, everybody's cost beside it, what does not hold."""
    yield paragraph(conclusion(evidence.predicate))
    yield tiles({
        "verdict": verdict.get("class"), "endpoint": found["endpoint"], "held against": ", ".join(found["rivals"]),
        "power before the look": found["power"],
    })  # fmt: skip
    heads = ["Against", "Its cost", "Own cost", "Saved, %", "from", "to", "Mean delta", "Lower"]
    lines = [
        [policy(d["opponent"]), number(d["cost"]), number(d["own_cost"]), *(_maybe(d[k], 2) for k in
         ("saved", "saved_lower", "saved_upper")), _maybe(d["mean"], 4), _maybe(d["lower"], 4)]
        for d in found["deltas"]
    ]  # fmt: skip
    yield table("Cost on the test, and what is saved by cluster", heads, lines)
    if verdict.get("reasons"):
        yield "<h3>What does not hold</h3>"
        yield bullets(map(str, verdict["reasons"]))


def _maybe(value: float | None, digits: int) -> str:
    return "none" if value is None else signed(value, digits)


def _deltas(title: str, deltas: Sequence[Mapping[str, Any]]) -> str:
    heads = ["Family", "Against", "Series", "Better on", "Mean delta", "Lower by series", "Lower by cluster", "Needed",
             "Result"]  # fmt: skip
    lines = []
    for d in deltas:
        holds = d["lower"] is not None and d["lower"] > d["floor"]
        cluster = "" if d["by_cluster"] is None else f"{signed(d['by_cluster'], 4)} ({d['clusters']})"
        low = "none" if d["by_series"] is None else signed(d["by_series"], 4)
        mean = "none" if d["mean"] is None else signed(d["mean"], 4)
        lines.append([d["family"], policy(d["opponent"]), d["series"], d["better"], mean, low, cluster,
                      f"> {number(d['floor'])}", mark(holds)])  # fmt: skip
    return table(title, heads, lines, raw=[len(heads) - 1]) if lines else ""


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {'by formula' if v is None else v}" for k, v in settings.items()) or "nothing to tune"


def _times(evidence: Evidence) -> str:
    """Whether equal time was equal, by the clock of the run; the clock is no evidence."""
    path = evidence.folder / "timing.json"
    if not path.is_file():
        return paragraph("The times of this run are not kept beside the evidence.", "note")
    try:
        times = json.loads(path.read_text("utf-8"))
        own = float((times.get("value") or times["uc"])["us_per_decision"])
        held = [name for name in TIMED if f"{name} on test" in times]
        each = {name: float(times[f"{name} on test"]["us_per_decision"]) for name in held}
    except (ValueError, KeyError, TypeError, AttributeError):
        return paragraph("The times beside the evidence cannot be read.", "note")
    if not each:
        return ""
    lines = []
    for name, us in each.items():
        lines.append([policy(name), us / 1000.0, us / own, mark(1.0 / _EQUAL <= us / own <= _EQUAL)])
    told = f"The judged policy took {number(own / 1000.0)} ms of processor time per decision in this run."
    heads = ["Sampler", "ms per decision", "By the judged policy's", "Equal"]
    return paragraph(told, "note") + table("Equal time?", heads, lines, raw=[3])
