"""Plans whose settings call columns otherwise than we do: requests have our names all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import CONFIG, PLAN, item, running

FORECASTS: dict[str, dict[str, Any]] = {
    "members": {"members": [[4.0, 5.0, 6.0], [5.5, 6.5, 7.5]]},
    "mean": {"mean": [4.0, 5.0, 6.0], "std": [1.0, 1.0, 1.0]},
    "quantiles": {"quantiles": {"0.1": [3.0, 4.0, 5.0], "0.5": [4.0, 5.0, 6.0], "0.9": [6.0, 7.0, 8.0]}},
}
SAID = {"cutoff": "2026-03-02T05:00:00+00:00", "issued": "2026-03-02T05:00:00+00:00", "model": "m"}
OWN = ("id", "request", "gate", "valid_until")  # who asked, and when
NAMES = {
    "series": 'series = "sku"',
    "forecasts": 'members = "m"\nmean = "mu"\nstd = "sigma"\nquantiles = "p"\nstep = "h"\ndate = "day"',
    "said": 'cutoff = "seen"\nissued = "made"\nmodel = "by"\nvalue = "v"\nsample = "s"\ndemand = "sold"',
    "all": 'series = "sku"\nmembers = "m"\nmean = "mu"\nstd = "sigma"\nstep = "h"\ncutoff = "seen"\nmodel = "by"',
}


@pytest.mark.parametrize("names", NAMES)
def test_a_plan_with_names_of_its_own_decides_as_one_without(tmp_path: Path, names: str) -> None:
    async def decided(folder: Path, plan: str) -> list[Any]:
        async with running(folder, CONFIG, plan) as client:
            out = []
            for kind, forecast in FORECASTS.items():
                for series in (("A",), ("A", "B")):
                    items = [{**item(one), "forecast": {**forecast, **SAID}} for one in series]
                    answer = await client.post("/v1/plans/orders/decisions", {"items": items})
                    assert answer.status_code == 200, (kind, answer.text)
                    for one in answer.json()["items"]:
                        record = (await client.get(f"/v1/decisions/{one['id']}")).json()
                        out.append({k: v for k, v in record.items() if k not in OWN})
            return out

    plain = asyncio.run(decided(tmp_path / "plain", PLAN))
    assert asyncio.run(decided(tmp_path / "named", f"{PLAN}[columns]\n{NAMES[names]}\n")) == plain


def test_what_is_expected_is_told_whole_and_input_is_cut(tmp_path: Path) -> None:
    """Eighty characters are for what somebody sent; the words that help stand behind it."""

    async def work() -> list[str]:
        async with running(tmp_path) as client:
            out = []
            for state in ({"onhand": 3.0}, {"on_hand": 3.0, "open_orders": 4.0}, {"open_orders": [5.0]}):
                answer = await client.post("/v1/plans/orders/decisions", {"items": [{**item("A"), "state": state}]})
                assert answer.status_code == 422, answer.text
                out += answer.json()["where"]
            long = {"on_hand" + "d" * 190: 3.0}
            answer = await client.post("/v1/plans/orders/decisions", {"items": [{**item("A"), "state": long}]})
            out += answer.json()["where"]
            answer = await client.decide("A")
            id = answer.json()["items"][0]["id"]
            body = {"action": "order " + "x" * 150, "why": "a test", "expects": id}
            answer = await client.post(f"/v1/decisions/{id}/override", body, "operator")
            return [*out, answer.json()["detail"]]

    typo, scalar, absent, long, label = asyncio.run(work())
    assert typo.endswith("expected on_hand. If it means something else, say columns.ignore = ['onhand'].")
    assert "expected open_orders_1, open_orders_2, ..." in scalar
    assert absent.endswith("expected a column 'on_hand'")
    assert "d" * 81 not in long
    assert label.endswith("is no label of the recorded actions")
    assert "x" * 81 not in label


def test_the_first_request_of_the_document_is_answered(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "service.md").read_text(encoding="utf-8")
    shown = text.split("request.json <<END\n")[1].split("\nEND\n")[0]
    content = shown.replace("$(date -u +%F)", "2024-05-19").encode()

    async def work() -> Any:
        async with running(tmp_path) as client:
            schema = (await client.get("/v1/plans/orders/schema", "agent")).json()
            assert (schema["period"], schema["columns"]) == ("any", {})
            return (await client.post("/v1/plans/orders/decisions", content, key="orders-2024-05-20")).json()

    (answer,) = asyncio.run(work())["items"]
    assert (answer["series"], answer["outcome"]) == ("SKU-017", "RELEASED")
