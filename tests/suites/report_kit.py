"""Evidence folders for tests of the report: generated rows, judged by the real gate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.suites.evidence_kit import sample
from ucsearch.lab.suites.evidence.ledger import LEDGER, Look, append_look, before, by_dataset, own_look, read_ledger
from ucsearch.lab.suites.evidence.manifest import write_evidence
from ucsearch.lab.suites.evidence.sample import draw
from ucsearch.lab.suites.gates.derive import conclude
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import select
from ucsearch.records.canonical import canonical

FAMILIES = ("m4-daily", "m4-hourly", "m4-monthly", "m4-quarterly", "m4-weekly")
CANDIDATE = "exact-r0.5-d4"
SAMPLERS = ("cem", "mppi", "risk-random")
SAMPLES = 120  # 21 expansions and 460 nodes of the proof in a decision of depth 4
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"
# Policy: how its cost and drawdown compare with ours, and its expansions per decision.
OTHERS = {
    "cem": (1.12, 1.1, 480), "mppi": (1.08, 1.05, 480), "risk-random": (1.25, 1.3, 480), "base-stock": (1.45, 1.2, 0),
    "ss": (1.5, 1.35, 0), "rolling-quantile": (1.38, 1.25, 0), "greedy": (1.9, 2.2, 21), "dp": (1.0, 1.0, 9200),
    "delay-greedy": (1.3, 1.4, 63),
}  # fmt: skip


def make_rows(
    families: tuple[str, ...] = FAMILIES,
    series: int = 8,
    windows: int = 2,
    *,
    weak: str = "",
    name: str = "S",
    seed: int = 7,
    others: dict[str, tuple[float, float, int]] = OTHERS,
) -> list[dict[str, Any]]:
    """Rows in cost form. In the family `weak` the comparators are nearly as good and λ is often idle."""
    rng = np.random.default_rng(seed)
    rows = []
    for family in families:
        for s in range(series):
            scale = float(np.exp(rng.normal(0.0, 0.6)))
            for w in range(windows):
                own = 10.0 * scale * (1.0 + 0.1 * float(rng.random()))
                policies = {"uc": _policy(own, 0.8 * own, 21 * 12, 460 * 12)}
                policies["hindsight"] = _policy(0.8 * own, 0.7 * own, 0, 0)
                for other, (cost, fall, nodes) in others.items():
                    gain = 1.0 + ((cost - 1.0) * (0.15 if family == weak else 1.0)) + 0.05 * float(rng.normal())
                    policies[other] = _policy(own * gain, 0.8 * own * fall, nodes * 12, 0)
                active = 12 - int(rng.random() < (0.9 if family == weak else 0.15))
                rows.append(
                    {
                        "split": "test", "family": family, "series": f"{name}{s}", "window": w, "start": 100 + 12 * w,
                        "decisions": 12, "policies": policies,
                        "certificate": {
                            "decisions": 12, "passed": 12, "risk_active": active, "search_pass": 11,
                            "margin": float(np.exp(rng.normal(-3.0, 1.4))), "gap": float(np.exp(rng.normal(-3.5, 1.5))),
                        },
                    }
                )  # fmt: skip
    return rows


def _policy(cost: float, drawdown: float, expansions: float, nodes: float) -> dict[str, float | None]:
    return {"cost": cost, "reward": -cost, "utility": -cost, "drawdown": drawdown, "cvar20": -cost / 3.0,
            "violations": 0, "expansions": expansions, "oracle_nodes": nodes, "regret": 0.2 * cost}  # fmt: skip


def as_validation(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same windows earlier in time, seen by one candidate."""
    out = []
    for row in rows:
        compared = {name: row["policies"][name] for name in ("uc", *SAMPLERS)}
        seen = {"policies": compared, "certificate": row["certificate"]}
        kept = {k: v for k, v in row.items() if k not in seen}
        out.append({**kept, "split": "validation", "start": row["start"] - 60, "candidates": {CANDIDATE: seen}})
    return out


