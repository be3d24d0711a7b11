"""Mutations of genuine records, exports, checkpoints and logs: one file for every seed, the same each time."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
from typing import Any

from tests.kit.hostile import Case, _digest, decision, exported, genuine_log, override, refusal, resealed, text
from tests.kit.stories import STORIES, a_row, floats, renamed, rows_with

VERDICTS = frozenset({"valid", "invalid", "malformed", "weaker", "usage"})
KINDS = ("beam", "members", "route", "exact", "mcts", "cvar", "closed", "lattice")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**31, 2**40, 2**53, -(2**53), 0.5, -0.5, 1e-308, 1e-9, 1e9, 1e300,
    1e308, -1e308, "", "inf", "-inf", "nan", "0" * 64, "f" * 64, "x", "\0", "\u202e", "\x1b[2J", "\ud7ff", "é" * 1000,
    [], {}, [0], [[]], {"$blob": "0" * 64}, "2026-01-01T00:00:00+00:00", "0001-01-01T00:00:00+23:59", [None] * 100,
    [0.0] * 10_000,
)  # fmt: skip


def mutated(seed: int) -> Case:
    rng = random.Random(seed)
    make = rng.choice(
        (_records, _records, _records, _lines, _bytes, _log_pages, _log_bytes, _stories, _stories, _stories)
    )
    return Case(f"{make.__name__} {seed}", make(rng), VERDICTS)


# -------------------------------------------------------------------- records whose seals fit


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, item in items for p in ((*path, key), *_places(item, (*path, key)))]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _mutate(record: Any, rng: random.Random) -> None:
    """One change somewhere: another value, a neighbour of it, one from elsewhere, one more, one less."""
    places = _places(record)
    *parent, key = rng.choice(places)
    holder = _at(record, tuple(parent))
    old, way = holder[key], rng.randrange(6)
    if way == 0 and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = rng.choice((old + 1, old - 1, -old, old * 2, old * (1 + 1e-12), old / 3, float(old)))
    elif way == 1:
        holder[key] = copy.deepcopy(_at(record, rng.choice(places)))
    elif way == 2 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(rng.choice(holder)))
    elif way == 3:
        del holder[key]
    elif way == 4 and isinstance(old, list):
        rng.shuffle(old)
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))


def _genuine(rng: random.Random) -> list[tuple[Any, dict[str, bytes]]]:
    target, blobs = decision(rng.choice(KINDS))
    more = rng.choice(((), ((override(target), {}),), ((refusal(), {}),), (decision(rng.choice(KINDS)),)))
    return [(target, blobs), *more]


def _records(rng: random.Random) -> bytes:
    out = []
    for record, blobs in _genuine(rng):
        changed = copy.deepcopy(record)
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
            _mutate(changed, rng)
        try:
            out.append((resealed(changed), blobs))
        except Exception:  # what the log's own form cannot hold
            out.append((record, blobs))
    return text(*exported(*out))


def _stories(rng: random.Random) -> bytes:
    """Entries about other entries: what names a changed one by id and digest is made to name it again."""
    named: dict[str, str] = {}
    out: list[tuple[Any, dict[str, bytes]]] = []
    entries = STORIES[story := rng.choice(sorted(STORIES))]()
    if story == "rows" and rng.random() < 0.5:  # of a row that is in its segment, whatever it says
        row, own = copy.deepcopy(a_row())
        for part in rng.choices((row, own), k=rng.choice((1, 1, 2, 4))):
            _mutate(part, rng)
        if rng.random() < 0.5:
            values = rng.choices((0.0, -0.0, 1.0, 1e308, math.nan, math.inf, 5e-324), k=rng.choice((0, 1, 2, 5, 99)))
            row[rng.choice(("state", "params", "actions", "action"))] = floats(values)
        with contextlib.suppress(Exception):  # what a row cannot hold
            entries = rows_with(row, own)
    for record, blobs in entries:
        changed = renamed(record, named)
        for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
            _mutate(changed, rng)
        try:
            sealed = resealed(changed)
            named |= {record["id"]: sealed["id"], _digest(record): _digest(sealed)}
        except Exception:  # what the log's own form cannot hold
            sealed = record
        out.append((sealed, blobs))
    if rng.random() < 0.2:
        rng.shuffle(out)
    elif rng.random() < 0.2:
        out.insert(rng.randrange(len(out)), rng.choice(out))
    return text(*exported(*out))


# -------------------------------------------------------------------- lines and bytes


def _lines(rng: random.Random) -> bytes:
    lines = exported(*_genuine(rng), *_genuine(rng))
    for _ in range(rng.randrange(1, 4)):
        way = rng.randrange(5)
        if way == 0:
            rng.shuffle(lines)
        elif way == 1:
            lines.insert(rng.randrange(len(lines) + 1), copy.deepcopy(rng.choice(lines)))
        elif way == 2 and len(lines) > 1:
            del lines[rng.randrange(len(lines))]
        else:
            line = rng.choice(lines)
            line[rng.choice(sorted(line))] = copy.deepcopy(rng.choice(VALUES))
    out = [json.dumps(line, separators=(",", ":"), sort_keys=True, ensure_ascii=False) for line in lines]
    return "\n".join(out).encode("utf-8", "surrogatepass")


def _noise(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        at, way = rng.randrange(len(out)), rng.randrange(5)
        if way == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif way == 2:
            del out[at : at + rng.choice((1, 2, 16, 500))]
        elif way == 3:
            out[at:at] = rng.choice((b"\n", b"\0", b'"', b"[", b"{", b"9" * 400, b"e308", b"\xff\xfe", b"-"))
        else:
            start, size = rng.randrange(len(out)), rng.choice((1, 4, 64, 1000))
            out[at : at + size] = out[start : start + size]
        if not out:
            return b"\0"
    return bytes(out)


def _bytes(rng: random.Random) -> bytes:
    return _noise(text(*exported(*_genuine(rng))), rng)


# -------------------------------------------------------------------- logs


def _log_bytes(rng: random.Random) -> bytes:
    """Bytes changed in place: what is moved in a file of pages is only noise."""
    out = bytearray(genuine_log())
    for _ in range(rng.choice((1, 1, 2, 8, 64, 500))):
        # The header, the first bytes of a page with its cell pointers, or anywhere.
        page = rng.randrange(len(out) // 4096) * 4096
        at = rng.choice((rng.randrange(100), page + rng.randrange(64), rng.randrange(len(out))))
        out[at] = rng.choice((0, 1, 2, 5, 10, 13, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(out)


def _log_pages(rng: random.Random) -> bytes:
    data = genuine_log()
    size = 8192
    pages = [data[i : i + size] for i in range(0, len(data), size)]
    for _ in range(rng.randrange(1, 4)):
        pages[rng.randrange(1, len(pages))] = rng.choice(pages)
    return b"".join(pages)[: rng.choice((len(data), len(data), len(data) - size, len(data) - 100))]
