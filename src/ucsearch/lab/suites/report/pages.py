"""From evidence folders to pages: read and derived again, filled into templates, written beside the evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.manifest import Evidence, find_evidence
from ucsearch.lab.suites.evidence.rows import UC, EvidenceError
from ucsearch.lab.suites.gates.claims import status_rows
from ucsearch.lab.suites.gates.conclusions import conclusion
from ucsearch.lab.suites.gates.primary import GATE
from ucsearch.lab.suites.protocol.comparison import COMPARATORS
from ucsearch.lab.suites.recheck.verify import EvidenceReport, verify_evidence
from ucsearch.lab.suites.report import figures
from ucsearch.lab.suites.report.figures import policy_name, table
from ucsearch.lab.suites.suite import suite_names
from ucsearch.records.canonical import canonical
from ucsearch.records.files import whole_file
from ucsearch.replay.statistics import mean
from ucsearch.report.page import render_page
from ucsearch.report.text import bytes_text, count_text, joined, number

__all__ = ["NAME", "index_page", "suite_page", "write_reports"]

NAME = "report.html"
CLASSES = {
    "certified": ("Certified", "Every row of the promotion gate holds on a test split that was opened once."),
    "boundary": ("Boundary", "Reported as found; it supports no claim of superiority."),
    "no-go": ("No-go", "The audit on validation stopped this route; its test split stayed closed."),
}
"""Claim classes: how each is written and what it means."""
_FOOTER = "Made by ucsearch evidence page from the evidence beside it. Nothing on this page is fetched from elsewhere."
# Tags, comments and entities cannot begin without these; the line separators end a line in old JavaScript.
_UNSAFE = re.compile("[<>&\u2028\u2029]")


def write_reports(directory: Path, out: Path | None = None) -> list[Path]:
    """Write `report.html` into every evidence folder under `directory`, and an index if there are several.

    `out` is another place: a file for one evidence folder, a folder for several. Returns what was written, the index
    (or the only report) first. All evidence is read, and every figure derived again, before anything is written.
    """
    if out is not None and out.suffix != ".html" and out.is_file():
        raise InputError("--out", str(out), "a file that ends in .html, or a folder")
    reports = _load(directory)
    if [report.folder for report in reports] == [directory]:
        target = directory / NAME if out is None else out if out.suffix == ".html" else out / NAME
        return [_write(target, suite_page(reports[0]))]
    if out is not None and out.suffix == ".html":
        raise InputError("--out", str(out), f"a folder, since {directory} holds {len(reports)} suites")
    root = out or directory
    places = [report.folder.relative_to(directory) for report in reports]
    pages = [suite_page(e, back="../" * len(p.parts) + NAME) for e, p in zip(reports, places, strict=True)]
    index = index_page([(e, quote(f"{p.as_posix()}/{NAME}")) for e, p in zip(reports, places, strict=True)])
    written = [_write(root / NAME, index)]
    return written + [_write(root / place / NAME, page) for place, page in zip(places, pages, strict=True)]


def _load(directory: Path) -> list[EvidenceReport]:
    """All evidence at or below a folder. A page of figures that do not follow from their rows would only spread them,
    so one false or malformed folder is an error that names it. Sampled decisions are left to `evidence verify`."""
    if not directory.is_dir():
        raise InputError("DIR", str(directory), "a folder that exists")
    folders = [directory] if (directory / "manifest.json").is_file() else find_evidence(directory)
    if not folders:
        raise InputError("DIR", str(directory), "a folder with evidence (manifest.json), or a folder of such folders")
    reports = [verify_evidence(folder, decisions=0) for folder in folders]
    for report in reports:
        if not report.ok:
            why = report.malformed or report.problems[0]
            raise EvidenceError(f"{report.folder}: {why}; no report was written")
    return reports


def _write(path: Path, page: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(page.encode("utf-8"))
    return path


def _rendered(template: str, title: str, data: Any, **values: Any) -> str:
    folder = resources.files("ucsearch.lab.suites.report") / "templates"
    parts = [(folder / f"{name}.html").read_text("utf-8") for name in ("parts", template)]
    text = "".join(['{% extends "base" %}', *parts])
    return render_page(text, title=title, footer=_FOOTER, json=embedded(data), **values)


def embedded(value: Any) -> str:
    """Canonical JSON for a script element: equal when parsed, but without any character that could end it."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", canonical(value).decode())


# -------------------------------------------------------------------- one suite


