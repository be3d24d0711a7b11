"""Bodies that are wrong in some way: library, files and HTTP give the same answer, and none of them releases."""

from __future__ import annotations

import asyncio
import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import PLAN, item, running
from ucsearch.errors import UCSearchError
from ucsearch.planner import decide_cases
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.settings import parse_settings
from ucsearch.records.canonical import loads
from ucsearch.records.log import AuditReader

SETTINGS = parse_settings(PLAN.encode())
HUGE, DEEP = 10**400, 100_000


def wrapped(entry: Any) -> bytes:
    return json.dumps({"items": [entry]}).encode()


def syntax() -> list[bytes]:
    """Bytes that are no JSON, or JSON that is read in more than one way."""
    good = wrapped(item("A")).decode()
    out = [
        b"", b" ", b"{", b"[]", b"null", b"1", b'"items"', b"{}", b'{"items":[]}', b'{"items":{}}', b'{"items":null}',
        b'{"items":[null]}', b'{"items":[[]]}', b'{"items":["A"]}', b"\xff\xfe", b"\xef\xbb\xbf" + good.encode(),
        good.encode("utf-16"), good.encode("utf-32"), good.encode() + b"x", good.encode() + b"{}", b"'" + good.encode(),
        good.replace('"series"', "series").encode(), good.replace('"A"', "'A'").encode(),
        good.replace("[[", "[[,").encode(), good.replace("]]", ",]]").encode(), good.replace("4.0", "04.0").encode(),
        good.replace("4.0", "+4.0").encode(), good.replace("4.0", ".4").encode(), good.replace("4.0", "4.").encode(),
        good.replace("4.0", "4e").encode(), good.replace("4.0", "0x4").encode(), good.replace("4.0", "NaN").encode(),
        good.replace("4.0", "Infinity").encode(), good.replace("4.0", "-Infinity").encode(),
        good.replace("4.0", "1e999").encode(), good.replace("4.0", "-1e999").encode(),
        good.replace("4.0", "tru").encode(),
        good.replace('"series": "A"', '"series": "A", "series": "B"').encode(),
        good.replace('"on_hand": 3.0', '"on_hand": 3.0, "on_hand": 4.0').encode(),
        good.replace('"members"', '"members": [], "members"').encode(),
        good.replace('"items"', '"items": [], "items"').encode(), good.replace('"A"', '"\\ud800"').encode(),
        good.replace('"A"', '"\\udc00\\ud800"').encode(), good.replace('"A"', '"A\x01"').encode(),
        good.replace('"A"', '"\\u0000"').encode(), good.replace('"A"', '"A\\u0007"').encode(),
        good.replace('"A"', '"\xff"').encode("latin-1"),
        b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"items":' + b"[" * DEEP + b"]" * DEEP + b"}", b'{"items":[' + b"1," * 1000 + b"1]}", b"\x00" + good.encode(),
        good.replace(" ", "\u00a0").encode(), good.replace(": ", ":\x0b").encode(), b"{" + good.encode() + b"}",
        good.replace("{", "{/* */", 1).encode(), good.replace("}", "}//", 1).encode(), b"--" + good.encode(),
        json.dumps(good).encode(), good.encode()[:-1], good.encode()[: len(good) // 2], good.replace(",", ";").encode(),
    ]  # fmt: skip
    return out


def _with(path: str, value: Any) -> dict[str, Any]:
    """An item with one member replaced (or, for `...`, taken out)."""
    made = json.loads(json.dumps(item("A")))
    *way, last = path.split(".")
    place = made
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if value is ...:
        del place[last]
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return made


BAD_NUMBERS: list[Any] = [
    "4.0",
    "",
    "abc",
    True,
    False,
    [],
    {},
    [4.0],
    "1e3",
    "inf",
    "-inf",
    "nan",
    "0x10",
    "4,5",
    HUGE,
]
BAD_SERIES: list[Any] = [
    "", None, 7, True, [], {}, "A\n", " A", "A ", "\t", "A\x00B", "A\x7f", "x" * 201, "\u2028", "A\r\nSet-Cookie: x",
]  # fmt: skip
BAD_TIMES: list[Any] = [7, True, [], {}, "x" * 65, "2024\n"]


def shapes() -> list[dict[str, Any]]:
    """JSON of another shape than asked for, and values that cannot be decided on."""
    out = [_with(f"forecast.members.0.{k}", v) for k in (0, 2) for v in BAD_NUMBERS]
    out += [_with("state.on_hand", v) for v in (*BAD_NUMBERS, None, ...)]
    out += [_with("state.open_orders", v) for v in ("5", True, {}, [[5.0]], ["5"], [True], [HUGE])]
    out += [_with("series", v) for v in (*BAD_SERIES, ...)]
    out += [_with("forecast", v) for v in (None, ..., [], "members", 7, {}, {"members": None}, {"members": []})]
    out += [
        _with("forecast.members", v) for v in ([[]], [[], []], 7, "x", {}, [7.0], [[4.0]], [[4.0, 5.0], [4.0]], [None])
    ]
    out += [_with("forecast.members.1", v) for v in ([], [4.0], None, "x", [4.0] * 2, [4.0] * 9)]
    out += [_with(f"forecast.{name}", v) for name in ("issued", "cutoff") for v in BAD_TIMES]
    out += [_with("forecast.model", v) for v in (7, True, [], "x" * 201, "a\x00b")]
    out += [_with("forecast.extra", 7), _with("extra", 7), _with("state.shelf", 7.0), _with("state.on_hnad", 7.0)]
    out += [_with("state.lead_time", v) for v in (2.5, -1.0, 99.0, 1e9, "x", True, [1.0])]
    out += [_with("state.holding", v) for v in (-1.0, "x", 1e300 * 10, [])]
    out += [_with("state.on_hand", v) for v in (-5.0, 1e300, -1e300)]
    out += [_with("forecast.members.0.0", v) for v in (1e16, -1e16, 1e300, -1e300, None)]
    out += [_with("forecast.members.3.1", v) for v in (1e16, None)]
    for changed in (
        {"mean": [4.0, 5.0, 6.0]}, {"std": [1.0, 1.0, 1.0]}, {"mean": [4.0, 5.0, 6.0], "std": [1.0, 1.0]},
        {"mean": [4.0, 5.0, 6.0], "std": [1.0, -1.0, 1.0]}, {"mean": [], "std": []},
        {"mean": [4.0, None, 6.0], "std": [1.0, 1.0, 1.0]}, {"mean": 4.0, "std": 1.0},
        {"mean": [4.0, 5.0, 6.0], "std": [1.0, 1.0, 1.0], "members": [[4.0, 5.0, 6.0]]},
        {"quantiles": {"0.5": [4.0, 5.0, 6.0]}}, {"quantiles": {}}, {"quantiles": {"0.1": [4.0], "0.9": [5.0, 6.0]}},
        {"quantiles": {"0.1": [9.0, 9.0, 9.0], "0.9": [4.0, 4.0, 4.0]}},
        {"quantiles": {"1.5": [4.0] * 3, "0.5": [4.0] * 3}},
        {"quantiles": {"x": [4.0] * 3, "0.5": [4.0] * 3}}, {"quantiles": {"0.1": [4.0] * 3, "0.10": [4.0] * 3}},
        {"quantiles": [[4.0, 5.0]]},
    ):  # fmt: skip
        out.append({**item("A"), "forecast": changed})
    return out


BODIES = [*syntax(), *(wrapped(entry) for entry in shapes())]


def of_library(entry: Any) -> str:
    """What a program that has the item gets: a class of answer."""
    forecast = dict(entry.get("forecast")) if isinstance(entry.get("forecast"), dict) else entry.get("forecast")
    if isinstance(forecast, dict):
        levels = forecast.pop("quantiles", None)
        if isinstance(levels, dict):
            forecast.update({f"q{k}": v for k, v in levels.items()})
        elif levels is not None:
            forecast["quantiles"] = levels
    state = entry.get("state") if isinstance(entry.get("state"), dict) else {}
    row = {**state, **{k: v for k, v in entry.items() if k not in ("state", "forecast")}, "forecast": forecast}
    try:
        (found,) = decide_cases(SETTINGS, [row])
    except UCSearchError:
        return "refused"
    return "released" if found["outcome"] == "RELEASED" else "refused"


def of_files(folder: Path, entry: Any) -> str:
    """What the same content as two CSV files gets."""
    state, forecast = entry.get("state", {}), entry.get("forecast", {})
    columns: dict[str, Any] = {}
    try:
        notes = {k: forecast[k] for k in ("issued", "cutoff", "model") if k in forecast}
        texts = [entry["series"], *notes.values()]
        lists = [v for v in state.values() if isinstance(v, list)]
        if not all(isinstance(t, str) and t.isprintable() for t in texts) or not all(lists):
            raise TypeError("no content of a file")
        if set(entry) != {"series", "state", "forecast"} or "extra" in forecast:
            raise TypeError("no content of these two files")
        for name, value in forecast.items():
            if name == "members":
                columns.update({f"member_{j + 1}": list(path) for j, path in enumerate(value)})
            elif name == "quantiles":
                columns.update({f"q{k}": list(v) for k, v in value.items()})
            elif isinstance(value, list):
                columns[name] = value
        steps = max(len(v) for v in columns.values())
        rows = [
            {"series": entry["series"], "step": h + 1, **{k: v[h] if h < len(v) else None for k, v in columns.items()},
             **notes}
            for h in range(steps)
        ]  # fmt: skip
        spread: dict[str, Any] = {}
        for name, value in state.items():
            spread |= {f"{name}_{k + 1}": x for k, x in enumerate(value)} if isinstance(value, list) else {name: value}
        for name, table in (("forecasts", rows), ("states", [{"series": entry["series"], **spread}])):
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(table[0]))
                writer.writeheader()
                writer.writerows(table)
        run_decide(
            SETTINGS, folder / "forecasts.csv", folder / "states.csv", folder / "out.csv", folder / "log.db", fresh=True
        )  # fmt: skip
    except (UCSearchError, TypeError, ValueError, AttributeError, LookupError):
        return "refused"  # what cannot even be written as a file
    with (folder / "out.csv").open(newline="") as file:
        return "released" if next(csv.DictReader(file))["outcome"] == "RELEASED" else "refused"


def test_there_are_enough() -> None:
    assert len(BODIES) >= 200
    assert len(set(BODIES)) == len(BODIES)


def test_no_bad_body_is_released_anywhere(tmp_path: Path) -> None:
    found: dict[int, tuple[int, str]] = {}

    async def go() -> None:
        async with running(tmp_path / "service") as client:
            for n, raw in enumerate(BODIES):
                answer = await client.post("/v1/plans/orders/decisions", raw)
                assert answer.status_code in (200, 400, 413, 422), (raw[:200], answer.text)
                if answer.status_code == 200:
                    (one,) = answer.json()["items"]
                    found[n] = (200, "released" if one["outcome"] == "RELEASED" else "refused")
                else:
                    assert answer.headers["content-type"] == "application/problem+json"
                    found[n] = (answer.status_code, "refused")
                    assert len(answer.content) < 6_000
            # A good one goes through all the same.
            good = await client.post("/v1/plans/orders/decisions", wrapped(item("A")))
            assert good.json()["items"][0]["outcome"] == "RELEASED"

    asyncio.run(go())
    assert {n: BODIES[n][:200] for n, (_, kind) in found.items() if kind == "released"} == {}
    differ = {}
    for n, raw in enumerate(BODIES):
        try:
            entry = loads(raw)["items"][0]
            if not isinstance(entry, dict) or not _writable(entry):
                continue
        except (UCSearchError, KeyError, TypeError, IndexError, RecursionError):
            continue
        answers = (found[n][1], of_library(entry), of_files(tmp_path, entry))
        if set(answers) != {"refused"}:
            differ[raw[:300]] = answers
    assert differ == {}
    with AuditReader(tmp_path / "service/log/decisions.db") as log:
        assert log.verify().ok
        assert [r for r in log.list(limit=1_000, outcome="RELEASED") if r.record["series"] != "A"] == []


def _writable(entry: dict[str, Any]) -> bool:
    """Files know no difference between the number 4 and the text "4": such a body is the service's alone to refuse."""
    forecast, series = entry.get("forecast"), entry.get("series")
    if isinstance(series, str) and (len(series) > 200 or series != series.strip() or not series.isprintable()):
        return False  # cells of a file are trimmed, and how long a name may be is the service's limit
    if isinstance(forecast, dict) and any(len(str(forecast.get(k, ""))) > 64 for k in ("issued", "cutoff", "model")):
        return False
    texts = json.dumps([entry.get("state"), forecast.get("members") if isinstance(forecast, dict) else None])
    return not any(math.isfinite(_float(part)) for part in _texts(json.loads(texts)))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [t for v in (value.values() if isinstance(value, dict) else value) for t in _texts(v)]
    return [value] if isinstance(value, str) else []


def _float(text: str) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return math.nan


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 129, "\u00e4", "a\x7f"])
def test_a_key_that_is_none_is_400(tmp_path: Path, key: str) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            headers = {**client.headers("agent"), "Content-Type": "application/json"}
            raw = [(k.encode(), v.encode()) for k, v in headers.items()] + [(b"idempotency-key", key.encode("latin-1"))]
            answer = await client.http.post("/v1/plans/orders/decisions", content=wrapped(item("A")), headers=raw)
            assert (answer.status_code, answer.json()["code"]) == (400, "no_idempotency_key")

    asyncio.run(go())
