"""One suite's report as a whole page, and the page that lists several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ucsearch.lab.suites.gates.claims import key_text, status_rows, value_text
from ucsearch.lab.suites.gates.conclusions import conclusion
from ucsearch.lab.suites.report import outcome, sections
from ucsearch.lab.suites.report.deltas import comparisons
from ucsearch.lab.suites.report.parts import frame, paragraph, section, table, tag
from ucsearch.lab.suites.report.source import Evidence
from ucsearch.lab.suites.report.value import value
from ucsearch.lab.suites.report.words import CLASSES
from ucsearch.report.text import count_text, esc, joined

__all__ = ["index_page", "suite_page"]

_FOOTER = "Made by ucsearch evidence page from the evidence beside it. Nothing on this page is fetched from elsewhere."


def suite_page(evidence: Evidence, back: str | None = None) -> str:
    """The report of one evidence folder; `back` is the address of the index, if there is one."""
    found = comparisons(evidence)
    parts = [
        value(evidence),
        sections.tested(evidence),
        sections.deltas(evidence, found),
        sections.trade_offs(evidence),
        sections.certificates(evidence),
        sections.calibrations(evidence),
        outcome.tables(evidence),
        outcome.failures(evidence, found),
        outcome.rerun(evidence),
    ]
    title = str(evidence.get("title") or evidence.suite)
    names = {
        "value": "Value gate", "tested": "Tested", "deltas": "Deltas", "trade-offs": "Trade-offs",
        "certificates": "Certificates", "calibration": "Calibration", "tables": "Tables", "failures": "Failures",
        "rerun": "Run again",
    }  # fmt: skip
    links = [f'<a href="{esc(back)}">All suites</a>'] if back else []
    links += [f'<a href="#{k}">{n}</a>' for k, n in names.items() if any(f'<section id="{k}"' in p for p in parts)]
    head = [
        f"<h1>{esc(title)}</h1>",
        paragraph(f"Evidence of the suite {evidence.suite}", "sub"),
        sections.verdict(evidence),
        f'<nav aria-label="Sections">{" ".join(links)}</nav>',
    ]
    return frame(f"{evidence.suite}: {title}", [*head, *parts], data=evidence.statement, footer=_FOOTER)


def index_page(entries: Sequence[tuple[Evidence, str]]) -> str:
    """The status of all suites; `entries` are evidence with the address of its report."""
    order = [line["suite"] for line in status_rows([e.predicate for e, _ in entries])]
    entries = sorted(entries, key=lambda entry: order.index(entry[0].suite))
    claims = [str(e.verdict.get("class")) for e, _ in entries]
    counts = {name: claims.count(name) for name in CLASSES}
    rows = [
        [
            f'<a href="{esc(address)}">{esc(evidence.suite)}</a>',
            tag(claim),
            str(evidence.verdict.get("endpoint")),
            key_text(evidence.verdict),
            value_text(evidence.verdict, evidence.get("value")),
            conclusion(evidence.predicate, [e.predicate for e, _ in entries]),
        ]
        for (evidence, address), claim in zip(entries, claims, strict=True)
    ]
    heads = ["Suite", "Paper's gate", "Endpoint", "Key figures", "Value gate", "What to conclude"]
    summary = joined(f"{n} {CLASSES[c][0].lower()}" for c, n in counts.items() if n) or "no verdicts"
    body = [
        "<h1>Certification status</h1>",
        paragraph(f"{count_text(len(entries), 'suite')}: {summary}.", "sub"),
        table("", heads, rows, raw=[0, 1], long=[2, 3, 4, 5], stack=True),
        section("classes", "What the classes mean", [_meanings()]),
        section("reasons", "Reasons", [_reasons(evidence, address) for evidence, address in entries]),
    ]
    kept = ("title", "kind", "looks", "selection", "verdict")
    data: dict[str, Any] = {e.suite: {key: e.get(key) for key in kept} for e, _ in entries}
    return frame("Certification status", body, data=data, footer=_FOOTER)


def _meanings() -> str:
    rows = [[tag(name), meaning] for name, (_, meaning) in CLASSES.items()]
    return table("", ["Class", "Meaning"], rows, raw=[0], long=[1])


def _reasons(evidence: Evidence, address: str) -> str:
    found = evidence.verdict
    items = "".join(f"<li>{esc(r)}</li>" for r in found.get("reasons") or ["no reasons given"])
    title = evidence.get("title")
    head = f'<h3>{tag(found.get("class"))} <a href="{esc(address)}">{esc(evidence.suite)}</a></h3>'
    return head + (paragraph(str(title), "sub") if title else "") + f"<ul>{items}</ul>"