def suite_page(report: EvidenceReport, back: str = "") -> str:
    """The page of one evidence folder; `back` is the address of the index, if there is one."""
    evidence = _evidence(report)
    p, rows = evidence.predicate, evidence.rows
    tone, name, meaning, said = _headline(p)
    shown = [row for row in rows if row["split"] == "test"] or [row for row in rows if row["split"] == "design"]
    condition_tables = [
        (f"{title}: {sum(r['pass'] is True for r in conditions)} of {count_text(len(conditions), 'row')} hold",
         figures.conditions("", conditions))
        for title, conditions in (("Promotion gate", p["gate"]), ("Checks", p["checks"])) if conditions
    ]  # fmt: skip
    tables = [figures.manifest_table(content) for content in p["tables"]]
    if p["audit"]:
        tables.append(figures.conditions("No-go audit on validation: shares of windows", p["audit"]))
    tables += [figures.nested(figures.sentence(key), value) for key, value in p["extra"].items()]
    failures = figures.failures(p)
    failures["worst"] = figures.worst_series(p, rows) if p["deltas"] else None
    cost = (p["protocol"] or {}).get("form") == "cost"
    comparators = (p["settings"].get(p["kind"]) or {}).get("comparators") or {}
    return _rendered(
        "suite", str(p["title"]), evidence.statement, suite=p["suite"], verdict=p["verdict"], tone=tone,
        name=name, meaning=meaning, said=said, key=figures.key_figures(p["verdict"]["key"]),
        conditions=condition_tables, back=back,
        value=_value(evidence), tested=_tested(evidence, shown), forests=figures.forests(p),
        deltas=figures.deltas(p), why_no_deltas=_why_no_deltas(shown),
        form="(cost of the comparator − ours) / (their sum)" if cost
        else "(our reward − the comparator's) / (sum of their magnitudes)",
        few=comparators.get("series"), tables=tables, failures=failures, commands=_commands(p),
        has_data=bool(p["data"]),
        notes=[note for note in report.notes if not note.endswith("sampled decisions were verified")],
        is_shipped=p["suite"] in suite_names(),
    )  # fmt: skip


def _evidence(report: EvidenceReport) -> Evidence:
    if report.evidence is None:
        raise EvidenceError(f"{report.folder}: no evidence")
    return report.evidence


