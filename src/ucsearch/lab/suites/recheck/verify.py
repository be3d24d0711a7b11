"""Evidence checked against its own rows, its suite file and the ledger of looks. Every figure is derived again.

1. form, digests and seal (`read_evidence`)
2. the suite file and the card are what the settings, the selection and the manifest say
3. rows are what the suite's kind asks for: families, series, windows, decisions, candidates, policies (`plan`)
4. the selection follows from the validation rows, and candidates, budgets and question from the suite file
5. looks: the ledger's chain holds, and it has a look under this suite, card and selection, of these series and periods
6. tables, deltas, secondary audit, gate, no-go audit, checks and verdict follow from the rows
7. the gate's figures once more, by a second program (`second`)
8. the sample is the one that a hash of the rows draws, and its decisions are verified by `ucsearch.verify`

Nothing here runs a policy or reads a data file. Tables, selection and verdict are computed by the functions that the
runner uses, so a wrong formula there would be wrong here too; the gate's bounds and rates and the decisions are not.
What only a run can know (data hashes, versions, seeds, tables that are given, figures in `extra`) is sealed, not
derived; `rerun` runs a drawn share again.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucsearch.errors import UCSearchError
from ucsearch.lab.suites.evidence.ledger import (
    LEDGER,
    Look,
    before,
    by_dataset,
    check_kept,
    is_tied,
    own_line,
    own_look,
    read_ledger,
)
from ucsearch.lab.suites.evidence.manifest import Evidence, FalseClaim, read_evidence
from ucsearch.lab.suites.evidence.rows import EvidenceError, Row, split_problems
from ucsearch.lab.suites.evidence.sample import draw
from ucsearch.lab.suites.gates.derive import DERIVED, derive
from ucsearch.lab.suites.gates.power import may_open, power_record
from ucsearch.lab.suites.gates.primary import GATE
from ucsearch.lab.suites.gates.primary import value_record as primary_record
from ucsearch.lab.suites.gates.value import value_record
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan, row_problems
from ucsearch.lab.suites.protocol.selection import declare, select
from ucsearch.lab.suites.recheck.differences import Discrepancy, differences
from ucsearch.lab.suites.recheck.second import gate_again, value_bounds_again
from ucsearch.lab.suites.suite import Suite, parse_suite
from ucsearch.records.canonical import canonical, loads

__all__ = ["FALSE", "MALFORMED", "VALID", "Discrepancy", "EvidenceReport", "differences", "verify_evidence"]

VALID, FALSE, MALFORMED = 0, 1, 2
DECISIONS = 20  # of the sample


@dataclass(frozen=True)
class EvidenceReport:
    """What was found about one folder."""

    folder: Path
    code: int  # 0 valid, 1 a claim is false, 2 malformed
    problems: tuple[Discrepancy, ...] = ()
    malformed: str = ""
    notes: tuple[str, ...] = ()  # what was not derived
    evidence: Evidence | None = None

    @property
    def ok(self) -> bool:
        return self.code == VALID


def verify_evidence(
    folder: Path | str,
    *,
    decisions: int = DECISIONS,
    budget: int | None = None,
    task: Any = None,
    ledger: Path | str | None = None,
    kept: str | None = None,
) -> EvidenceReport:
    """Check a folder. `decisions`: how many of the sample are verified, spread evenly; `budget`: nodes for each.

    `ledger`: the ledger of looks; unless given, `looks.jsonl` beside the folder. `kept`: head of one of its looks that
    somebody kept elsewhere; the ledger must still have it.
    """
    path = Path(folder)
    try:
        evidence = read_evidence(path)
    except FalseClaim as error:
        return EvidenceReport(path, FALSE, (Discrepancy(error.where, repr(error.claimed), repr(error.derived)),))
    except UCSearchError as error:
        return EvidenceReport(path, MALFORMED, malformed=str(error))
    notes: list[str] = []
    problems: list[Discrepancy] = []
    try:
        looks = read_ledger(path.resolve().parent / LEDGER if ledger is None else Path(ledger))
        if kept is not None:
            check_kept(looks, kept)
        suite = parse_suite((path / "suite.toml").read_text("utf-8"), "suite.toml")
        plan = suite.settings.plan()
        problems.extend(_suite(evidence))
        problems.extend(_splits(evidence, plan))
        problems.extend(_selection(evidence, suite, plan))
        problems.extend(_looks(evidence, plan, looks))
        problems.extend(_derived(evidence, looks))
        problems.extend(_gate(evidence))
        problems.extend(_drawn(evidence, plan))
        problems.extend(_sample(evidence, decisions, budget, task, notes))
    except UCSearchError as error:
        # Nothing more can be derived; what was found false before stays false.
        return EvidenceReport(path, FALSE if problems else MALFORMED, tuple(problems), str(error), evidence=evidence)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        # Members of a table or check that are of another type than the protocol writes.
        text = f"a member of another form ({type(error).__name__}: {error})"
        return EvidenceReport(path, FALSE if problems else MALFORMED, tuple(problems), text, evidence=evidence)
    notes.extend(_not_derived(evidence.predicate))
    return EvidenceReport(path, FALSE if problems else VALID, tuple(problems), notes=tuple(notes), evidence=evidence)


# -------------------------------------------------------------------- steps


def _suite(e: Evidence) -> Iterator[Discrepancy]:
    p = e.predicate
    # The settings write defaults out; what the file says must be among them.
    yield from differences(_restricted(p["settings"], e.suite), loads(canonical(_plain(e.suite))), "predicate.settings")
    for name in ("kind", "title", "endpoint"):
        yield from differences(p[name], p["settings"].get(name), f"predicate.{name}")
    yield from differences(p["suite"], p["settings"].get("name"), "predicate.suite")
    yield from differences(p["card"]["sha256"], e.digests["card.md"], "predicate.card.sha256")
    yield from differences(p["card"]["name"], p["settings"].get("card"), "predicate.card.name")
    if p["protocol"] is not None:
        yield from differences(p["protocol"]["suite"], p["suite"], "predicate.protocol.suite")
        yield from differences(p["protocol"]["seed"], p["settings"].get("seed"), "predicate.protocol.seed")


def _splits(e: Evidence, plan: RowPlan) -> Iterator[Discrepancy]:
    p = e.predicate
    for text in split_problems(e.rows, p["splits"]):
        where, _, what = text.partition(": ")
        yield Discrepancy(where, "a clean split", what)
    opened = "test" in plan.series and e.selection is not None and may_open(e.rows, e.selection)
    yield from row_problems(plan, e.rows, opened=opened)
    if p["protocol"] is not None:
        protocol = Protocol.from_json(p["protocol"])
        declared = sorted({family for families in plan.series.values() for family in families})
        yield from differences(sorted(protocol.families), declared, "predicate.protocol.families")
        yield from differences(dict(protocol.windows), dict(plan.windows), "predicate.protocol.windows")
    elif any(split in plan.series for split in ("validation", "test")):
        yield Discrepancy("predicate.protocol", "nothing", "a protocol, since there is something to choose or to open")


def _selection(e: Evidence, suite: Suite, plan: RowPlan) -> Iterator[Discrepancy]:
    record, p = e.selection, e.predicate
    if record is None:
        if "test" in plan.series or "validation" in plan.series:
            yield Discrepancy("selection.json", "no selection", "a suite that chooses before it opens its test split")
        return
    yield from differences(record["protocol"], p["protocol"] or record["protocol"], "selection.json.protocol")
    hashes = {"card_sha256": e.digests["card.md"], "suite_sha256": e.digests["suite.toml"]}
    protocol = Protocol.from_json(record["protocol"])
    candidates = [c["settings"] for c in record["candidates"]]
    if record["how"] == "declared":
        derived = declare(protocol, candidates[0], **hashes)
    else:
        derived = select(e.rows, protocol, candidates, **hashes)
    if "value" in record:
        value = record["value"]
        if value.get("gate") == GATE:
            derived["value"] = primary_record(e.rows, protocol, value["rules"], value["endpoint"], value["delta"])
        else:
            derived["value"] = value_record(e.rows, protocol, candidates, value["margin"], value["practitioners"])
    if "power" in record:
        derived["power"] = power_record(e.rows, protocol, record)
    yield from differences(record, loads(canonical(derived)), "selection.json")
    if hasattr(suite.settings, "problems"):
        yield from suite.settings.problems(e.rows, record)


def _own(e: Evidence, looks: list[dict[str, Any]]) -> Mapping[str, Any] | None:
    return None if e.selection is None else own_look(looks, _look(e))


def _look(e: Evidence) -> Look:
    return Look(e.predicate["suite"], *(e.digests[name] for name in ("suite.toml", "card.md", "selection.json")))


def _looks(e: Evidence, plan: RowPlan, looks: list[dict[str, Any]]) -> Iterator[Discrepancy]:
    """The ledger must know of this opening: the same suite file, card and selection, the same series and periods."""
    tested = [row for row in e.rows if row["split"] == "test"]
    opening = _own(e, looks)
    if opening is None:
        if not tested:
            return
        lines = [look for look in looks if look["suite"] == e.predicate["suite"]]
        if not lines or e.selection is None:
            yield Discrepancy(LEDGER, "rows of the test split", f"no look of {e.predicate['suite']} in the ledger")
            return
        for file in ("suite.toml", "card.md", "selection.json"):
            name = f"{file.partition('.')[0]}_sha256"
            digests = [look[name] for look in lines]
            if e.digests[file] not in digests:
                yield Discrepancy(
                    f"{LEDGER} {file}", e.digests[file], f"looks under {', '.join(sorted(set(digests)))} only"
                )
        yield Discrepancy(LEDGER, "a look", "none under this suite file, card and selection together")
        return
    if not tested:
        yield Discrepancy("rows.jsonl", "no row of the test split", f"look {opening['look']} opened it")
        return
    if e.selection is not None and not is_tied(own_line(looks, _look(e)) or {}, e.selection):
        yield Discrepancy(
            f"{LEDGER} repeats", "another choice", "the selection of the look that the line says it repeats"
        )
    families = (e.selection or {})["protocol"]["families"]
    spans = by_dataset(_spans(tested), families, e.predicate["suite"])
    named = {name: sorted(series) for name, series in opening["opened"].items()}
    yield from differences({name: sorted(series) for name, series in spans.items()}, named, f"{LEDGER} series opened")
    for dataset, series in spans.items():
        for series_id, (start, stop) in series.items():
            span = opening["opened"].get(dataset, {}).get(series_id)
            if span is None:
                continue
            # Where only the latest values are used, rows count from these, the ledger from the first.
            shift = span[0] - start if plan.truncated else 0
            if not (shift >= 0 and span[0] == start + shift and stop + shift <= span[1]):
                yield Discrepancy(
                    f"{LEDGER} {dataset}/{series_id}",
                    f"periods {start} to {stop - 1}",
                    f"opened {span[0]} to {span[1] - 1}",
                )


def _spans(rows: list[Row]) -> dict[str, dict[str, list[int]]]:
    spans: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        start = int(row.get("start") or 0)
        stop = start + int(row.get("decisions") or 1)
        # A row about several series names them.
        for series_id in str(row["items"]).split() if "items" in row else [row["series"]]:
            span = spans.setdefault(row["family"], {}).setdefault(series_id, [start, stop])
            span[0], span[1] = min(span[0], start), max(span[1], stop)
    return spans


def _derived(e: Evidence, looks: list[dict[str, Any]]) -> Iterator[Discrepancy]:
    p, opening = e.predicate, _own(e, looks)
    count, earlier = (0, []) if opening is None else before(looks, opening)
    derived = derive(
        p, e.rows, tables=p["tables"], checks=p["checks"], selection=e.selection, looks=count, earlier=earlier
    )
    derived = loads(canonical(derived))
    for name in DERIVED:
        yield from differences(p[name], derived[name], f"predicate.{name}")


def _gate(e: Evidence) -> Iterator[Discrepancy]:
    """The gate's figures by the second program."""
    if e.predicate["gate"] and e.selection is not None:
        again = gate_again(e.rows, e.selection["protocol"], e.selection)
        yield from differences(e.predicate["gate"], loads(canonical(again)), "predicate.gate (second program)")
    value = e.predicate["value"]
    if value is not None and value["gate"] != GATE and e.selection is not None:
        bounds = {(d["family"], d["opponent"]): d["by_series"] for d in e.predicate["value"]["deltas"]}
        for place, low in value_bounds_again(e.rows, e.selection["protocol"], list(bounds)).items():
            yield from differences(bounds[place], low, f"predicate.value.deltas {' '.join(place)} (second program)")


