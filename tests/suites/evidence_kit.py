"""A small run with known truth, and the evidence it leaves."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import ucsearch as uc
from ucsearch.cli import demo
from ucsearch.lab.suites.evidence.ledger import LEDGER, Look, append_look, before, by_dataset, read_ledger
from ucsearch.lab.suites.evidence.manifest import seal, write_evidence
from ucsearch.lab.suites.evidence.rows import row_bytes, sort_rows
from ucsearch.lab.suites.evidence.sample import draw
from ucsearch.lab.suites.gates.derive import conclude
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import select
from ucsearch.records.canonical import canonical

FAMILIES = {"fam-a": "one", "fam-b": "two"}
PROTOCOL = Protocol("kit", 7, "cost", "cost", "utility", FAMILIES, {"validation": 1, "test": 2})
R0, R05 = "exact-r0-d3", "exact-r0.5-d3"
# 120 expansions and 60 nodes of the proof in 20 decisions of depth 3: three plans for a sampler.
SAMPLES, SPENT, NODES = 3, 120, 60
CANDIDATES = tuple(
    {"id": name, "policy": "exact", "risk": risk, "depth": 3, "samples": SAMPLES, "samples_wide": SAMPLES}
    for name, risk in ((R0, 0.0), (R05, 0.5))
)
CARD = b"# Kit\n"
SUITE = b"""name = "kit"
kind = "walkforward"
title = "A kit"
endpoint = "Kit endpoint"
card = "kit"
seed = 7
[walkforward]
families = ["fam-a", "fam-b"]
sampled = 1
[walkforward.task]
name = "lead_time_inventory"
[walkforward.splits]
per_family = 6
validation = 1
test = 2
decisions = 20
[walkforward.candidates]
policies = ["exact"]
risks = [0.0, 0.5]
depths = [3]
[walkforward.comparators]
seeds = 10
others = []
wide = false
"""
TABLES = (
    {
        "name": "policies",
        "title": "Policies",
        "split": "test",
        "group": ["policy"],
        "order": ["uc"],
        "columns": [
            {"name": "Cost", "from": "cost", "how": "family_mean"},
            {"name": "Windows", "how": "count"},
        ],
    },
    {
        "name": "rates",
        "title": "Rates",
        "split": "test",
        "group": ["family"],
        "where": {"policy": "uc"},
        "columns": [
            {"name": "Certificate", "from": "cert_passed", "over": "cert_decisions", "how": "rate_family_mean"}
        ],
    },
)
CHECKS = (
    {
        "name": "gap_mean",
        "from": {"table": "policies", "row": ["uc"], "column": "Cost"},
        "left": None,
        "op": "<=",
        "right": 20,
    },
)


def policies(rng: np.random.Generator, edge: float) -> dict[str, dict[str, float]]:
    """UC-Search is better by about `edge` than the three of the gate."""
    cost = float(rng.uniform(8.0, 12.0))
    out = {"uc": {"cost": cost, "utility": -cost, "violations": 0, "expansions": SPENT, "oracle_nodes": NODES}}
    for name in ("cem", "mppi", "risk-random"):
        other = cost * (1.0 + edge) / (1.0 - edge) * float(rng.uniform(0.97, 1.03))
        spent = SAMPLES * 3 * 20
        out[name] = {"cost": other, "utility": -other, "violations": 0, "expansions": spent, "oracle_nodes": 0}
    return out


def certificate(passed: int = 20, active: int = 20) -> dict[str, Any]:
    return {"decisions": 20, "passed": passed, "risk_active": active, "margin": 0.5, "gap": None}


def make_rows(
    *, series: int = 6, edge: float = 0.1, active: int = 20, passed: int = 20, seed: int = 1
) -> list[dict[str, Any]]:
    """Validation and test rows; the candidate of risk 0.5 is eligible, that of risk 0 is never risk-active."""
    rng = np.random.default_rng(seed)
    rows = []
    for family in FAMILIES:
        for s in range(series):
            head = {"family": family, "series": f"S{s}", "decisions": 20}
            sides = {
                R0: {"policies": policies(rng, edge), "certificate": certificate(20, 0)},
                R05: {"policies": policies(rng, edge), "certificate": certificate(20, 20)},
            }
            rows.append({**head, "split": "validation", "window": 0, "start": 100, "policies": {}, "candidates": sides})
            for w in range(2):
                own = {"policies": policies(rng, edge), "certificate": certificate(passed, active)}
                own["policies"]["hindsight"] = {"cost": 1.0, "utility": -1.0, "violations": 0}
                rows.append({**head, "split": "test", "window": w, "start": 120 + 20 * w, **own})
    return [dict(row) for row in sort_rows(rows)]


def splits_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    splits: dict[str, dict[str, list[str]]] = {"design": {"fam-a": ["D0"]}}
    for row in sort_rows(rows):
        ids = splits.setdefault(row["split"], {}).setdefault(row["family"], [])
        if row["series"] not in ids:
            ids.append(row["series"])
    return splits


def facts_of(
    rows: list[dict[str, Any]], protocol: Protocol | None = PROTOCOL, suite: bytes = SUITE, card: bytes = CARD
) -> dict[str, Any]:
    return {
        "suite": "kit",
        "kind": "walkforward",
        "title": "A kit",
        "endpoint": "Kit endpoint",
        "settings": {
            "name": "kit",
            "kind": "walkforward",
            "title": "A kit",
            "endpoint": "Kit endpoint",
            "card": "kit",
            "seed": 7,
            "walkforward": {**tomllib.loads(suite.decode())["walkforward"], "paths": 60},
        },
        "card": {"name": "kit", "sha256": hashlib.sha256(card).hexdigest()},
        "data": [{"name": "file.csv", "sha256": "ab" * 32, "bytes": 12, "status": "verified"}],
        "splits": splits_of(rows),
        "seeds": [7],
        "versions": {"ucsearch": "0.1.0"},
        "protocol": None if protocol is None else protocol.as_json(),
        "extra": {},
    }


def suite_of(rows: list[dict[str, Any]]) -> bytes:
    """The suite file for that many series a family."""
    count = max((sum(r["family"] == f and r["split"] == "validation" for r in rows) for f in FAMILIES), default=6)
    return SUITE.replace(b"per_family = 6", f"per_family = {count}".encode())


def hashes(suite: bytes = SUITE, card: bytes = CARD) -> dict[str, str]:
    return {"card_sha256": hashlib.sha256(card).hexdigest(), "suite_sha256": hashlib.sha256(suite).hexdigest()}


@cache
def sample(name: str = "fam-a/S0/0/0") -> bytes:
    """One decision of the demonstration's task, recorded under a name and exported."""
    members = np.array([[70.0, 60.0, 80.0], [90.0, 75.0, 60.0], [60.0, 80.0, 90.0]])
    trace = uc.Trace.from_members(members, issued=demo.ISSUED)
    policy = uc.CertifiedBeam(depth=3, width=9, risk=0.5)
    made = uc.decide(
        demo.TASK, demo.START, trace, policy, gate=uc.Gate(certificate=True), now=demo.NOW, run=uc.Run(engine="python")
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        with uc.AuditLog(path, clock=lambda: datetime(2024, 5, 20, tzinfo=UTC)) as log:
            log.write(made, series=name, where=demo.WHERE)
            log.export_jsonl(path.with_name("out.jsonl"))
        return path.with_name("out.jsonl").read_bytes()


def write(
    out: Path,
    rows: list[dict[str, Any]] | None = None,
    *,
    protocol: Protocol = PROTOCOL,
    looks: int = 1,
    with_sample: bool = True,
    change: Callable[[dict[str, Any]], None] | None = None,
    checks: Any = CHECKS,
    suite: bytes | None = None,
    card: bytes = CARD,
    keep_ledger: bool = False,
) -> Path:
    """Evidence of a run on these rows, as a runner would write it: a folder in `out`, and the ledger beside it.

    `change` may spoil the predicate before; `looks`: with so many minus one looks under other selections before;
    `keep_ledger`: as a forger has to who cannot write there.
    """
    rows = make_rows() if rows is None else rows
    tested = any(row["split"] == "test" for row in rows)
    suite = suite_of(rows) if suite is None else suite
    selection = select(rows, protocol, CANDIDATES, **hashes(suite, card)) if rows else None
    body = canonical(selection)
    count, earlier = look(out, rows, body, looks, suite) if tested and not keep_ledger else (looks if tested else 0, [])
    tables = TABLES if tested else ()
    predicate = conclude(
        facts_of(rows, protocol, suite, card),
        rows,
        tables=tables,
        checks=checks if tested else (),
        selection=selection,
        looks=count,
        earlier=earlier,
    )
    if change is not None:
        change(predicate)
    files = {"card.md": card, "suite.toml": suite}
    drawn = draw(rows, 1)
    if with_sample and drawn:
        files["sample.jsonl"] = sample(drawn[0].name)
    if selection is not None:
        files["selection.json"] = body
    write_evidence(out / "kit", predicate, rows, files)
    return out / "kit"


def look(
    out: Path, rows: list[dict[str, Any]], selection: bytes, looks: int = 1, suite: bytes = SUITE
) -> tuple[int, list[dict[str, Any]]]:
    """Write the looks of a run into a new ledger; how many there are, and what was open before."""
    (out / LEDGER).unlink(missing_ok=True)
    spans: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        if row["split"] == "test":
            held = spans.setdefault(row["family"], {}).setdefault(row["series"], [row["start"], 0])
            held[:] = [min(held[0], row["start"]), max(held[1], row["start"] + row["decisions"])]
    for i in range(looks):
        text = selection if i == looks - 1 else f"selection {i}".encode()
        own = Look("kit", hashes(suite)["suite_sha256"], hashes()["card_sha256"], hashlib.sha256(text).hexdigest())
        append_look(out / LEDGER, own, by_dataset(spans, FAMILIES, "kit"), code=None)
    made = read_ledger(out / LEDGER)
    return before(made, made[-1])


def manifest_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return content


def rewrite(folder: Path, statement: dict[str, Any], *, reseal: bool) -> None:
    """Put a changed manifest in place; a forger seals it again and mends the digests."""
    if reseal:
        for subject in statement["subject"]:
            if isinstance(subject, dict) and (folder / str(subject.get("name"))).is_file():
                body = (folder / subject["name"]).read_bytes()
                subject["digest"] = {"sha256": hashlib.sha256(body).hexdigest()}
        statement["predicate"]["seal"] = seal(statement["predicate"])
    (folder / "manifest.json").write_bytes(canonical(statement))


def rewrite_rows(folder: Path, rows: list[dict[str, Any]], *, sort: bool = True) -> None:
    """Forge the rows and everything that only repeats their digest."""
    body = row_bytes(rows) if sort else b"".join(canonical(row) + b"\n" for row in rows)
    (folder / "rows.jsonl").write_bytes(body)
    rewrite(folder, manifest_of(folder), reseal=True)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_bytes().splitlines()]
