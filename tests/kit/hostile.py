"""Hostile records, exports, checkpoints and logs: each with a name and the exit codes that the verifier may give it.

All are made from genuine ones, in the same way every time: a record that was edited has its ids, digests and heads made
to fit again, so that the edit itself is what the verifier meets. Tasks are built in; nothing is imported for them.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
import sqlite3
import struct
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ucsearch as uc
from ucsearch.records import AuditLog, canonical
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory

VALID, INVALID, MALFORMED, WEAKER, USAGE = "valid", "invalid", "malformed", "weaker", "usage"
BUDGET = 5_000  # nodes a case may take
ADDRESS = "ucsearch.tasks:LeadTimeInventory"
Record = dict[str, Any]


class Case(NamedTuple):
    """A file for the verifier."""

    name: str
    data: bytes
    verdicts: frozenset[str]
    checkpoint: bytes | None = None
    arguments: tuple[str, ...] = ()


def worst(code: int, output: str) -> str:
    """The worst verdict of a run, by its exit code and its last line."""
    if code == 1:
        return INVALID if re.search("[0-9] invalid", output) else WEAKER
    return {0: VALID, 2: MALFORMED if "malformed" in output else USAGE}.get(code, "error")


# -------------------------------------------------------------------- genuine ones


@cache
def decision(kind: str) -> tuple[Record, dict[str, bytes]]:
    config = LeadTimeInventory(order_sizes=[0.0, 1.0, 2.0, 3.0])
    trace = uc.Trace.from_members([[2.0, 3.0, 1.0], [4.0, 2.0, 3.0]])
    policy: Any = {
        "beam": uc.UCBeam(depth=2, width=4, top_k=3, risk=0.25),
        "members": uc.CertifiedBeam(depth=2, width=4, top_k=3, risk=0.25, mode="members"),
        "route": uc.ConstrainedBeam(depth=2, width=4, top_k=3, risk=1.0, near_equal=5.0, band=0.5),
        "exact": uc.Exact(depth=2, risk=0.25),
        "mcts": uc.MCTS(depth=2, simulations=30, risk=0.25),
        "cvar": uc.Exact(depth=2, risk=0.5, mode="members", spread="cvar", tail=0.5),
        "closed": uc.Exact(depth=2, mode="closed"),
        "lattice": uc.Exact(depth=2, mode="closed", risk=0.5, spread="cvar", tail=0.5),
    }[kind]
    if kind == "closed":
        trace = uc.Trace.from_members([[2.0, 3.0, 1.0], [4.0, 2.0, 3.0]], coupling="independent")
    elif kind == "lattice":
        trace = trace.on_lattice(1.0, 2)
    gate = uc.Gate(max_trace_age_s=1e6) if kind == "mcts" else uc.Gate()
    made = uc.decide(
        config.task(),
        config.state(3.0, [1.0, 0.0]),
        trace,
        policy,
        params=config.params(),
        gate=gate,
        run=uc.Run(engine="python"),
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )
    sizes = json.dumps({"order_sizes": [0.0, 1.0, 2.0, 3.0]}, separators=(",", ":")).encode().hex()
    return decision_record(made, series="A-1", where=f"{ADDRESS}_{sizes}")


def override(target: Record, **values: Any) -> Record:
    text = {
        "schema": "ucsearch.override/1",
        "kind": "override",
        "overrides": target["id"],
        "entry": 1,
        "digest": _digest(target),
        "who": "A. Planner",
        "why": "strike",
        "action": 0.0,
        "label": target["task"]["labels"][0] if "task" in target else "",
        "off_grid": False,
        "at": "2026-01-01T00:00:00+00:00",
        "series": target["series"],
    }
    return resealed({**text, **values})


def refusal(**values: Any) -> Record:
    settings = decision("beam")[0]["gate"]["settings"]
    outcome = {
        "outcome": "HOLD",
        "reason": "invalid_trace",
        "cause": "invalid_trace",
        "pass_kind": "",
        "sentence": "",
        "fallback_feasible": False,
        "release_margin": None,
        "regret_bound": "inf",
        "action": None,
        "rejected_action": None,
        "fallback_action": None,
        "fallback_cost": None,
    }
    text = {
        "schema": "ucsearch.refusal/1",
        "kind": "refusal",
        "series": "A-1",
        "task": {**decision("beam")[0]["task"], "actions": [], "labels": []},
        "gate": {"settings": settings, "now": ""},
        "outcome": {**outcome, **values},
        "versions": decision("beam")[0]["versions"],
    }
    return resealed(text)


def _hash(domain: str, data: bytes) -> str:
    return hashlib.sha256(f"ucsearch/{domain}\0".encode() + data).hexdigest()


def written(value: Any) -> bytes:
    """Canonical bytes, with whole numbers beyond 2**53 written as numbers all the same."""
    return canonical.canonical(_as_floats(value))


def _as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_floats(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_floats(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) > canonical.MAX_INT else value


def _digest(record: Any) -> str:
    return _hash("audit-entry/1", written(record))


@cache
def _template() -> str:
    """The members of an exported line, as the log writes them."""
    with tempfile.TemporaryDirectory() as folder, AuditLog(Path(folder) / "a.db") as log:
        log.append(*decision("beam"))
        log.export_jsonl(Path(folder) / "a.jsonl")
        return (Path(folder) / "a.jsonl").read_text(encoding="utf-8")


def exported(*records: tuple[Any, dict[str, bytes]]) -> list[Record]:
    """Lines with a chain, as objects; what stands for the record may be anything."""
    lines, head = [], _hash("audit-genesis/1", b"")
    for seq, (record, blobs) in enumerate(records, 1):
        line: Record = json.loads(_template())
        own = _digest(record)
        link = bytes.fromhex(head) + seq.to_bytes(8, "big") + bytes.fromhex(own)
        line["previous"] = head
        head = _hash("audit-head/1", link)
        texts = {name: b64encode(data).decode("ascii") for name, data in blobs.items()}
        line |= {"seq": seq, "record": record, "digest": own, "head": head, "written_at": None, "blobs": texts}
        lines.append(line)
    return lines


def text(*lines: Record) -> bytes:
    return b"".join(written(line) + b"\n" for line in lines)


def resealed(record: Record) -> Record:
    content = {k: v for k, v in record.items() if k != "id"}
    return {**content, "id": _hash("record-id/1", written(content))}


def edited(record: Record, path: str, value: Any) -> Record:
    """A sealed copy with another value at a.b.0; `...` removes it, a callable is given the old one."""
    copied = copy.deepcopy(record)
    *parts, last = [int(x) if x.isdigit() else x for x in path.split(".")]
    at: Any = copied
    for part in parts:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value(at[last]) if callable(value) else value
    return resealed(copied)


# -------------------------------------------------------------------- records


BAD, FALSE, OPEN = {MALFORMED}, {INVALID}, {INVALID, WEAKER}
BIG = 2**53

# kind of decision, place, value, codes
EDITS: list[tuple[str, str, Any, set[str]]] = [
    *[
        ("beam", "schema", value, BAD)
        for value in ("", "ucsearch.decision/3", None, 1, [], {}, "ucsearch.decision/1\0")
    ],
    *[("beam", "kind", value, BAD) for value in ("", "decree", None, ["decision"], "Decision")],
    *[("beam", "task", value, BAD) for value in (None, [], "x", 1)],
    *[("beam", "task.actions", value, FALSE | BAD) for value in ([], [1.0] * 5000, [None] * 4, [1e308] * 4, "", {})],
    *[("beam", "task.labels", value, FALSE | BAD) for value in ([], ["\u202e"] * 4, ["x" * 100_000] * 4, [1], None)],
    *[("beam", "task.rules", value, FALSE | BAD) for value in ("", "0" * 64, "G" * 64, None, "0" * 100_000)],
    *[("beam", "inputs.state", value, FALSE | BAD) for value in ([], [1e308] * 4, [-1.0] * 4, [0.0] * 100_000, [None])],
    *[("beam", "inputs.state_lengths", value, FALSE | BAD) for value in ([], [BIG] * 3, [0, 10**9, 0], [-1], [0.5])],
    *[("beam", "inputs.params", lambda p, x=x: [x] * len(p), OPEN | BAD) for x in (0.0, -1.0, 1e308, 1e-308, 1e300)],
    *[("beam", "inputs.params", value, FALSE | BAD) for value in ([], [None], "x", [1.0] * 100_000)],
    *[("beam", "inputs.params_lengths", value, FALSE | BAD) for value in ([], [BIG], [-1], None)],
    *[("beam", f"inputs.trace.{name}", {"$blob": "0" * 64}, BAD) for name in ("members", "weights", "mean", "q", "u")],
    *[
        ("beam", "inputs.trace.members", value, BAD)
        for value in (None, [], {"$blob": 1}, {"$blob": "x"}, {"$blob": None})
    ],
    ("beam", "inputs.trace.hash", "0" * 64, FALSE),
    *[("beam", "inputs.trace.meta.issued", value, FALSE | BAD) for value in (["never"], "x", [1], ["\0"])],
    *[("beam", "settings.depth", value, FALSE | BAD) for value in (0, -1, 3, BIG, 1.5, "2", None)],
    *[("beam", "settings.reach", value, FALSE | BAD) for value in (0, BIG, -1)],
    *[("beam", "settings.width", value, OPEN | BAD) for value in (0, -1, 1, 2**40, BIG, 1e300)],
    *[("beam", "settings.top_k", value, FALSE | BAD) for value in (0, 5, BIG, -1)],
    *[("beam", "settings.risk", value, FALSE | BAD) for value in (-1.0, 1e308, "inf", None, "nan")],
    *[("beam", "settings.discount", value, FALSE | BAD) for value in (0.0, 1e-308, 2.0, -1.0, None)],
    *[("beam", "settings.mode", value, FALSE | BAD) for value in (1, 2, 3, -1, None, True)],
    *[("beam", "settings.spread", value, FALSE | BAD) for value in (0, 2, 9)],
    *[("beam", "settings.algorithm", value, FALSE | BAD) for value in ("exact", "mcts", "oracle", "", None)],
    *[("beam", "settings.policy", value, FALSE | BAD) for value in ("Exact", "MCTS", "X", "", None)],
    *[("beam", "settings.extra_i", value, FALSE | BAD) for value in (["9" * 5000], [BIG], [None])],
    *[("beam", "settings.proof_budget", value, {VALID} | FALSE | BAD) for value in (0, BIG, -1)],
    *[("exact", "settings.node_budget", value, {VALID} | FALSE | BAD) for value in (0, 1, BIG, -1)],
    *[("mcts", "settings.simulations", value, {VALID} | FALSE | BAD) for value in (0, 1, BIG, -1)],
    *[("mcts", "settings.c_uct", value, {VALID} | FALSE | BAD) for value in (-1.0, 1e308, None)],
    *[
        ("route", f"settings.{name}", value, OPEN | {VALID} | BAD)
        for name in ("near_equal", "band", "utility_budget")
        for value in (-1.0, 1e308, "inf", None)
    ],
    *[("members", "settings.risk", value, FALSE) for value in (2.0, 1e308)],
    *[("beam", "rivals", value, FALSE | BAD) for value in ([], None, [None], [{}], {})],
    ("beam", "rivals", lambda r: r * 300, FALSE),
    ("beam", "rivals", lambda r: r[::-1], FALSE),
    *[("beam", "rivals.0.index", value, FALSE | BAD) for value in (-1, BIG, 0.5, None, 99)],
    *[
        ("beam", "rivals.0.path", value, FALSE | BAD)
        for value in ([], [BIG, BIG], [0] * 100_000, [None], None, [-1, 0])
    ],
    *[
        ("beam", f"rivals.0.{name}", value, FALSE | BAD)
        for name in ("score", "reward", "uncertainty", "upper")
        for value in (1e308, -1e308, "-inf", "nan", "x")
    ],
    *[
        ("beam", f"claim.{name}", value, FALSE | BAD)
        for name in ("gap", "tau", "regret_bound", "margin")
        for value in (1e308, "inf", "-inf", "nan", [])
    ],
    *[("beam", "claim.action_index", value, FALSE | BAD) for value in (-1, -2, BIG, None, True)],
    *[("beam", "claim.counters.expansions", value, FALSE | BAD) for value in (0, BIG, -1, 1e300)],
    *[
        ("beam", "gate.now", value, {VALID} | FALSE | BAD)
        for value in (
            "0001-01-01T00:00:00+23:59",
            "9999-12-31T23:59:59-23:59",
            "soon",
            "\x1b[2J",
            "2026-W01",
            "x" * 10_000,
        )
    ],
    *[
        ("mcts", "gate.now", value, FALSE | BAD)
        for value in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "soon", "2026-01-01T00:00:00+24:00")
    ],
    *[("beam", "gate.rows", value, FALSE | BAD) for value in ([], None, [None], [{}])],
    ("beam", "gate.rows", lambda rows: rows * 1000, FALSE),
    *[("beam", "gate.rows.0.name", value, FALSE | BAD) for value in ("\x1b]0;x\x07", "", None, "tasks")],
    *[("beam", "gate.settings.regret_limit", value, FALSE | BAD) for value in (-1.0, "inf", 1e308, True)],
    *[("beam", "gate.elapsed_s", value, {VALID} | BAD) for value in (-1.0, 1e308, "inf", None)],
    *[("beam", "gate.calibration", value, BAD) for value in (None, {}, [])],
    *[("beam", "outcome.outcome", value, FALSE | BAD) for value in ("HOLD", "MAYBE", "", None)],
    *[("beam", "outcome.action", value, FALSE | BAD) for value in (None, 99.0, "3", 1e308)],
    *[("beam", "versions", value, BAD) for value in (None, {}, {"ucsearch": 1}, [])],
    *[
        ("beam", name, ..., BAD)
        for name in ("versions", "claim", "rivals", "gate", "outcome", "settings", "inputs", "task")
    ],
    *[("beam", f"more{mark}", 1, BAD) for mark in ("", "\u202e", "\x1b[31m", "\0", "\ufeff")],
    *[("beam", "series", value, {VALID} | BAD) for value in ("\u202eevil", "\x1b[2J", "x" * 1_000_000, "\0", 1)],
]


def named(**params: Any) -> str:
    """The address of the inventory with other parameters."""
    return f"{ADDRESS}_{json.dumps(params, separators=(',', ':')).encode().hex()}"


def coded(data: bytes) -> str:
    return f"{ADDRESS}_{data.hex()}"


NAMES: list[tuple[str, set[str]]] = [
    *[
        (name, {USAGE})
        for name in (
            "",
            ":",
            "os:system",
            "evil:task",
            "builtins:exec",
            "ucsearch.verify.trust:tasks",
            "ucsearch.cli.main:app",
            "ucsearch.tasks.inventory.record:np",
            "ucsearch.tasks.inventory.record:LeadTimeInventory.__init__",
            f"{ADDRESS}_zz",
            f"{ADDRESS}_7b",
            coded(b"[]"),
            coded(b"1"),
            coded(b"null"),
            coded(b"[" * 5000),
            named(lead_time=1e308),
            named(order_sizes=[math.nan]),
            "ucsearch.tasks.inventory.record:rules./tmp/evil.so",
            "\0:\0",
            named(nothing=1),
            "../evil:task",
            "/tmp/evil.py:task",
            "evil.py:task",
            coded(b"0" * 20_000),
            f"{ADDRESS}x",
            coded(b"\xff"),
        )
    ],
    (named(lead_time=12), FALSE),
    (named(order_sizes=list(range(1000))), FALSE),
]


def _blob(shape: tuple[int, ...], raw: bytes) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}" + " " * (21 - len(str(shape[0])))
    text += " " * (-(11 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + raw


def with_blobs(
    change: Callable[[Record, dict[str, bytes]], None] = lambda record, held: None, **blobs: bytes
) -> tuple[Record, dict[str, bytes]]:
    """The beam's record with other arrays, its trace's hash made to fit."""
    record, held = copy.deepcopy(decision("beam"))
    change(record, held)
    trace = record["inputs"]["trace"]
    for name, data in blobs.items():
        trace[name] = {"$blob": hashlib.sha256(data).hexdigest()}
        held[trace[name]["$blob"]] = data
    sha = hashlib.sha256(b"ucsearch.trace.v1\0")
    sha.update(json.dumps(trace["meta"], sort_keys=True, separators=(",", ":")).encode())
    for name in ("members", "weights", "mean", "q", "u"):
        data = held[trace[name]["$blob"]]
        text, _, raw = data[10:].partition(b"\n")
        shape = text.partition(b"(")[2].partition(b")")[0].replace(b",", b" ").split()
        sha.update(b"\0" + b",".join(shape) + b"\0" + raw)
    trace["hash"] = sha.hexdigest()
    return resealed(record), held


def _floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def recalibrated(
    errors: bytes, raw: bytes = b"", weights: bytes = b"", **values: Any
) -> tuple[Record, dict[str, bytes]]:
    """The beam's record with a correction of its members."""

    def change(record: Record, held: dict[str, bytes]) -> None:
        trace = record["inputs"]["trace"]
        own = {"members": raw or held[trace["members"]["$blob"]], "weights": weights or held[trace["weights"]["$blob"]]}
        part: Record = {"method": "paths", "season": 2, "cycles": BIG, "scale": False, "floor": "-inf"}
        for name, data in {**own, "errors": errors}.items():
            held[hashlib.sha256(data).hexdigest()] = data
            part[name] = {"$blob": hashlib.sha256(data).hexdigest()}
        record["recalibration"] = {**part, **values}
        trace["meta"]["notes"] = [f"recalibrated by phase, paths, season 2, {record['recalibration']['cycles']} cycles"]

    return with_blobs(change)