def _drawn(e: Evidence, plan: RowPlan) -> Iterator[Discrepancy]:
    """Whether the sample holds the decisions that the rows draw."""
    names = [one.name for one in draw(e.rows, max(1, plan.sampled))]
    if e.sample is None:
        if names:
            yield Discrepancy("sample.jsonl", "no sample of decisions", f"{len(names)} drawn by the rows")
        return
    recorded = [(loads(line).get("record") or {}).get("series") for line in e.sample.read_bytes().splitlines()]
    yield from differences(recorded, names, "sample.jsonl series")


def _sample(e: Evidence, decisions: int, budget: int | None, task: Any, notes: list[str]) -> Iterator[Discrepancy]:
    from ucsearch.verify import NoTask, verify_record
    from ucsearch.verify.chain import follow
    from ucsearch.verify.read import EntrySource, Malformed
    from ucsearch.verify.verdict import Invalid

    if e.sample is None:
        notes.append("there is no sample of decisions, since no test window is certified")
        return
    lines = e.sample.read_bytes().splitlines()
    try:
        entries = [link.entry for link in follow(EntrySource(e.sample), None, 0)]
        if fault := next((entry.fault for entry in entries if entry.fault), ""):
            raise Malformed(fault)
    except Malformed as error:
        raise EvidenceError(f"sample.jsonl: {error}") from error
    except Invalid as error:
        yield Discrepancy(f"sample.jsonl {error.where}", "an unbroken chain", str(error))
        return
    chosen = _spread(len(entries), decisions)
    notes.append(f"{len(chosen)} of {len(entries)} sampled decisions were verified")
    for i in chosen:
        blobs = {name: b64decode(text) for name, text in (loads(lines[i]).get("blobs") or {}).items()}
        try:
            verdict = verify_record(entries[i].body, blobs, task, budget=budget)
        except NoTask as error:
            raise EvidenceError(f"sample.jsonl[{i}]: {error}") from error
        if verdict.status == "malformed":
            raise EvidenceError(f"sample.jsonl[{i}]: {verdict}")
        if verdict.code:
            # "Weaker" is no proof of the claim, and a claim without proof does not stand.
            yield Discrepancy(f"sample.jsonl[{i}] {verdict.where}", "a right decision record", str(verdict))