def _headline(p: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Tone, name and meaning of the verdict, and what may be said: of the primary question where a suite asks that
    alone, else of the claim class."""
    claim, value = p["verdict"]["class"], p["value"]
    if value is not None and value["gate"] == GATE and not p["gate"]:
        value_class = p["verdict"]["value"]["class"]
        return (
            {"shown": "certified", "behind": "no-go"}.get(value_class, "boundary"),
            value_class.capitalize(),
            conclusion(p),
            "",
        )
    return claim, *CLASSES[claim], p["verdict"]["interpretation"]


def _why_no_deltas(shown: Sequence[Mapping[str, Any]]) -> str:
    if not shown:
        return "No comparison with intervals: the test split stayed closed."
    return "No comparison with intervals: this suite compares policies in tables, without a judged policy."


def _commands(p: Mapping[str, Any]) -> list[str]:
    suite = p["suite"] if p["suite"] in suite_names() else "suite.toml"
    data = "UCSEARCH_DATA=DATA " if p["data"] else ""
    return [
        f"pip install 'ucsearch=={p['versions']['ucsearch']}'",
        f"{data}ucsearch evidence run {suite} --out OUT",
        f"ucsearch evidence verify OUT/{p['suite']}",
        f"ucsearch evidence page OUT/{p['suite']}",
    ]


def _tested(evidence: Evidence, shown: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    p, selection = evidence.predicate, evidence.selection or {}
    metric = (p["protocol"] or {}).get("metric") or "cost"
    # Entries without a cost or reward are no policies but something measured beside them, such as a forecaster.
    names = {n for row in shown for n, of in row["policies"].items() if of.get(metric) is not None}
    names = names or {n for row in shown for n in row["policies"]}
    first = (UC, *COMPARATORS)
    ordered = sorted(names, key=lambda n: (first.index(n) if n in first else len(first), n))
    others = [policy_name(n) for n in ordered if n != UC and n not in figures.REFERENCES]
    if shown:
        families = count_text(len({r["family"] for r in shown}), "family", "families")
        series = count_text(len({(r["family"], r["series"]) for r in shown}), "series", "series")
        against = f"{policy_name(UC)} against {joined(others)}" if UC in names and others else joined(others)
        where = f"on {count_text(len(shown), 'window')} of {series} in {families} ({shown[0]['split']} split)"
        sentence = f"{against}, {where}."
    else:
        sentence = "No policy was run on held-out data."
    lines = []
    for name in ordered:
        figures_of = [(r["policies"].get(name) or {}, r.get("decisions") or 1) for r in shown]
        nodes = [((f["expansions"] or 0) + (f.get("oracle_nodes") or 0)) / n for f, n in figures_of
                 if f.get("expansions") is not None]  # fmt: skip
        proved = any((f.get("oracle_nodes") or 0) > 0 for f, _ in figures_of)
        if nodes:
            lines.append([policy_name(name), mean(nodes), "yes" if proved else "no"])
    of_compute = ["Policy", "Nodes per decision", "Oracle nodes among them"]
    our_lines = [i for i, line in enumerate(lines) if line[0] == policy_name(UC)]
    card = f"{p['card']['name']} ({p['card']['sha256'][:8]}…)"
    named_facts = {"suite": p["suite"], "kind": p["kind"], "chosen on validation": selection.get("candidate"),
             "risk λ": selection.get("risk"), "test split opened": count_text(p["looks"], "time"),
             "seeds": joined([str(v) for v in dict(p["seeds"]).values()]), "benchmark card": card,
             **p["versions"]}  # fmt: skip
    facts = {figures.sentence(name): number(value) for name, value in named_facts.items() if value is not None}
    candidates = []
    for c in selection.get("candidates") or []:
        candidate_figures = [c["figures"].get(k) for k in ("certificate", "risk_active_weakest", "margin", "utility")]
        candidates.append([c["id"], c["risk"], "yes" if c["eligible"] else "no", *candidate_figures])
    ours = [i for i, line in enumerate(candidates) if line[0] == selection.get("candidate")]
    heads = ["Candidate", "λ", "Eligible", "Certificate", "Weakest risk-active", "Smallest mean delta", "Utility"]
    data = [[d["name"], bytes_text(d["bytes"]), d["status"], d["sha256"]] for d in p["data"]]
    series_of = {f"{split}, {family}": ids for split, of in p["splits"].items() for family, ids in of.items()}
    return {
        "sentence": sentence, "facts": facts,
        "splits": figures.splits(p, evidence.rows),
        "policies": table("Policies and the compute they used", of_compute, lines, ours=our_lines),
        "reason": selection.get("reason", ""), "candidates_title": count_text(len(candidates), "candidate"),
        "candidates": table("", heads, candidates, ours=ours),
        "data": table("Data files", ["File", "Size", "Status", "SHA-256"], data),
        "settings": figures.nested("", p["settings"].get(p["kind"]) or {}),
        "series": figures.nested("", series_of),
    }  # fmt: skip


def _value(evidence: Evidence) -> dict[str, Any] | None:
    """What practitioners ask, where the suite does."""
    p = evidence.predicate
    value, verdict = p["value"], p["verdict"]["value"]
    if value is None:
        return None
    if value["gate"] == GATE:
        heads = ["Against", "Its cost", "Our cost", "Saved, %", "from", "to", "Mean delta", "Lower"]
        names = ("cost", "own_cost", "saved", "saved_lower", "saved_upper", "mean", "lower")
        rows = [[policy_name(d["opponent"]), *(d[k] for k in names)] for d in value["deltas"]]
        tables = [table("Cost on the test, and what is saved by cluster", heads, rows)]
        tiles = {"verdict": verdict["class"], "endpoint": value["endpoint"], "compared with": joined(value["rivals"]),
                 "power before the look": number(value["power"])}  # fmt: skip
    else:
        heads = ["Family", "Against", "Series", "Better on", "Mean delta", "Lower by series", "Lower by cluster",
                 "Needed above"]  # fmt: skip
        shown = ("series", "better", "mean", "by_series", "by_cluster", "floor")
        rows = [[d["family"], policy_name(d["opponent"]), *(d[k] for k in shown)] for d in value["deltas"]]
        tuned = ((evidence.selection or {}).get("value") or {}).get("practitioners") or {}
        asked = [[policy_name(n), t["endpoint"], t["tries"], t["settings"]] for n, t in tuned.items()]
        tables = [
            table("Practitioners, each tuned on the same validation windows; samplers at equal time", heads, rows),
            table("How practitioners were tuned", ["Practitioner", "Asked", "Settings tried", "Chosen"], asked),
        ]
        tiles = {"value gate": verdict["class"], "judged": number(value["candidate"]),
                 "power before the look": number(value["power"])}  # fmt: skip
    reasons = [] if verdict["class"] in ("shown", "passed") else verdict["reasons"]
    return {"conclusion": conclusion(p), "tiles": tiles, "tables": tables, "reasons": reasons}


# -------------------------------------------------------------------- several


def index_page(entries: Sequence[tuple[EvidenceReport, str]]) -> str:
    """A line for every suite: what each gate says and what to conclude. `entries`: with the address of the page."""
    predicates = [_evidence(report).predicate for report, _ in entries]
    addresses = {p["suite"]: address for p, (_, address) in zip(predicates, entries, strict=True)}
    lines = [
        {
            "suite": line["suite"], "address": addresses[line["suite"]], "claim": line["class"],
            "name": CLASSES[line["class"]][0], "value": line["value"].partition(";")[0],
            "conclusion": line["conclusion"],
        }
        for line in status_rows(predicates)
    ]  # fmt: skip
    counts = {name: sum(line["claim"] == name for line in lines) for name in CLASSES}
    summary = joined([f"{n} {CLASSES[c][0].lower()}" for c, n in counts.items() if n]) or "no verdicts"
    shown_members = ("title", "kind", "looks", "selection", "verdict")
    return _rendered(
        "index", "Certification status", {p["suite"]: {key: p[key] for key in shown_members} for p in predicates},
        lines=lines,
        summary=f"{count_text(len(lines), 'suite')}: {summary}.",
        classes=table("", ["Class", "Meaning"], [[name, meaning] for name, meaning in CLASSES.values()]),
    )  # fmt: skip