RECALIBRATED: list[tuple[str, Callable[[], tuple[Record, dict[str, bytes]]], set[str]]] = [
    ("eight paths", lambda: recalibrated(_blob((8, 3), _floats(*[0.0] * 24))), FALSE),
    ("two paths", lambda: recalibrated(_blob((2, 3), _floats(*[0.0] * 6))), FALSE),
    ("endless paths of no steps", lambda: recalibrated(_blob((2**50, 0), b""), _blob((1, 2, 0, 1), b"")), BAD | FALSE),
    ("other steps", lambda: recalibrated(_blob((8, 2), _floats(*[0.0] * 16))), BAD),
    ("sums of nothing", lambda: recalibrated(_blob((8, 3), _floats(*[0.0] * 24)), sums={}), BAD),
    ("largest errors", lambda: recalibrated(_blob((8, 3), _floats(*[1.7e308] * 24))), FALSE),
    (
        "three weights",
        lambda: recalibrated(_blob((8, 3), _floats(*[0.0] * 24)), weights=_blob((1, 3), _floats(1, 1, 1))),
        BAD,
    ),
    ("no season", lambda: recalibrated(_blob((8, 3), _floats(*[0.0] * 24)), season=0), FALSE),
]

ARRAYS: list[tuple[str, dict[str, bytes], set[str]]] = [
    ("empty", {"members": b""}, BAD),
    ("no header", {"members": b"\x93NUMPY"}, BAD),
    ("another magic", {"members": b"UCBLOB\1\2\0" + b"\0" * 56}, BAD),
    ("nine dimensions", {"members": _blob((1,) * 9, _floats(1.0))}, BAD),
    ("255 dimensions", {"members": _blob((1,) * 255, _floats(1.0))}, BAD),
    ("a huge shape", {"members": _blob((2**63, 2, 2, 2), b"")}, BAD),
    ("a shape that overflows to nothing", {"members": _blob((2**32, 2**32, 1, 1), b"")}, BAD),
    ("no members", {"members": _blob((1, 0, 3, 1), b"")}, BAD),
    ("endless empty members", {"members": _blob((1, 2**62, 0, 1), b"")}, BAD),
    ("no steps", {"members": _blob((1, 2, 0, 1), b""), "mean": _blob((1, 0, 1), b"")}, BAD | FALSE),
    ("two windows", {"members": _blob((2, 1, 3, 1), _floats(*range(6)))}, BAD),
    ("not a number", {"members": _blob((1, 2, 3, 1), _floats(*[math.nan] * 6))}, BAD | FALSE),
    ("infinite", {"members": _blob((1, 2, 3, 1), _floats(*[math.inf] * 6))}, FALSE),
    ("minus nothing", {"members": _blob((1, 2, 3, 1), _floats(*[-0.0] * 6))}, BAD),
    ("an unusual NaN", {"members": _blob((1, 2, 3, 1), b"\xff" * 48)}, BAD),
    ("largest", {"members": _blob((1, 2, 3, 1), _floats(*[1.7e308] * 6))}, FALSE),
    ("half a number", {"members": _blob((1, 2, 3, 1), b"\0" * 47)}, BAD),
    ("weights of nothing", {"weights": _blob((1, 2), _floats(0.0, 0.0))}, FALSE),
    ("negative weights", {"weights": _blob((1, 2), _floats(2.0, -1.0))}, FALSE),
    ("weights of three", {"weights": _blob((1, 3), _floats(0.3, 0.3, 0.4))}, BAD),
    ("another mean", {"mean": _blob((1, 3, 1), _floats(9.0, 9.0, 9.0))}, FALSE),
    ("scores in mean mode", {"q": _blob((1, 3, 4), _floats(*range(12)))}, BAD),
    (
        "200,000 steps",
        {
            "members": _blob((1, 2, 200_000, 1), b"\0" * 3_200_000),
            "mean": _blob((1, 200_000, 1), b"\0" * 1_600_000),
            "q": _blob((1, 200_000, 0), b""),
            "u": _blob((1, 200_000, 0), b""),
        },
        FALSE,
    ),
    (
        "100,000 members",
        {
            "members": _blob((1, 100_000, 3, 1), b"\0" * 2_400_000),
            "weights": _blob((1, 100_000), _floats(*[1e-5] * 100_000)),
        },
        OPEN,
    ),
]


