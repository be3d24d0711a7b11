"""How fast the audit log takes decisions: batches of 1,000 records with 20-member, 12-step traces.

Counted is all that a caller pays for: array, canonical JSON, hashes, one synced commit per batch.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.table import Row
from ucsearch.records import AuditLog, blob_ref, encode_array
from ucsearch.records.canonical import canonical

__all__ = ["rows", "run"]

TARGET = 5_000  # records per second


def example(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """A decision record of the usual size (about 1.5 KB) and mix of texts, numbers and witnesses."""
    released = n % 3 > 0
    return {
        "schema": "ucsearch.decision/1",
        "kind": "decision",
        "series": f"SKU-{n:07d}",
        "outcome": "RELEASED" if released else "FALLBACK",
        "reason": "certified" if released else "not_risk_active",
        "task": {"name": "inventory", "version": "1", "source": "5f" * 32},
        "inputs": {"state": [4.0, 2.0, 0.0], "issued": "2024-05-01T06:00:00+00:00"},
        "settings": {
            "policy": "CertifiedBeam",
            "depth": 6,
            "width": 8,
            "top_k": 3,
            "risk": 0.25,
            "prune_risk": 0.25,
            "discount": 1.0,
            "mode": "mean",
            "spread": "std",
            "order": "bound",
        },
        "claim": {
            "kind": "bound",
            "gap": float(rng.random()),
            "margin": "inf" if n % 5 == 0 else float(rng.random()),
            "regret_bound": 0.0,
            "tau": 1e-9,
            "optimal": True,
            "unique": True,
            "robust": False,
            "risk_active": released,
        },
        "witnesses": [
            {
                "action": float(action),
                "path": [float(a) for a in rng.integers(0, 9, 6)],
                "score": float(rng.normal(0, 50)),
                "uncertainty": float(rng.random() * 3),
            }
            for action in range(5)
        ],
        "gate": [
            {"name": name, "left": float(rng.random()), "op": ">=", "right": 0.0, "pass": True}
            for name in ("certificate", "risk_active", "regret", "trace_age")
        ],
        "versions": {"ucsearch": "0.1.0", "numpy": "2.1.0", "python": "3.11.7"},
    }


def run(batches: int = 20, batch: int = 1_000, seed: int = 0) -> dict[str, Any]:
    """Append `batches` batches to a new log in a temporary folder, then verify and export it.

    `records_per_s` is all records over all time, `median_records_per_s` the rate of the median batch,
    `records_per_cpu_s` what it would be on a core of one's own with a disk that costs nothing.
    """
    rng = np.random.default_rng(seed)
    seconds, busy = [], 0.0
    with tempfile.TemporaryDirectory() as folder, AuditLog(Path(folder) / "log.db") as log:
        for start in range(0, batches * batch, batch):
            records = [example(n, rng) for n in range(start, start + batch)]
            traces = rng.normal(100.0, 15.0, (batch, 20, 12))
            began, began_busy = time.perf_counter(), time.process_time()
            blobs = {}
            for record, members in zip(records, traces, strict=True):
                blob = encode_array(members)
                reference = blob_ref(blob)
                record["inputs"]["trace"] = reference
                blobs[reference["$blob"]] = blob
            log.append_batch(records, blobs)
            seconds.append(time.perf_counter() - began)
            busy += time.process_time() - began_busy
        began = time.perf_counter()
        report = log.verify(log.checkpoint())
        verify_s = time.perf_counter() - began
        began = time.perf_counter()
        log.export_jsonl(Path(folder) / "out.jsonl")
        export_s = time.perf_counter() - began
        size = (Path(folder) / "log.db").stat().st_size
    if not report.ok or report.count != batches * batch:
        raise RuntimeError(f"the log of the benchmark is not right: {report}")
    return {
        "records": report.count,
        "batch": batch,
        "record_bytes": len(canonical(records[-1])),
        "blob_bytes": len(blob),
        "records_per_s": report.count / sum(seconds),
        "median_records_per_s": batch / statistics.median(seconds),
        "records_per_cpu_s": report.count / busy,
        "target_records_per_s": TARGET,
        "verified_per_s": report.count / verify_s,
        "exported_per_s": report.count / export_s,
        "log_bytes_per_record": size / report.count,
    }


def rows() -> list[Row]:
    """Records a second, in, checked and out."""
    found = run()
    size = f"{found['record_bytes']:,.0f} bytes a record, {found['log_bytes_per_record']:,.0f} on disk"
    return [
        Row(
            "log",
            "records written, one synced commit a thousand",
            found["records_per_s"],
            "a second",
            (">=", TARGET),
            size,
        ),
        *(Row("log", f"records {word}", found[f"{word}_per_s"], "a second") for word in ("verified", "exported")),
    ]
