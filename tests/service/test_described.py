"""`/openapi.json` is what is answered: every answer of every route is held against it, member by member."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.service.kit import CONFIG, PLAN, START, Client, Clock, body, item, running
from tests.service.test_monitor import PLAN_DAY
from ucsearch.service.errors import CODES
from ucsearch.service.schemas import BODIES

LIMITED = CONFIG.replace("[[plan]]", "[limits]\nitems = 3\nmembers = 60\nsteps = 4\nseries_length = 20\n[[plan]]", 1)
SHARED = PLAN.replace("depth = 2", "depth = 2\nevery_action = true") + (
    '[shared]\ntruck = { column = "litres", limit = 40 }\n'
)
WATCHED = f'{LIMITED}\n[plan.monitor]\n[[plan]]\nname = "other"\nsettings = "orders.toml"\n'


def wrong(value: Any, schema: dict[str, Any], known: dict[str, Any], place: str = "") -> list[str]:
    """Places where a value is not what a schema says; members that it does not name are wrong too."""
    if "$ref" in schema:
        return wrong(value, known[schema["$ref"].rpartition("/")[2]], known, place)
    if "anyOf" in schema:
        tried = [wrong(value, kind, known, place) for kind in schema["anyOf"]]
        return min(tried, key=len)
    out = [f"{place}: not one of {schema['enum']}"] if "enum" in schema and value not in schema["enum"] else []
    if "const" in schema and value != schema["const"]:
        out.append(f"{place}: not {schema['const']!r}")
    kinds = {
        "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
        "number": (int, float),
    }  # fmt: skip
    if "type" in schema:
        expected = kinds[schema["type"]]
        if not isinstance(value, expected) or (isinstance(value, bool) and schema["type"] != "boolean"):
            return [*out, f"{place}: {value!r} is no {schema['type']}"]
    if isinstance(value, dict) and "properties" in schema:
        out += [f"{place}.{name}: missing" for name in schema.get("required", ()) if name not in value]
        for name, part in value.items():
            if name not in schema["properties"]:
                out.append(f"{place}.{name}: not described")
            else:
                out += wrong(part, schema["properties"][name], known, f"{place}.{name}")
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for name, part in value.items():
            out += wrong(part, schema["additionalProperties"], known, f"{place}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            out += wrong(part, schema["items"], known, f"{place}[{i}]")
    return out


class Held:
    """Answers, each held against the description of its route."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description, self.seen = description, set[tuple[str, str, int]]()
        self.routes = [
            (method.upper(), path, re.compile(re.sub(r"\\{\w+\\}", "[^?]+", re.escape(path))), operation)
            for path, operations in description["paths"].items()
            for method, operation in operations.items()
        ]

    def hold(self, made: httpx.Response) -> httpx.Response:
        path = made.request.url.path
        found = [r for r in self.routes if r[0] == made.request.method and r[2].fullmatch(path)]
        method, route, _, operation = max(found, key=lambda r: (r[1].count("/"), r[1].count("{") == 0))
        told = operation["responses"].get(str(made.status_code))
        assert told is not None, (method, route, made.status_code, made.text)
        for name, header in told.get("headers", {}).items():
            assert not header["required"] or name in made.headers, (route, name)
        media = made.headers.get("content-type", "").partition(";")[0]
        if made.status_code != 304:
            assert list(told["content"]) == [media], (route, told)
            schema = told["content"][media]["schema"]
            value = made.json() if media.endswith(("/json", "+json")) else made.text
            assert wrong(value, schema, self.description["components"]["schemas"]) == [], (method, route)
        self.seen.add((method, route, made.status_code))
        return made


def test_every_answer_is_as_the_description_says(tmp_path: Path) -> None:
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + SHARED, clock) as client:
            held = Held((await client.get("/v1/openapi.json")).json())
            await _everything(client, held, clock)
            missing = {
                (method, route, int(status))
                for method, route, _, operation in held.routes
                for status in operation["responses"]
                if int(status) < 400
            } - held.seen
            # A stream that has tripped takes many outcomes; `test_monitor.py` re-arms one.
            assert missing == {("POST", "/v1/monitors/{plan}/rearm", 201)}

    asyncio.run(go())