def _spread(count: int, wanted: int) -> list[int]:
    """So many places from first to last."""
    if wanted >= count:
        return list(range(count))
    return sorted({round(i * (count - 1) / max(1, wanted - 1)) for i in range(wanted)})


def _not_derived(p: Mapping[str, Any]) -> Iterator[str]:
    given = sum(table.get("how") == "given" for table in p["tables"])
    if given:
        yield f"{given} of {len(p['tables'])} tables are given, not derived from rows"
    loose = sum(check.get("from") is None for check in p["checks"])
    if loose:
        yield f"{loose} of {len(p['checks'])} checks take a figure that is not derived from rows"
    if p["extra"]:
        yield f"extra figures are not derived from rows: {', '.join(sorted(p['extra']))}"


def _restricted(settings: Any, wanted: Any) -> Any:
    """The part of the settings that the suite file speaks about."""
    if isinstance(settings, Mapping) and isinstance(wanted, Mapping):
        return {name: _restricted(settings[name], wanted[name]) for name in wanted if name in settings}
    if isinstance(settings, list) and isinstance(wanted, list) and len(settings) == len(wanted):
        return [_restricted(one, other) for one, other in zip(settings, wanted, strict=True)]
    return settings


def _plain(value: Any) -> Any:
    """TOML as JSON: dates become text."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