def records() -> Iterator[Case]:
    for number, (kind, path, value, codes) in enumerate(EDITS):
        record, blobs = decision(kind)
        name = f"record {number:03} {kind} {path.encode('unicode_escape').decode()}"
        yield Case(name, text(*exported((edited(record, path, value), blobs))), frozenset(codes))
    for number, (address, codes) in enumerate(NAMES):
        record, blobs = decision("beam")
        case = exported((edited(record, "task.object", address), blobs))
        yield Case(f"task {number:02}", text(*case), frozenset(codes))
    for name, arrays, codes in ARRAYS:
        yield Case(f"array: {name}", text(*exported(with_blobs(**arrays))), frozenset(codes))
    for name, make, codes in RECALIBRATED:
        yield Case(f"recalibration: {name}", text(*exported(make())), frozenset(codes))
    yield from others()


def others() -> Iterator[Case]:
    """Overrides and refusals."""
    target, blobs = decision("beam")
    for number, (values, codes) in enumerate(
        [
            ({}, {VALID}),
            ({"overrides": "0" * 64}, FALSE),
            ({"overrides": "x"}, BAD),
            ({"overrides": None}, BAD),
            ({"digest": "0" * 64}, FALSE),
            ({"action": 1e308}, FALSE),
            ({"action": "nothing"}, BAD),
            ({"action": True}, BAD),
            ({"action": [0.0]}, FALSE),
            ({"action": []}, BAD),
            ({"at": "0001-01-01T00:00:00+23:59"}, {VALID} | FALSE),
            ({"at": "now"}, FALSE),
            ({"at": 5}, BAD),
            ({"who": "\u202e \x1b[2J"}, {VALID}),
            ({"who": " "}, FALSE),
            ({"who": None}, BAD),
            ({"feasible": False}, BAD),
            ({"off_grid": True}, FALSE),
            ({"label": "x"}, FALSE),
            ({"series": "other"}, FALSE),
            ({"more": 1}, BAD),
            ({"kind": "overrule"}, BAD),
            ({"schema": "ucsearch.override/9"}, BAD),
        ]
    ):
        yield Case(
            f"override {number:02}",
            text(*exported((target, blobs), (override(target, **values), {}))),
            frozenset(codes),
        )
    alone = override(target)
    yield Case("override without its decision", text(*exported((alone, {}))), frozenset(FALSE))
    yield Case("override of itself", text(*exported((override(alone), {}), (alone, {}))), frozenset(FALSE))
    yield Case("override before its decision", text(*exported((alone, {}), (target, blobs))), frozenset(FALSE))
    for number, line in enumerate([b"[]", b"1", b"null", b'"x"', b'{"record":1}', b'{"id":["a"]}', b"{}"]):
        body = text(*exported((target, blobs), (alone, {})))
        first, rest = body.splitlines(keepends=True)
        data = first + line.replace(b"a", target["id"].encode()) + b"\n" + rest
        yield Case(f"override with an odd line {number}", data, frozenset(BAD | FALSE))
    many = [(override(target, why=f"reason {i}"), {}) for i in range(200)]
    yield Case("two hundred overrides", text(*exported((target, blobs), *many)), frozenset({VALID}))
    for number, (values, codes) in enumerate(
        [
            ({}, {VALID}),
            ({"outcome": "RELEASED"}, BAD),
            ({"fallback_feasible": True}, {VALID} | FALSE),
            ({"action": 1.0}, BAD),
            ({"cause": "none"}, BAD),
            ({"regret_bound": 0.0}, BAD),
            ({"sentence": "\x1b[2J\u202e"}, {VALID}),
            ({"reason": None}, BAD),
        ]
    ):
        yield Case(f"refusal {number:02}", text(*exported((refusal(**values), {}))), frozenset(codes))


