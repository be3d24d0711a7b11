"""Evidence folders for tests of the report: generated rows, judged by the real gate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ucsearch.evaluation.derive import conclude
from ucsearch.evaluation.manifest import json_lines, write_evidence
from ucsearch.evaluation.protocol import Protocol
from ucsearch.evaluation.selection import select
from ucsearch.records.canonical import canonical

FAMILIES = ("m4-daily", "m4-hourly", "m4-monthly", "m4-quarterly", "m4-weekly")
CANDIDATE = "risk-0.5-depth-4"
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
                policies = {"uc": _policy(own, 0.8 * own, 21 * 12, 9000)}
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
        seen = {"policies": row["policies"], "certificate": row["certificate"]}
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
    name = folder.name
    head = {"name": name, "kind": "walkforward", "title": title, "endpoint": f"Orders, {name}", "card": "m4", "seed": 1}
    suite = "".join(f"{key} = {json.dumps(value)}\n" for key, value in head.items()).encode()
    card = b"# Card\n"
    protocol = Protocol(name, 1, "cost", "cost", "utility", {f: f.partition("-")[0] for f in families}, gate=gate)
    hashes = {"card_sha256": hashlib.sha256(card).hexdigest(), "suite_sha256": hashlib.sha256(suite).hexdigest()}
    selection = select(rows, protocol, [{"id": CANDIDATE, "risk": 0.5}], **hashes)
    columns = [
        {"name": "Cost", "from": "cost", "how": "family_mean"},
        {"name": "Drawdown", "from": "drawdown", "how": "family_mean"},
        {"name": "Expansions", "from": "expansions", "how": "sum"},
    ]
    table = {"name": "policies", "title": "Costs of all policies", "split": "test", "group": ["policy"],
             "columns": columns, "order": ["uc", "cem"]}  # fmt: skip
    splits: dict[str, dict[str, list[str]]] = {}
    for r in rows:
        ids = splits.setdefault(r["split"], {}).setdefault(r["family"], [])
        ids += [r["series"]] if r["series"] not in ids else []
    task = {"name": "lead-time-inventory", "lead_time": 2, "ratio": 19.0}
    facts: dict[str, Any] = {
        "suite": name, "kind": "walkforward", "title": title, "endpoint": head["endpoint"],
        "settings": {**head, "walkforward": {"task": task, "risks": [0, 0.25, 0.5], "depth": 4}},
        "card": {"name": "m4", "sha256": hashes["card_sha256"]}, "protocol": protocol.as_json(),
        "data": [{"name": "m4/Daily-train.csv", "sha256": "ef" * 32, "bytes": 95765153, "status": "verified"}],
        "splits": splits, "seeds": [1], "extra": {},
        "versions": {"ucsearch": "0.1.0", "python": "3.11.2", "numpy": "2.2.0", "numba": "0.61.0", "platform": "linux"},
        **more,
    }  # fmt: skip
    predicate = conclude(
        facts, rows, tables=[table] if tests else [], checks=checks, selection=selection, looks=1 if tests else 0
    )
    files = {"card.md": card, "suite.toml": suite, "selection.json": canonical(selection)}
    if tests:
        look = {"look": 1, "selection": hashlib.sha256(files["selection.json"]).hexdigest()}
        files["looks.jsonl"] = json_lines([look])
    write_evidence(folder, predicate, rows, files)
    return folder


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