def write_folder(
    folder: Path,
    tests: list[dict[str, Any]],
    validation: list[dict[str, Any]] | None = None,
    *,
    gate: bool = True,
    title: str = "Orders on forty series",
    checks: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> Path:
    """An evidence folder as a run writes it: chosen on validation rows, then judged on test rows, if there are any."""
    validation = as_validation(make_rows(series=8)) if validation is None else validation
    rows = [*validation, *tests]
    families = sorted({r["family"] for r in rows})
    name = folder.name.replace(" ", "-")
    head = {"name": name, "kind": "walkforward", "title": title, "endpoint": f"Orders, {name}", "card": "m4", "seed": 1}
    windows = {split: 1 + max((r["window"] for r in rows if r["split"] == split), default=1)
               for split in ("validation", "test")}  # fmt: skip
    others = sorted({p for r in tests for p in r["policies"]} - {"uc", "hindsight", *SAMPLERS})
    task = {"name": "lead_time_inventory", "lead_time": 2, "shortage": 19.0}
    table: dict[str, Any] = {
        "families": families, "task": task, "gate": gate, "splits": {**windows, "decisions": 12},
        "candidates": {"policies": ["exact"], "risks": [0.5], "depths": [4]},
        "comparators": {"others": others, "wide": False}, "sampled": 1,
    }  # fmt: skip
    suite = (
        "".join(f"{key} = {json.dumps(value)}\n" for key, value in head.items())
        + "[walkforward]\n"
        + "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
    ).encode()
    card = b"# Card\n"
    datasets = {f: f.partition("-")[0] for f in families}
    protocol = Protocol(name, 1, "cost", "cost", "utility", datasets, windows, gate=gate)
    hashes = {"card_sha256": hashlib.sha256(card).hexdigest(), "suite_sha256": hashlib.sha256(suite).hexdigest()}
    candidate = {"id": CANDIDATE, "policy": "exact", "risk": 0.5, "depth": 4, "samples": SAMPLES,
                 "samples_wide": SAMPLES}  # fmt: skip
    selection = select(rows, protocol, [candidate], **hashes)
    columns = [
        {"name": "Cost", "from": "cost", "how": "family_mean"},
        {"name": "Drawdown", "from": "drawdown", "how": "family_mean"},
        {"name": "Expansions", "from": "expansions", "how": "sum"},
    ]
    shown = {"name": "policies", "title": "Costs of all policies", "split": "test", "group": ["policy"],
             "columns": columns, "order": ["uc", "cem"]}  # fmt: skip
    splits: dict[str, dict[str, list[str]]] = {}
    for r in rows:
        ids = splits.setdefault(r["split"], {}).setdefault(r["family"], [])
        ids += [r["series"]] if r["series"] not in ids else []
    facts: dict[str, Any] = {
        "suite": name, "kind": "walkforward", "title": title, "endpoint": head["endpoint"],
        "settings": {**head, "walkforward": table},
        "card": {"name": "m4", "sha256": hashes["card_sha256"]}, "protocol": protocol.as_json(),
        "data": [{"name": "m4/Daily-train.csv", "sha256": "ef" * 32, "bytes": 95765153, "status": "verified"}],
        "splits": splits, "seeds": {"suite": 1}, "extra": {},
        "versions": {"ucsearch": "0.1.0", "python": "3.11.2", "numpy": "2.2.0", "numba": "0.61.0", "platform": "linux"},
        **more,
    }  # fmt: skip
    looks, earlier = _look(folder, hashes, selection, tests, datasets) if tests else (0, [])
    predicate = conclude(
        facts, rows, tables=[shown] if tests else [], checks=checks, selection=selection, looks=looks, earlier=earlier
    )
    files = {"card.md": card, "suite.toml": suite, "selection.json": canonical(selection)}
    for one in draw(rows, 1):
        files["sample.jsonl"] = sample(one.name)
    write_evidence(folder, predicate, rows, files)
    return folder


def _toml(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def _look(
    folder: Path,
    hashes: dict[str, str],
    selection: dict[str, Any],
    tests: list[dict[str, Any]],
    datasets: dict[str, str],
) -> tuple[int, list[dict[str, Any]]]:
    """A line in the ledger beside the folder."""
    spans: dict[str, dict[str, list[int]]] = {}
    for r in tests:
        held = spans.setdefault(r["family"], {}).setdefault(r["series"], [r["start"], 0])
        held[:] = [min(held[0], r["start"]), max(held[1], r["start"] + r["decisions"])]
    own = Look(folder.name, hashes["suite_sha256"], hashes["card_sha256"],
               hashlib.sha256(canonical(selection)).hexdigest())  # fmt: skip
    append_look(folder.parent / LEDGER, own, by_dataset(spans, datasets, folder.name), code=None)
    looks = read_ledger(folder.parent / LEDGER)
    found = own_look(looks, own)
    assert found is not None
    return before(looks, found)


def no_go_rows() -> list[dict[str, Any]]:
    """Validation rows of a route that has too little to offer."""
    rows = as_validation(make_rows(("ett-ETTh1", "ett-ETTm1"), series=6, windows=2))
    for i, row in enumerate(rows):
        row["audit"] = {"credit": 0.3 if i % 3 else 0.0, "relief": 0.1 if i % 2 else -0.2}
    return rows


CALIBRATION = [
    {
        "file": f,
        "kind": kind,
        "nominal": level,
        "observed": level - miss * (1.5 if kind == "single" else 0.4),
        "count": 511,
    }
    for f, miss in (("ETTh1", 0.05), ("ETTm2", 0.09))
    for kind in ("single", "ensemble")
    for level in (0.8, 0.95)
]


def many_folders(root: Path) -> Path:
    """A certified suite, a boundary, a no-go and a diagnostic, with hostile names among them."""
    write_folder(root / "orders40", make_rows())
    write_folder(
        root / "orders200", make_rows(series=12, weak="m4-hourly", seed=3), as_validation(make_rows(series=12))
    )
    write_folder(root / "repair", [], no_go_rows(), title="Delayed service")
    rows = make_rows((HOSTILE[:40], "b"), series=5, name=HOSTILE)
    checks = [{"name": "expansions of uc", "left": 2689, "op": "==", "right": 2688},
              {"name": f"check {HOSTILE}", "left": 1, "op": "==", "right": 1}]  # fmt: skip
    extra = {"calibration": CALIBRATION, "decisions_apart": {"greedy / beam": 0}, HOSTILE: {HOSTILE: 1.0}}
    title = f"Hostile {HOSTILE}"
    write_folder(root / "hostile", rows, as_validation(rows), gate=False, title=title, extra=extra, checks=checks)
    return root