# -------------------------------------------------------------------- lines and bytes


def _recode(line: Record, change: Callable[[bytes], bytes]) -> Record:
    return {
        **line,
        "blobs": {name: b64encode(change(b64decode(data))).decode() for name, data in line["blobs"].items()},
    }


def lines() -> Iterator[Case]:
    first, second = exported(decision("beam"), decision("exact"))
    body = text(first, second)
    one = text(first)

    def case(name: str, data: bytes, *codes: int) -> Case:
        return Case(f"lines: {name}", data, frozenset(codes))

    yield case("genuine", body, VALID)
    yield case("empty", b"", MALFORMED)
    yield case("one line feed", b"\n", MALFORMED)
    yield case("blank line between", one + b"\n" + text(second), MALFORMED, INVALID)
    yield case("no line feed at the end", body.rstrip(b"\n"), VALID)
    yield case("carriage returns", body.replace(b"\n", b"\r\n"), VALID)
    yield case("nul bytes", b"\0" * 4096, MALFORMED)
    yield case("all bytes", bytes(range(256)) * 64, MALFORMED)
    yield case("byte order mark", b"\xef\xbb\xbf" + body, MALFORMED, INVALID)
    yield case("UTF-16", body.decode().encode("utf-16"), MALFORMED)
    yield case("cut", body[: len(body) // 3], MALFORMED)
    yield case("cut in the second line", body[:-20], MALFORMED)
    yield case("twice", body + body, INVALID)
    yield case("turned round", text(second, first), INVALID, WEAKER)
    yield case("only the second", text(second), VALID, WEAKER)
    yield case("indented", json.dumps(first).encode(), MALFORMED)
    yield case("a key twice", one.replace(b'"seq":1', b'"seq":1,"seq":1'), MALFORMED)
    yield case("NaN", one.replace(b'"seq":1', b'"seq":NaN'), MALFORMED)
    yield case("1e999", one.replace(b'"seq":1', b'"seq":1e999'), MALFORMED)
    yield case("a number of 100,000 digits", one.replace(b'"seq":1', b'"seq":' + b"1" * 100_000), MALFORMED)
    yield case("a lone surrogate", one.replace(b"A-1", rb"\ud800"), MALFORMED)
    yield case("a surrogate in bytes", one.replace(b"A-1", b"\xed\xa0\x80"), MALFORMED)
    yield case("overlong UTF-8", one.replace(b"A-1", b"\xc0\xaf"), MALFORMED)
    yield case("deep", b"[" * 200_000, MALFORMED)
    yield case("deep objects", b'{"a":' * 100_000, MALFORMED)
    yield case("deep and closed", b"[" * 50_000 + b"]" * 50_000, MALFORMED)
    yield case("deep in a record", text(*exported(({"id": "0", "x": [[[[1]]]]}, {}))), MALFORMED, INVALID)
    yield case("three million numbers", b"[" + b"1," * 3_000_000 + b"1]", MALFORMED)
    yield case("a million names", b"{" + b",".join(b'"%d":1' % i for i in range(300_000)) + b"}", MALFORMED)
    yield case("a long text", b'"' + b"x" * 5_000_000 + b'"', MALFORMED)
    yield case("5,000 bad lines", b"{\n" * 5_000, MALFORMED)
    for name, value in (
        ("seq 0", {"seq": 0}),
        ("seq -1", {"seq": -1}),
        ("seq 1.5", {"seq": 1.5}),
        ("seq true", {"seq": True}),
        ("seq text", {"seq": "1"}),
        ("seq null", {"seq": None}),
        ("head null", {"head": None}),
        ("head short", {"head": "0"}),
        ("head in capitals", {"head": "A" * 64}),
        ("time number", {"written_at": 5}),
        ("blobs list", {"blobs": []}),
        ("blobs null", {"blobs": None}),
        ("blobs numbers", {"blobs": {"a": 1}}),
        ("blobs no base64", {"blobs": {"a": "?"}}),
        ("another member", {"more": 1}),
        ("record null", {"record": None}),
        ("record text", {"record": "x"}),
        ("record list", {"record": []}),
        ("record empty", {"record": {}}),
    ):
        yield case(name, text({**first, **value}), MALFORMED, INVALID)
    for name, value in (
        ("seq 2", {"seq": 2}),
        ("seq 2^53", {"seq": 2**53}),
        ("another head", {"head": "0" * 64}),
        ("another digest", {"digest": "0" * 64}),
        ("digest null", {"digest": None}),
        ("digest list", {"digest": []}),
        ("time", {"written_at": "2026-01-01T00:00:00+00:00"}),
        ("time \u202e", {"written_at": "\u202e\x1b"}),
    ):
        yield case(name, text({**first, **value}), INVALID, WEAKER, MALFORMED)
    yield case("blobs altered", text(_recode(first, lambda data: data[:-1] + b"\1")), MALFORMED)
    yield case("blobs empty", text(_recode(first, lambda data: b"")), MALFORMED)
    yield case("no blobs", text({**first, "blobs": {}}), MALFORMED)
    yield case("a name of a megabyte", text({**first, "blobs": {"x" * 1_000_000: ""}}), MALFORMED)
    for name in sorted(first):
        lacking = {k: v for k, v in first.items() if k != name}
        yield case(f"without {name}", text(lacking), MALFORMED, INVALID)
    bare = written(decision("beam")[0])
    yield case("a bare record", bare, MALFORMED)
    yield case("a bare record between", one + bare + b"\n" + text(second), MALFORMED, INVALID)
    yield case("id of another", one.replace(decision("beam")[0]["id"].encode(), b"0" * 64), INVALID)
    for part in range(24):
        flipped = bytearray(one)
        flipped[part * len(one) // 24] ^= 0x04
        yield case(f"a bit at {part}/24", bytes(flipped), MALFORMED, INVALID, WEAKER)


# -------------------------------------------------------------------- checkpoints


def checkpoints() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder, AuditLog(Path(folder) / "a.db") as log:
        for kind in ("beam", "exact"):
            log.append(*decision(kind))
        log.export_jsonl(Path(folder) / "a.jsonl")
        log.checkpoint().write(Path(folder) / "c.json")
        body, good = (Path(folder) / "a.jsonl").read_bytes(), json.loads((Path(folder) / "c.json").read_bytes())

    def sealed(**values: Any) -> bytes:
        content = {k: v for k, v in {**good, **values}.items() if k != "digest"}
        domain = content["schema"].partition(".")[2] if isinstance(content["schema"], str) else "checkpoint/1"
        return written({**content, "digest": _hash(domain, written(content))})

    for number, (data, codes) in enumerate(
        [
            (sealed(), {VALID}),
            (b"", BAD),
            (b"{}", BAD),
            (b"[]", BAD),
            (b"\xff", BAD),
            (b"[" * 100_000, BAD),
            (sealed(count="2"), BAD),
            (sealed(count=None), BAD),
            (sealed(count=1.5), BAD | FALSE),
            (sealed(count=-1), BAD | FALSE),
            (sealed(count=True), BAD | FALSE),
            (sealed(count=[2]), BAD),
            (sealed(count=2**53), FALSE),
            (sealed(count=0), BAD | FALSE | OPEN),
            (sealed(head=None), BAD | FALSE),
            (sealed(head="0" * 64), FALSE),
            (sealed(head=5), BAD | FALSE),
            (sealed(head=[]), BAD | FALSE),
            (sealed(marks=None), BAD),
            (sealed(marks=5), BAD),
            (sealed(marks=[1]), BAD),
            (sealed(marks=[["1", "x"]]), BAD | FALSE),
            (sealed(marks=[[1, None]]), BAD | FALSE),
            (sealed(marks=[[None, "0" * 64]]), BAD | FALSE),
            (sealed(marks=[[[], "0"]]), BAD),
            (sealed(schema="ucsearch.checkpoint/9"), BAD),
            (sealed(schema=None), BAD),
            (written({**good, "digest": "0" * 64}), BAD),
            (written({**good, "digest": None}), BAD),
        ]
    ):
        yield Case(f"checkpoint {number:02}", body, frozenset(codes), checkpoint=data)
    yield from _notes(body, good["head"])


def _notes(body: bytes, head: str) -> Iterator[Case]:
    """Signed notes, none of them signed by whom they say."""
    public = b"\x01" + bytes(range(32))
    hashed = hashlib.sha256(b"somebody\n" + public).digest()[:4]
    key = f"somebody+{hashed.hex()}+{b64encode(public).decode()}"
    root, mark = b64encode(bytes(32)).decode(), b64encode(bytes.fromhex(head)).decode()
    sign = f"\N{EM DASH} somebody {b64encode(hashed + bytes(64)).decode()}\n"

    def note(size: str = "2", root: str = root, mark: str = mark, origin: str = "log", more: str = sign) -> bytes:
        return f"{origin}\n{size}\n{root}\nucsearch-head {mark}\n\n{more}".encode("utf-8", "surrogatepass")

    for number, (data, codes) in enumerate(
        [
            (note(), FALSE),
            (note(more=sign * 100), FALSE),
            (note(more=sign * 20_000), BAD),
            (note(more=""), BAD),
            (note(more="x\n"), BAD),
            (note(more="\N{EM DASH} somebody\n"), FALSE),
            (note(more=f"\N{EM DASH} somebody {'A' * 100_000}\n"), FALSE),
            (note(size="-1"), BAD),
            (note(size="9" * 5000), BAD),
            (note(size="02"), BAD),
            (note(size="\u0662"), BAD),
            (note(root="x"), BAD),
            (note(root=""), BAD),
            (note(mark="x"), BAD),
            (note(mark=""), BAD),
            (note(origin=""), BAD),
            (note(origin="\x1b[2J"), BAD),
            (note(origin="\ud800"), BAD),
            (note() * 2, BAD | FALSE),
            (note()[:-1], BAD),
            (b"\n\n\n\n", BAD),
            (b"a" * 1_000_000, BAD),
        ]
    ):
        yield Case(f"note {number:02}", body, frozenset(codes), data, ("--key", key))
    yield Case("note whose key is not given", body, frozenset({INVALID, WEAKER}), note())


# -------------------------------------------------------------------- logs


@cache
def genuine_log() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        with AuditLog(path) as log:
            for kind in ("beam", "exact", "mcts"):
                log.append(*decision(kind))
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
        return path.read_bytes()


def _changed(*statements: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        path.write_bytes(genuine_log())
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA synchronous = OFF")  # thousands of statements, and no power cut is meant
            made = db.execute("SELECT type, name FROM sqlite_master WHERE type <> 'table' AND sql IS NOT NULL")
            for kind, name in made.fetchall():  # they would refuse what is done below
                db.execute(f"DROP {kind} {name}")
            for statement in statements:
                db.execute(statement)
        return path.read_bytes()


OPENED, SQL = "PRAGMA writable_schema = ON", "UPDATE sqlite_master SET sql ="
ROOT = "UPDATE sqlite_master SET rootpage"
RECURSION = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n"
REST = "'' AS id, '' AS digest, '' AS head, NULL AS written_at"
STATEMENTS: list[tuple[str, tuple[str, ...], set[str]]] = [
    ("triggers and indexes dropped", (), {VALID}),
    (
        "a view that recurses",
        ("ALTER TABLE entries RENAME TO o", f"CREATE VIEW entries AS {RECURSION} AS seq, {REST}, '' AS body FROM r"),
        BAD,
    ),
    (
        "a view of 900 MB",
        ("ALTER TABLE entries RENAME TO o", f"CREATE VIEW entries AS SELECT 1 AS seq, {REST}, zeroblob(9e8) AS body"),
        BAD,
    ),
    (
        "a product",
        ("ALTER TABLE entries RENAME TO o", "CREATE VIEW entries AS SELECT a.* FROM o a, o b, o c, o d, o e, o f"),
        BAD,
    ),
    (
        "blobs as a view",
        ("ALTER TABLE blobs RENAME TO o", "CREATE VIEW blobs AS SELECT id, zeroblob(900000000) AS data FROM o"),
        BAD,
    ),
    ("a foreign view", ("CREATE VIEW v AS SELECT 1",), BAD),
    ("a foreign table", ("CREATE TABLE t (x)",), BAD),
    ("a foreign trigger", ("CREATE TRIGGER t AFTER INSERT ON blobs BEGIN SELECT 1; END",), BAD),
    ("a foreign index", ("CREATE INDEX i ON entries (hex(body))",), BAD),
    ("a virtual table", ("CREATE VIRTUAL TABLE t USING fts5(x)",), BAD),
    ("statistics", ("ANALYZE",), BAD | {VALID}),
    ("a generated column", ("ALTER TABLE entries ADD COLUMN x TEXT AS (hex(zeroblob(900000000))) VIRTUAL",), BAD),
    ("numbers that are no whole ones", (OPENED, f"{SQL} replace(sql, 'seq INTEGER', 'seq REAL')"), BAD),
    ("not strict", (OPENED, f"{SQL} replace(sql, ') STRICT', ')')"), BAD),
    ("a schema that is no SQL", (OPENED, f"{SQL} 'x' WHERE name = 'blobs'"), BAD),
    ("a schema of another type", (OPENED, f"{SQL} x'00ff' WHERE name = 'blobs'"), BAD),
    ("a root page beyond the end", (OPENED, f"{ROOT} = 99999 WHERE name = 'entries'"), BAD),
    (
        "two tables on one page",
        (OPENED, f"{ROOT} = (SELECT rootpage FROM sqlite_master WHERE name = 'blobs') WHERE name = 'entries'"),
        BAD,
    ),
    ("another application", ("PRAGMA application_id = 1",), BAD),
    ("another version", ("PRAGMA user_version = 77",), BAD),
    ("a negative version", ("PRAGMA user_version = -1",), BAD),
    ("no entries", ("DELETE FROM entries",), {VALID}),
    ("no first entry", ("DELETE FROM entries WHERE seq = 1",), FALSE),
    ("no second entry", ("DELETE FROM entries WHERE seq = 2",), FALSE),
    ("an entry minus one", ("UPDATE entries SET seq = -1 WHERE seq = 1",), BAD | FALSE),
    ("the largest number", ("UPDATE entries SET seq = 9223372036854775807 WHERE seq = 3",), FALSE),
    ("a body of nothing", ("UPDATE entries SET body = '[]' WHERE seq = 2",), FALSE),
    ("a body of an empty object", ("UPDATE entries SET body = '{}' WHERE seq = 2",), FALSE | BAD),
    (
        "a body of one million",
        ("UPDATE entries SET body = json_quote(hex(zeroblob(500000))) WHERE seq = 2",),
        FALSE | BAD,
    ),
    ("an altered body", ("UPDATE entries SET body = replace(body, 'A-1', 'A-2') WHERE seq = 2",), FALSE),
    ("another id", ("UPDATE entries SET id = 'x' WHERE seq = 2",), FALSE),
    ("an id to steer a terminal", ("UPDATE entries SET id = char(27) || '[2J' WHERE seq = 2",), FALSE),
    ("another digest", ("UPDATE entries SET digest = 'x' WHERE seq = 2",), FALSE),
    ("another head", ("UPDATE entries SET head = 'x' WHERE seq = 2",), FALSE | BAD),
    ("a head that is no UTF-8", ("UPDATE entries SET head = CAST(x'ff' AS TEXT) WHERE seq = 2",), FALSE | BAD),
    ("a time that is no UTF-8", ("UPDATE entries SET written_at = CAST(x'ff' AS TEXT) WHERE seq = 2",), FALSE),
    ("blobs gone", ("DELETE FROM blobs",), BAD),
    ("blobs empty", ("UPDATE blobs SET data = x''",), BAD),
    ("blobs huge", ("UPDATE blobs SET data = zeroblob(5000000)",), BAD),
    ("a table gone", ("DROP TABLE blobs",), BAD),
    ("both gone", ("DROP TABLE blobs", "DROP TABLE entries"), BAD),
]


def logs() -> Iterator[Case]:
    for name, statements, codes in STATEMENTS:
        yield Case(f"log: {name}", _changed(*statements), frozenset(codes))
    whole = genuine_log()
    damaged = frozenset({MALFORMED, INVALID, WEAKER})
    yield Case("log: genuine", whole, frozenset({VALID}))
    yield Case("log: only its header", whole[:100], damaged)
    yield Case("log: only its first bytes", whole[:16], damaged)
    yield Case("log: cut", whole[: len(whole) // 2], damaged)
    yield Case("log: its header and nothing", whole[:100] + b"\0" * 100_000, damaged)
    for place, width, name in ((16, 2, "page size"), (18, 2, "versions"), (28, 4, "pages"), (56, 4, "encoding")):
        for value in (0, 1, 2**15, 2 ** (8 * width) - 1):
            data = whole[:place] + value.to_bytes(width, "big") + whole[place + width :]
            yield Case(f"log: {name} {value}", data, damaged | {VALID})
    page = 8192
    for number in range(1, len(whole) // page):
        start = number * page
        turned = whole[:start] + whole[:page] + whole[start + page :]
        yield Case(f"log: page {number} is the first again", turned, damaged | {VALID})
        noisy = whole[:start] + hashlib.sha256(b"%d" % number).digest() * (page // 32) + whole[start + page :]
        yield Case(f"log: page {number} of noise", noisy, damaged | {VALID})


@cache
def corpus() -> tuple[Case, ...]:
    from tests.kit import stories  # it makes its entries from these

    return (*records(), *lines(), *checkpoints(), *logs(), *stories.cases())