async def _everything(client: Client, held: Held, clock: Clock) -> None:
    async def get(path: str, role: str = "viewer") -> httpx.Response:
        return held.hold(await client.get(path, role=role))

    async def post(path: str, content: Any, role: str = "agent", **more: str) -> httpx.Response:
        return held.hold(await client.post(path, content, role=role, **more))

    decide = "/v1/plans/orders/decisions"
    made = (await post(decide, {"items": [item("A", members=60), item("B", level=400.0)]})).json()["items"]
    await post("/v1/plans/other/decisions", body("A"))
    await post(decide, {"items": [{**item("C"), "forecast": {"members": [[None, 1.0]] * 4}}]})  # a refusal
    id = made[0]["id"]
    about = {"decision": id, "value": 5.0, "observed_at": START.isoformat()}
    reports = {"items": [{**about, "taken": made[0]["action"]}, {**about, "value": 6.0}, {**about, "step": 2}]}
    asked: dict[str, Any] = {"action": 10.0, "why": "a test", "expects": id}
    over = await post(f"/v1/decisions/{id}/override", asked, "operator")
    await post(f"/v1/decisions/{id}/override", {**asked, "action": None, "expects": over.json()["id"]}, "operator")
    await post(f"/v1/decisions/{id}/override", {**asked, "action": -1.0}, "operator")
    assert (await post("/v1/outcomes", reports)).status_code == 201
    assert (await post("/v1/outcomes", reports)).status_code == 200
    until = (clock.now + timedelta(hours=1)).isoformat()
    await post("/v1/plans/orders/pause", {"why": "a test", "until": until}, "operator")
    await post(decide, body("A"))
    await post("/v1/plans/orders/pause", {"why": "a test"}, "operator")
    await post("/v1/plans/orders/resume", {"why": "a test"}, "operator")
    await post("/v1/monitors/orders/rearm", {"why": "a test"}, "admin")
    for path in (
        "/v1/decisions", "/v1/decisions?limit=1&plan=orders", "/v1/decisions?limit=0", "/v1/series/A",
        "/v1/series/A?plan=other", "/v1/series/B", "/v1/series/C", "/v1/series/nobody", "/v1/plans", "/v1/log",
        "/v1/log/checkpoint", "/v1/log/export", "/v1/log/export?from=0", "/v1/monitors", "/v1/monitors/orders",
        "/v1/monitors/other", "/v1/monitors/orders/A", "/v1/monitors/other/A", "/v1/monitors/orders/nobody",
        "/v1/plans/orders/schema",
        "/v1/plans/nothing/schema", f"/v1/decisions/{id}", f"/v1/decisions/{id}/explain", "/v1/decisions/nothing",
        "/v1/openapi.json",
    ):  # fmt: skip
        await get(path)
    await get("/v1/plans", role="")
    await post(f"/v1/decisions/{id}/verify", {}, "viewer")
    columns = {"litres": 1.0}
    fresh = (await post(decide, {"items": [item("S", members=60)]})).json()["items"][0]["id"]
    shared = await post("/v1/plans/orders/allocations", {"items": [{"decision": fresh, "columns": columns}]})
    await get(f"/v1/allocations/{shared.json()['id']}")
    await get("/v1/allocations/nothing")
    tag = (await client.get(f"/v1/decisions/{id}")).headers["etag"]
    for known in (tag, f"W/{tag}", f'"another", {tag}', "*"):
        headers = {**client.headers("viewer"), "If-None-Match": known}
        assert held.hold(await client.http.get(f"/v1/decisions/{id}", headers=headers)).status_code == 304
    for content, status in ((b"{", 400), ({"items": []}, 422), (body(*"ABCD"), 413), (body("x" * 21), 422)):
        assert (await post(decide, content)).status_code == status
    assert (await post(decide, body("A"), **{"Content-Type": "text/plain"})).status_code == 415
    twice = [(k, v) for k, v in client.headers("viewer").items() for _ in range(2)]
    assert held.hold(await client.http.get("/v1/plans", headers=twice)).status_code == 400
    client.service.started = False
    assert (await post(decide, body("A"))).status_code == 503
    client.service.started = True


ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = [
    "allocate", "allocation", "checkpoint", "decide", "explain", "export", "list_decisions", "list_plans", "log",
    "monitor", "monitors", "one_decision", "one_series", "openapi", "override", "pause", "plan_schema", "rearm",
    "report", "resume", "stream", "verify",
]  # fmt: skip


def test_the_description_names_the_limits_and_nothing_that_is_not_there(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, LIMITED) as client:
            description = (await client.get("/v1/openapi.json")).json()
            schemas = description["components"]["schemas"]
            own = (await client.get("/v1/plans/orders/schema")).json()["body"]
            for found in (schemas, {"DecideBody": own, **own["$defs"]}):
                assert found["DecideBody"]["properties"]["items"]["maxItems"] == 3
                assert found["DecideItem"]["properties"]["series"]["maxLength"] == 20
                members = found["ForecastBody"]["properties"]["members"]["anyOf"][0]
                assert (members["maxItems"], members["items"]["maxItems"]) == (60, 4)
            assert schemas["OutcomesBody"]["properties"]["items"]["maxItems"] == 3
            assert schemas["Problem"]["properties"]["code"]["enum"] == sorted(CODES)
            assert description["info"]["x-limits"]["items"] == 3
            for kind in BODIES:
                example = schemas[kind.__name__]["example"]
                assert kind.model_validate_json(json.dumps(example), strict=True)
                assert wrong(example, schemas[kind.__name__], schemas) == []
            text = json.dumps(description)
            used = set(re.findall(r"#/components/schemas/(\w+)", text))
            assert used == set(schemas)
            pages = set(re.findall(r"docs/[\w./-]+\.md", text))
            assert pages
            assert [page for page in pages if not (ROOT / page).is_file()] == []
            names = [o["operationId"] for operations in description["paths"].values() for o in operations.values()]
            assert sorted(names) == OPERATIONS  # names of functions in generated clients

    asyncio.run(go())
