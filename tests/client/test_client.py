"""The client against answers made up by hand: keys, retries, waits, batches, problems; both clients alike."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ucsearch.client import (
    Answer,
    AsyncClient,
    Client,
    Forecast,
    Item,
    Outcome,
    Retry,
    ServiceProblem,
    ServiceUnreachable,
    exchanges,
    items_of,
    outcomes_of,
)  # fmt: skip
from ucsearch.errors import InputError
from ucsearch.service.bodies import check_cost
from ucsearch.service.config import Limits
from ucsearch.service.errors import ApiProblem
from ucsearch.service.schemas import DecideBody, OutcomesBody, OverrideBody, PauseBody, RearmBody

httpx = pytest.importorskip("httpx")

TOKEN = "ucs_secret-token"
URL = "http://127.0.0.1:8411"
NOW = datetime(2024, 5, 20, 12, 0, tzinfo=UTC)
FORECAST = Forecast(members=[[1.0, 2.0], [3.0, math.nan]], cutoff="2024-05-19", model="m")


def answered(series: str, n: int = 0) -> dict[str, Any]:
    return {
        "id": f"{n:064x}", "seq": n + 1, "head": "h", "series": series, "outcome": "RELEASED", "action": 5.0,
        "label": "order 5", "reason": "none", "cause": "none", "sentence": "s", "margin": None, "regret_bound": "inf",
        "pass_kind": "exact", "valid_until": "2024-05-21T00:00:00+00:00", "monitor": {"state": "armed"},
    }  # fmt: skip


def problem(status: int, code: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "t",
        "title": "T",
        "status": status,
        "code": code,
        "detail": "d",
        "where": [],
        "request": "r",
        **more,
    }


class Service:
    """Answers from a list; remembers what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.seen: list[Any] = []
        self.waits: list[float] = []
        self.schema: dict[str, Any] = {"period": "day", "columns": {}}

    def __call__(self, request: Any) -> Any:
        if request.url.path.endswith("/schema"):  # what frames and files are asked about first
            return httpx.Response(200, json=self.schema)
        self.seen.append(request)
        given = self.answers.pop(0) if self.answers else 500
        if isinstance(given, Exception):
            raise given
        if callable(given):
            return given(request)
        status, content, *headers = given
        return httpx.Response(status, json=content, headers=headers[0] if headers else {})

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(r.content) for r in self.seen]

    @property
    def keys(self) -> list[str]:
        return [r.headers["Idempotency-Key"] for r in self.seen]


Call = Callable[[Any], Any]


def run_sync(service: Service, call: Call, **options: Any) -> Any:
    with Client(
        URL, TOKEN, transport=httpx.MockTransport(service), sleep=service.waits.append, now=lambda: NOW, **options
    ) as client:
        return call(client)


def run_async(service: Service, call: Call, **options: Any) -> Any:
    async def sleep(seconds: float) -> None:
        service.waits.append(seconds)

    async def work() -> Any:
        async with AsyncClient(
            URL, TOKEN, transport=httpx.MockTransport(service), sleep=sleep, now=lambda: NOW, **options
        ) as client:
            found = call(client)
            if hasattr(found, "__aiter__"):
                return [x async for x in found]
            return await found

    return asyncio.run(work())


BOTH = pytest.mark.parametrize("run", [run_sync, run_async])


def echo(request: Any) -> Any:
    items = json.loads(request.content)["items"]
    return httpx.Response(200, json={"items": [answered(item["series"], i) for i, item in enumerate(items)]})


@BOTH
def test_a_decision_is_asked_as_the_contract_says(run: Any) -> None:
    service = Service(echo)
    item = Item("A/b ü", {"on_hand": 3, "open_orders": [1.0, 2], "note": "x"}, FORECAST)
    (answer,) = run(service, lambda c: c.decide("orders", [item], key="k1"))
    (request,) = service.seen
    assert (request.method, request.url.path) == ("POST", "/v1/plans/orders/decisions")
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["Content-Type"] == "application/json"
    assert service.keys == ["k1"]
    assert service.bodies == [
        {"items": [{"series": "A/b ü", "state": {"on_hand": 3.0, "open_orders": [1.0, 2.0], "note": "x"},
                    "forecast": {"members": [[1.0, 2.0], [3.0, None]], "cutoff": "2024-05-19", "model": "m"}}]}
    ]  # fmt: skip
    assert (answer.series, answer.outcome, answer.action, answer.regret_bound) == ("A/b ü", "RELEASED", 5.0, math.inf)
    assert math.isnan(answer.order)


@BOTH
def test_the_same_key_and_bytes_until_it_is_answered(run: Any) -> None:
    service = Service(
        httpx.ConnectError("refused"), (503, problem(503, "queue_full"), {"Retry-After": "3"}),
        (429, problem(429, "too_many"), {"Retry-After": "Mon, 20 May 2024 12:00:07 GMT"}),
        (409, problem(409, "in_flight")), httpx.ReadTimeout("late"), echo,
    )  # fmt: skip
    run(service, lambda c: c.decide("p", [Item("A", {}, FORECAST)]))
    assert len(service.seen) == 6
    assert len({(r.headers["Idempotency-Key"], r.content) for r in service.seen}) == 1
    assert 3.0 < service.waits[1] <= 4.5  # what the service asked for, and not everybody at the same moment
    assert 7.0 < service.waits[2] <= 10.5
    assert 0.125 <= service.waits[0] <= 0.25
    assert all(0.0 < w <= 45.0 for w in service.waits)


@BOTH
def test_what_is_final_is_raised_at_once(run: Any) -> None:
    for status, code in (
        (400, "not_json"),
        (401, "unauthorized"),
        (409, "not_newest"),
        (422, "key_reused"),
        (500, "internal"),
    ):
        service = Service((status, problem(status, code, where=["items[0]: x"])))
        with pytest.raises(ServiceProblem, match=f"{status} T: d") as caught:
            run(service, lambda c: c.decide("p", [Item("A", {}, FORECAST)]))
        assert (caught.value.status, caught.value.code, caught.value.where) == (status, code, ("items[0]: x",))
        assert len(service.seen) == 1
        assert TOKEN not in str(caught.value)


@BOTH
def test_patience_ends(run: Any) -> None:
    service = Service(*[(503, problem(503, "not_ready"))] * 9)
    with pytest.raises(ServiceProblem, match="503"):
        run(service, lambda c: c.plans(), retry=Retry(tries=3))
    assert len(service.seen) == 3
    down = Service(*[httpx.ConnectError("refused")] * 9)
    with pytest.raises(ServiceUnreachable, match="refused; sent again with the same key") as caught:
        run(down, lambda c: c.resume("p", "why", key="mine"), retry=Retry(tries=2))
    assert caught.value.key == "mine"
    # A wait that is longer than patience is left to the caller.
    far = Service((503, problem(503, "audit_unavailable"), {"Retry-After": "3600"}))
    with pytest.raises(ServiceProblem):
        run(far, lambda c: c.plans())
    assert (len(far.seen), far.waits) == (1, [])


@BOTH
def test_many_items_are_several_requests_with_keys_of_their_own(run: Any) -> None:
    service = Service(echo, (503, problem(503, "queue_full"), {"Retry-After": "0"}), echo, echo)
    items = [Item(f"S{i}", {"on_hand": float(i)}, FORECAST) for i in range(1_001)]
    answers = run(service, lambda c: c.decide("p", items, key="job"))
    assert [a.series for a in answers] == [item.series for item in items]
    assert [len(b["items"]) for b in service.bodies] == [500, 500, 500, 1]
    assert service.keys == ["job", "job.1", "job.1", "job.2"]
    large = Forecast(members=[[0.123456789] * 500 for _ in range(130)])
    service = Service(echo, echo)
    run(service, lambda c: c.decide("p", [Item(f"S{i}", {}, large) for i in range(4)]))
    assert [len(b["items"]) for b in service.bodies] == [2, 2]


@pytest.mark.parametrize(("members", "steps", "names"), [(130, 500, 1), (50, 14, 1), (4_096, 1, 1), (1, 1, 100)])
def test_requests_are_as_large_as_the_service_takes(members: int, steps: int, names: int) -> None:
    """By bytes, by lists and values, or by names of states."""
    item = Item("S", {f"n{i}": 1.0 for i in range(names)}, Forecast(members=[[0.5] * steps for _ in range(members)]))
    sizes = [len(batch) for batch in exchanges.batches([item] * (1_000 if members * steps < 10_000 else 10))]
    assert max(sizes) < 500
    for size, taken in ((sizes[0], True), (sizes[0] + 1, False)):
        raw = json.dumps({"items": [item.content()] * size}, separators=(",", ":")).encode()
        try:
            check_cost(raw, DecideBody, Limits().items)
            fits = len(raw) <= Limits().body_bytes
        except ApiProblem:
            fits = False
        assert fits == taken


@BOTH
@pytest.mark.parametrize(
    ("last", "key"),
    [
        (Item("S0", {}, FORECAST), "twice"), (Item("bad", {"x": math.inf}, FORECAST), "bad"),
        (Item("fine", {}, FORECAST), "k" * 128),
    ],
)  # fmt: skip
def test_a_mistake_in_the_last_request_is_found_before_the_first_is_sent(run: Any, last: Item, key: str) -> None:
    service = Service(echo, echo)
    items = [*(Item(f"S{i}", {}, FORECAST) for i in range(500)), last]
    with pytest.raises(InputError):
        run(service, lambda c: c.decide("p", items, key=key))
    reports = [Outcome(f"{i:064x}", 1.0 if i < 500 else math.inf, NOW) for i in range(501)]
    with pytest.raises(InputError):
        run(service, lambda c: c.outcomes(reports, key="reports"))
    assert service.seen == []


@BOTH
def test_overrides_outcomes_pauses_and_rearming(run: Any) -> None:
    service = Service(*[(201, {"ok": 1})] * 5, (200, {"items": []}))
    id = "a" * 64
    run(service, lambda c: c.override(id, "order 5", "a truck broke down", force=True, key="k"))
    run(service, lambda c: c.override(id, None, "it runs again", expects="b" * 64))
    run(service, lambda c: c.pause("p", "stocktaking", until="2024-05-21T00:00:00Z"))
    run(service, lambda c: c.rearm("p", "new model", streams=["A"], accept=True))
    run(service, lambda c: c.rearm("p", "new model"))
    (receipt,) = run(service, lambda c: c.outcomes([Outcome(id, 7, NOW, taken=5)]))
    assert [r.url.raw_path.decode() for r in service.seen] == [
        f"/v1/decisions/{id}/override", f"/v1/decisions/{id}/override", "/v1/plans/p/pause", "/v1/monitors/p/rearm",
        "/v1/monitors/p/rearm", "/v1/outcomes",
    ]  # fmt: skip
    assert service.bodies == [
        {"action": "order 5", "why": "a truck broke down", "expects": id, "force": True},
        {"action": None, "why": "it runs again", "expects": "b" * 64},
        {"why": "stocktaking", "until": "2024-05-21T00:00:00Z"},
        {"why": "new model", "streams": ["A"], "accept": True},
        {"why": "new model"},
        {"items": [{"decision": id, "step": 1, "value": 7.0, "observed_at": NOW.isoformat(), "taken": 5.0}]},
    ]
    kinds = (OverrideBody, OverrideBody, PauseBody, RearmBody, RearmBody, OutcomesBody)
    for kind, body in zip(kinds, service.bodies, strict=True):  # the service takes them
        kind.model_validate_json(json.dumps(body), strict=True)
    assert not receipt.new  # 200: all of it was known
    assert len(set(service.keys)) == 6


def test_pages_are_followed_within_the_service_only() -> None:
    pages = [
        (200, {"items": [{"id": "1"}], "next": "/v1/decisions?plan=p&before=9"}),
        (200, {"items": [{"id": "2"}], "next": None}),
    ]
    for run in (run_sync, run_async):
        service = Service(*pages)
        assert [x["id"] for x in run(service, lambda c: _all(c.decisions(plan="p", series="", limit=1)))] == ["1", "2"]
        assert [r.url.query.decode() for r in service.seen] == ["plan=p&limit=1", "plan=p&before=9"]
    evil = Service((200, {"items": [], "next": "https://elsewhere.example/v1/decisions?x"}))
    with pytest.raises(ServiceUnreachable, match="elsewhere"):
        run_sync(evil, lambda c: list(c.decisions()))
    assert len(evil.seen) == 1


def _all(found: Any) -> Any:
    return found if hasattr(found, "__aiter__") else list(found)


def test_names_are_one_part_of_the_path() -> None:
    service = Service((200, {}), (200, {}))
    run_sync(service, lambda c: c.series("a/../b?x#y é"))
    assert service.seen[0].url.raw_path == b"/v1/series/a%2F..%2Fb%3Fx%23y%20%C3%A9"
    run_sync(service, lambda c: c.verify("f" * 64))
    assert service.seen[1].method == "POST"
    assert "Idempotency-Key" not in service.seen[1].headers


def test_answers_that_are_none_are_not_taken_for_some() -> None:
    for content in (b"<html>", b"[]", b'{"items": [{"id": 1}]}', b'{"nothing": 1}'):
        service = Service(lambda r, content=content: httpx.Response(200, content=content))
        with pytest.raises(ServiceUnreachable):
            run_sync(service, lambda c: c.decide("p", [Item("A", {}, FORECAST)]))
    # Of another series, twice, not there at all, or an action of which nothing is said: nobody may act on it.
    wrong = (["B"], ["A", "A"], [])
    for content in [
        *({"items": [answered(name) for name in names]} for names in wrong),
        {"items": [{**answered("A"), "action": None}]},
    ]:
        with pytest.raises(ServiceUnreachable, match="of another service"):
            run_sync(Service((200, content, {})), lambda c: c.decide("p", [Item("A", {}, FORECAST)]))
    # A redirect would carry the token elsewhere.
    away = Service((307, {}, {"Location": "https://elsewhere.example/"}))
    with pytest.raises(ServiceProblem):
        run_sync(away, lambda c: c.plans())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Client("http://example.com", TOKEN), "https"),
        (lambda: Client("127.0.0.1:8411", TOKEN), "an address"),
        (lambda: Client(URL, "two words"), "token"),
        (lambda: Client(URL, TOKEN).decide("p", [Item("A", {}, FORECAST)], key="ü"), "visible ASCII"),
        (lambda: Client(URL, TOKEN).decide("p", [Item("A", {}, Forecast())]), "one of members"),
        (lambda: Client(URL, TOKEN).decide("p", [Item("A", {}, Forecast(members=[[math.inf]]))]), "finite"),
        (lambda: Client(URL, TOKEN).decide("p", [Item("A", {"x": math.inf}, FORECAST)]), "finite"),
        (lambda: Client(URL, TOKEN).outcomes([Outcome("a", math.inf, NOW)]), "finite"),
        (lambda: Client(URL, TOKEN).outcomes([Outcome("a", math.nan, NOW)]), "left out"),
        (lambda: Client(URL, TOKEN).outcomes([Outcome("a", [1.0, math.nan], NOW)]), "left out"),
        (lambda: Client(URL, TOKEN).series(""), "a name"),
        (lambda: Retry(tries=0), "at least 1"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
    assert TOKEN not in repr(Client(URL, TOKEN))


@BOTH
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (dict(content=b"["), "no JSON"),
        (dict(content=b"[" * 200_000), "no JSON"),
        (dict(content=b""), "no JSON"),
        (dict(content=b"{}"), "of another service"),
        (dict(json={"items": [{**answered("A"), "action": 1e308}, answered("B")]}), "other series"),
        (dict(content=json.dumps({"items": [{**answered("A"), "action": math.inf}]})), "RELEASED with"),
        (dict(json={"items": [{**answered("A"), "outcome": "MAYBE"}]}), "MAYBE with"),
        (dict(json={"items": [{**answered("A"), "outcome": "HOLD"}]}), "HOLD with"),
    ],
)
def test_rubbish_is_told_with_the_key_to_ask_again(run: Any, answer: Any, words: str) -> None:
    with pytest.raises(ServiceUnreachable, match=words) as caught:
        run(
            Service(lambda request: httpx.Response(200, **answer)),
            lambda client: client.decide("p", [Item("A", {}, FORECAST)], key="k"),
        )
    assert caught.value.key == "k"
    assert str(caught.value).startswith(f"{URL}: ")


@BOTH
def test_problems_of_others_are_problems(run: Any) -> None:
    def asked(answer: Any) -> ServiceProblem:
        with pytest.raises(ServiceProblem) as caught:
            run(Service(lambda request: answer), lambda client: client.plans(), retry=Retry(tries=1))
        return caught.value

    odd = asked(httpx.Response(422, json={"title": 1, "where": 5, "detail": None, "allowed": "x"}))
    assert (odd.status, odd.where, odd.allowed) == (422, (), ())
    assert "not followed" in str(asked(httpx.Response(302, headers={"Location": "https://elsewhere.example"})))
    assert "not the service's own answer" in str(asked(httpx.Response(502, html="<p>bad gateway")))
    assert asked(httpx.Response(500, content=b"[" * 200_000)).status == 500


@BOTH
def test_an_answer_that_cannot_be_unpacked_is_asked_for_again(run: Any) -> None:
    def packed(request: Any) -> Any:
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=b"no gzip")

    service = Service(packed, echo)
    assert run(service, lambda client: client.decide("p", [Item("A", {}, FORECAST)], key="k"))
    assert service.keys == ["k", "k"]
    with pytest.raises(ServiceUnreachable):
        run(Service(packed), lambda client: client.plans(), retry=Retry(tries=1))


def test_hints_by_what_went_wrong() -> None:
    for text, words in (
        ("[Errno 111] Connection refused", "does the service run"), ("WRONG_VERSION_NUMBER", "http, not https"),
        ("CERTIFICATE_VERIFY_FAILED", "SSL_CERT_FILE"),
    ):  # fmt: skip
        with pytest.raises(ServiceUnreachable, match=words):
            run_sync(Service(httpx.ConnectError(text)), lambda client: client.plans(), retry=Retry(tries=1))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_token_for_this_machine_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It would get there in the clear; https is tunnelled and may go through one."""
    monkeypatch.setenv(name, "http://proxy.example:3128")
    for make in (Client, AsyncClient):
        assert not make("http://127.0.0.1:8411", TOKEN)._http._mounts
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    assert Client("https://decisions.example.com", TOKEN)._http._mounts
    with pytest.raises(InputError, match="the token is given apart") as caught:
        Client("http://me:secret@127.0.0.1:8411", TOKEN)
    assert "secret" not in str(caught.value)


# -------------------------------------------------------------------- frames


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_nixtla_become_items(library: str) -> None:
    lib = pytest.importorskip(library)
    day = [datetime(2024, 5, 21), datetime(2024, 5, 20), datetime(2024, 5, 20), datetime(2024, 5, 21)]
    forecasts = lib.DataFrame({
        "unique_id": ["B", "B", "A", "A"], "ds": day, "cutoff": [datetime(2024, 5, 19)] * 4,
        "Ridge": [2.0, 1.0, 3.0, 4.0], "Ridge-lo-80": [1.0, 0.5, 2.0, 3.0], "Ridge-hi-80": [3.0, 1.5, 4.0, 5.0],
    })  # fmt: skip
    states = lib.DataFrame(
        {"unique_id": ["A", "B", "C"], "on_hand": [1.0, 2.0, 3.0], "open_orders_1": [5.0, None, 0.0]}
    )
    b, a = items_of(forecasts, states)
    assert (b.series, a.series) == ("B", "A")
    assert b.state == {"on_hand": 2.0}
    assert a.state == {"on_hand": 1.0, "open_orders_1": 5.0}
    assert b.forecast.quantiles == {"0.1": [0.5, 1.0], "0.5": [1.0, 2.0], "0.9": [1.5, 3.0]}  # in the order of dates
    assert b.forecast.content()["cutoff"] == "2024-05-19"
    assert items_of(forecasts, states, issued="2024-05-19T18:00:00Z")[0].forecast.issued == "2024-05-19T18:00:00Z"


def test_members_samples_and_mean_become_items() -> None:
    pl = pytest.importorskip("polars")
    states = pl.DataFrame({"series": ["A"], "on_hand": [1.0]})
    members = pl.DataFrame({"series": ["A", "A"], "step": [1, 2], "member_1": [1.0, 2.0], "member_2": [3.0, 4.0]})
    assert items_of(members, states)[0].forecast.members == [[1.0, 2.0], [3.0, 4.0]]
    samples = pl.DataFrame(
        {"series": ["A"] * 4, "step": [1, 1, 2, 2], "sample_id": [0, 1, 0, 1], "value": [1.0, 3.0, 2.0, 4.0]}
    )
    assert items_of(samples, states)[0].forecast.members == [[1.0, 2.0], [3.0, 4.0]]
    mean = pl.DataFrame({"series": ["A"], "step": [1], "mean": [1.0], "std": [0.5]}).lazy()
    assert items_of(mean, states)[0].forecast.mean == [1.0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"step": [1, 1]}, "every step"),
        ({"series": ["A", "Z"], "step": [1, 2]}, "no row of 'Z'"),
        ({"cutoff": ["2024-05-19", "2024-05-18"]}, "one of each series"),
    ],
)
def test_frames_that_mean_two_things_are_refused(change: dict[str, Any], words: str) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"series": ["A", "A"], "step": [1, 2], "mean": [1.0, 2.0], "std": [1.0, 1.0], **change})
    with pytest.raises(InputError, match=words):
        items_of(frame, pl.DataFrame({"series": ["A"], "on_hand": [1.0]}))
    with pytest.raises(InputError, match="a data frame"):
        items_of([1], frame)


DAYS = ["2024-05-20", "2024-05-21", "2024-05-22"]


@pytest.mark.parametrize(
    ("change", "period", "words"),
    [
        ({"step": [1, 2, 4]}, None, "saw step 4, expected step 3"),
        ({"step": [0, 1, 2]}, None, "saw step 0, expected step 1"),
        ({"step": [1.0, 2.0, 2.5]}, None, "saw step 2.5, expected step 3"),
        ({"date": [*DAYS[:2], "2024-05-23"]}, "day", "saw 2024-05-23 after 2024-05-21, expected one day between"),
        ({"date": [*DAYS[:2], "2024-05-23"]}, None, "saw 2024-05-23 after 2024-05-21, expected evenly spaced dates"),
        ({"date": ["2024-05-20", "2024-05-27", "2024-06-03"]}, "day", "expected one day between them"),
        ({"date": DAYS}, "week", "expected one week between them"),
        ({"date": [*DAYS[:2], "2024-05-21"]}, "any", "saw 2024-05-21 twice"),
        ({"date": [*DAYS[:2], "soon"]}, "day", "saw 'soon', expected a date"),
        ({"date": [*DAYS[:2], None]}, "day", "saw nothing, expected every step"),
        ({"step": [1, 2, 1], "sample": [1, 1, 2], "value": [1.0] * 3}, None, "samples of different steps"),
        ({"date": [*DAYS[:2], DAYS[1]], "sample": [1, 1, 2], "value": [1.0] * 3}, "day", "samples of different steps"),
        ({"date": [*DAYS[:2], DAYS[1]], "series": ["A", "A", "B"]}, "day", "saw 2024-05-20 as its first, expected"),
    ],
)
def test_steps_that_do_not_follow_each_other_are_refused(
    change: dict[str, Any], period: str | None, words: str
) -> None:
    pl = pytest.importorskip("polars")
    values = {} if "sample" in change else {"mean": [1.0, 2.0, 3.0], "std": [1.0] * 3}
    frame = pl.DataFrame({"series": ["A"] * 3, **values, **change})
    states = pl.DataFrame({"series": ["A", "B"], "on_hand": [1.0, 1.0]})
    with pytest.raises(InputError, match=words) as caught:
        items_of(frame, states, period=period)
    assert "Series 'A'" in str(caught.value)


def test_steps_that_follow_each_other_by_their_period_are_taken() -> None:
    pd = pytest.importorskip("pandas")
    states = pd.DataFrame({"series": ["A"], "on_hand": [1.0]})
    berlin = pd.date_range("2024-03-30T23:00", periods=5, freq="h", tz="Europe/Berlin")  # clocks are changed
    for period, times in (
        ("hour", berlin), (None, berlin), ("day", pd.date_range("2024-03-30", periods=3, tz="Europe/Berlin")),
        ("day", pd.Series(pd.date_range("2024-05-20", periods=3)).dt.date), ("month", ["2024-01-31", "2024-02-29"]),
        ("weekday", ["2024-05-17", "2024-05-20", "2024-05-21"]), (None, ["2024-05-17", "2024-05-20", "2024-05-21"]),
        (None, pd.date_range("2024-05-20", periods=3, freq="4h")), ("any", ["2024-05-17", "2024-05-20", "2024-07-21"]),
        ("month", pd.period_range("2024-01", periods=3, freq="M")), ("day", [7, 8, 9]), (None, DAYS[:1]),
    ):  # fmt: skip
        count = len(times)
        frame = pd.DataFrame({"series": ["A"] * count, "date": times, "mean": range(count), "std": [1.0] * count})
        (item,) = items_of(frame.iloc[::-1], states, period=period)
        assert item.forecast.mean == list(range(count)), (period, times)


def test_a_state_of_another_day_is_refused() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"series": ["A"] * 3, "date": DAYS, "mean": [1.0] * 3, "std": [1.0] * 3})
    for stock, right in (("2024-05-20", True), ("2024-05-19", True), ("2024-05-18", False), ("2024-05-21", False)):
        for given in (stock, pd.Timestamp(stock)):
            states = pd.DataFrame({"series": ["A"], "date": [given], "on_hand": [1.0]})
            if right:
                assert items_of(frame, states, period="day")[0].content()["state"]["date"] == stock
                continue
            with pytest.raises(InputError, match="2024-05-20, where its forecast begins, or one day before"):
                items_of(frame, states, period="day")


@BOTH
def test_a_frame_is_judged_by_what_the_plan_says(run: Any) -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"sku": ["A"] * 2, "date": ["2024-05-20", "2024-05-27"], "mean": [1.0] * 2, "std": [1.0] * 2})
    states = pl.DataFrame({"sku": ["A"], "stock": [1.0]})
    for period, right in (("week", True), ("day", False)):
        service = Service(echo)
        names = {"series": "sku", "ignore": ["x"], "rename": {"stock": "on_hand"}}
        service.schema = {"period": period, "columns": names}
        if right:
            (answer,) = run(service, lambda client: client.decide_frame("p", frame, states))
            assert answer.series == "A"
            assert service.bodies[0]["items"][0]["state"] == {"stock": 1.0}  # renamed by the service, as in files
        else:
            with pytest.raises(InputError, match="one day between them"):
                run(service, lambda client: client.decide_frame("p", frame, states))
            assert not service.seen, "nothing was sent"
    service = Service(echo)
    service.schema = {}  # a service of before
    ours = [x.rename({"sku": "series"}) for x in (frame, states)]
    assert run(service, lambda client: client.decide_frame("p", *ours))
    service.schema = {"period": 5}
    with pytest.raises(ServiceUnreachable, match="of another service"):
        run(service, lambda client: client.decide_frame("p", frame, states))


def test_odd_frames_of_pandas_are_told_in_words_or_read() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"unique_id": ["A", "A"], "ds": [1, 2], "mean": [1.0, 2.0], "std": [1.0, 1.0]})
    states = pd.DataFrame({"unique_id": ["A"], "on_hand": [1.0]})
    for odd, words in (
        (pd.concat([frame, frame[["mean"]]], axis=1), "each once"),
        (frame.rename(columns={"std": 5}), "a column named 5"),
        (frame.iloc[:0], "no rows"),
        (frame.set_index("unique_id"), "reset_index"),
    ):
        with pytest.raises(InputError, match=words):
            items_of(odd, states)
    with pytest.raises(InputError, match="reset_index"):
        items_of(frame, states.set_index("unique_id"))
    missing = frame.assign(mean=pd.array([1, None], "Int64"))
    (item,) = items_of(missing, states)
    assert item.content()["forecast"]["mean"] == [1.0, None]
    with pytest.raises(InputError, match="Forecast"):
        Item("A", {}, {"mean": [1.0], "std": [1.0]}).content()  # type: ignore[arg-type]


def test_what_libraries_have_for_nothing_is_nothing() -> None:
    pd = pytest.importorskip("pandas")
    np = pytest.importorskip("numpy")
    forecasts = pd.DataFrame({
        "unique_id": ["A"], "ds": [pd.Timestamp("2024-05-20")], "cutoff": [pd.NaT], "mean": [1.0], "std": [0.5],
    })  # fmt: skip
    states = pd.DataFrame({"unique_id": ["A"], "on_hand": pd.array([3], "Int64"), "lead": pd.array([None], "Int64")})
    states["open_orders"] = [np.array([1.0, 2.0])]
    (item,) = items_of(forecasts, states)
    assert item.forecast.cutoff is None
    assert item.content()["state"] == {"on_hand": 3.0, "open_orders": [1.0, 2.0]}
    with pytest.raises(InputError, match="'A' twice"):
        items_of(forecasts, pd.concat([states, states]))
    array = Item("A", {"x": np.array([1.0])}, Forecast(members=np.ones((2, 3)), mean=None))
    assert array.content()["forecast"]["members"] == [[1.0] * 3] * 2
    assert array.content()["state"] == {"x": [1.0]}
    for wrong in ("12", True, object(), [1.0]):
        with pytest.raises(InputError, match="a number"):
            Outcome("a", 1.0, NOW, taken=wrong).content()  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a number"):
        outcomes_of([], pd.DataFrame({"series": ["B"], "value": ["many"]}), observed_at=NOW)
    sales = pd.DataFrame({"series": ["B", "C"], "value": pd.array([None, 4], "Int64")})
    (told,) = outcomes_of([Answer.read(answered("B")), Answer.read(answered("C"))], sales, observed_at=NOW)
    assert told.value == 4.0


def test_outcomes_of_a_frame_find_their_decisions() -> None:
    pl = pytest.importorskip("polars")
    service = Service(echo, (201, {}))

    def work(client: Client) -> None:
        answers = client.decide("p", [Item("A", {}, FORECAST), Item("B", {}, FORECAST)])
        client.outcomes_frame(answers, pl.DataFrame({"unique_id": ["B", "C"], "y": [4.0, 5.0]}), observed_at=NOW)

    run_sync(service, work)
    assert service.bodies[1]["items"] == [
        {"decision": f"{1:064x}", "step": 1, "value": 4.0, "observed_at": NOW.isoformat()}
    ]
    with pytest.raises(InputError, match="twice"):
        outcomes_of([], pl.DataFrame({"series": ["B", "B"], "value": [4.0, 5.0]}), observed_at=NOW)


# -------------------------------------------------------------------- ucsearch remote


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    from typer.testing import CliRunner

    import ucsearch.cli.remote as module
    from ucsearch.cli import app

    def run(service: Service, *arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(module, "_transport", httpx.MockTransport(service))
        done = CliRunner().invoke(app, ["remote", *map(str, arguments)], env={"UCSEARCH_TOKEN": TOKEN})
        assert done.exit_code == code, done.output
        assert TOKEN not in done.output
        return done.output

    return run


def files(forecasts: Path, states: Path, decisions: Path | None = None) -> list[str]:
    """Options that name the files of a request."""
    out = decisions or states.with_name("out.csv")
    named = {"forecasts": forecasts, "states": states, "decisions": out}
    return [word for key, path in named.items() for word in ("--set", f"files.{key}={path}")]


def test_remote_decide(remote: Any, tmp_path: Path) -> None:
    f, s, o = tmp_path / "f.csv", tmp_path / "s.csv", tmp_path / "o.csv"
    f.write_text("series,date,q0.1,q0.9\nA,21.05.2024,2,4\nA,20.05.2024,1,3\n")
    s.write_text("series,on_hand,note\nA,7,x\n")
    service = Service(echo)
    text = remote(service, "decide", "orders", *files(f, s, o), "--key", "today")
    assert "1 series: 1 RELEASED" in text
    assert service.keys == ["today"]
    item = service.bodies[0]["items"][0]
    assert item["forecast"]["quantiles"] == {"0.1": [1.0, 2.0], "0.9": [3.0, 4.0]}
    assert item["state"] == {"on_hand": 7.0, "note": "x"}
    assert o.read_text().splitlines()[1].startswith("A,RELEASED,5,order 5,,none,inf,2024-05-21")

    def hold(request: Any) -> Any:
        return httpx.Response(200, json={"items": [{**answered("A"), "outcome": "HOLD", "action": None}]})

    assert "HOLD A: s" in remote(Service(hold), "decide", "orders", *files(f, s), code=1)
    assert "401" in remote(Service((401, problem(401, "unauthorized"))), "decide", "x", *files(f, s), code=2)


def test_remote_decide_sends_nothing_of_files_that_do_not_fit(remote: Any, tmp_path: Path) -> None:
    f, s = tmp_path / "f.csv", tmp_path / "s.csv"
    f.write_text("series,date,mean,std\nA,2024-05-20,1,1\nA,2024-05-22,1,1\n")
    s.write_text("series,on_hand\nA,7\n")
    service = Service(echo)
    assert "one day between them" in remote(service, "decide", "p", *files(f, s), code=2)
    f.write_text("series,step,mean,std\nA,1,1,1\n")
    for out, words in ((tmp_path / "none" / "o.csv", "no folder"), (tmp_path, "a folder")):
        assert words in remote(service, "decide", "p", *files(f, s, out), code=2)
    f.write_text("series,step,mean,std\nA,1,much,1\n")
    assert "Series 'A'" in remote(service, "decide", "p", *files(f, s), code=2)
    f.write_text("series,step,mean,std\n")
    assert f"{f}: saw no rows" in remote(service, "decide", "p", *files(f, s), code=2)
    assert not service.seen


def test_remote_decide_tells_what_needs_a_person(remote: Any, tmp_path: Path) -> None:
    f, s, o = tmp_path / "f.csv", tmp_path / "s.csv", tmp_path / "o.csv"
    f.write_text("series,step,mean,std\nA,1,1,1\nB,1,1,1\n")
    s.write_text("series,on_hand\nA,7\nB,7\nC,7\n")
    text = remote(Service(echo), "decide", "p", *files(f, s, o), code=1)
    assert "2 series: 2 RELEASED" in text
    assert "NOT DECIDED C: it has a state and no forecast" in text
    assert o.exists()
    s.write_text("series,on_hand\nA,7\nB,7\n")

    def refused(request: Any) -> Any:
        bad = {**answered("B", 1), "outcome": "FALLBACK", "reason": "invalid_trace", "sentence": "It was refused."}
        return httpx.Response(200, json={"items": [answered("A"), bad]})

    text = remote(Service(refused), "decide", "p", *files(f, s), code=1)
    assert "1 invalid_trace" in text
    assert "FALLBACK B: It was refused." in text
    wrong = problem(422, "invalid", where=["items[1].state.on_hand: a number is expected"])
    assert "items[1] 'B'.state.on_hand" in remote(Service((422, wrong)), "decide", "p", *files(f, s), code=2)


def test_remote_decide_that_is_cut_off_says_how_it_goes_on(remote: Any, tmp_path: Path) -> None:
    f, s, o = tmp_path / "f.csv", tmp_path / "s.csv", tmp_path / "o.csv"
    names = [f"A{i}" for i in range(1_001)]
    f.write_text("series,step,mean,std\n" + "".join(f"{name},1,1,1\n" for name in names))
    s.write_text("series,on_hand\n" + "".join(f"{name},7\n" for name in names))
    asked = ("decide", "p", *files(f, s, o), "--key", "today")
    service = Service(echo, (422, problem(422, "key_reused")))
    text = remote(service, *asked, code=2)
    assert "500 of 1001 series were answered; continue with the same command and --key today" in text
    assert service.keys == ["today", "today.1"]
    assert not o.exists(), "a file of half of them would look whole"

    def stop(request: Any) -> Any:
        raise KeyboardInterrupt

    text = remote(Service(echo, stop), *asked[:-2], code=130)
    assert "500 of 1001 series were answered; continue with the same command and --key " in text
    assert not o.exists()
    text = remote(Service(echo, echo, echo), *asked)
    assert "deciding: 500 of 1001" in text
    assert len(o.read_text().splitlines()) == 1_002


def test_remote_outcomes_of_cells_that_are_none(remote: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    service = Service()
    for cells, words in (
        ("much,1,5", "row 1, column value: saw 'much', expected a number"), (",1,5", "column value: saw nothing"),
        ("5,first,5", "column step: saw 'first', expected a number"), ("5,1.5,", "column step: saw 1.5"),
        ("5,0,", "column step: saw 0"), ("5,1,all", "column taken: saw 'all'"),
    ):  # fmt: skip
        path.write_text(f"decision,value,step,taken\n{'b' * 64},{cells}\n")
        assert words in remote(service, "outcomes", path, "--observed-at", "2024-05-21T00:00:00Z", code=2)
    path.write_text("decision,value\n")
    assert "nothing to report" in remote(service, "outcomes", path)
    assert not service.seen


def test_actions_and_texts_that_json_cannot_hold_are_refused_in_words(remote: Any) -> None:
    view = {"newest": {"id": "a" * 64}, "effective": 5.0}
    for text in ("nan", "inf", "-1e999"):  # no numbers that can be sent: a label, which the service knows or not
        service = Service((200, view), (422, problem(422, "not_allowed")))
        remote(service, "override", "SKU", text, "--why", "a test", code=2)
        assert json.loads(service.seen[1].content)["action"] == text
    for action in (math.nan, math.inf, True, [1.0]):
        with pytest.raises(InputError, match="action"):
            run_sync(Service(), lambda client, action=action: client.override("a" * 64, action, "a test"))
    half = "\udcff"
    assert "UTF-8" in remote(Service((200, view)), "override", "SKU", "5", "--why", f"a {half}", code=2)
    assert "UTF-8" in remote(Service(), "override", half, "5", "--why", "a test", code=2)
    with pytest.raises(InputError, match="UTF-8"):
        run_sync(Service(), lambda client: client.decide("p", [Item(half, {}, FORECAST)]))
    with pytest.raises(InputError, match="a list of numbers"):
        Forecast(members=[1.0, 2.0]).content()  # type: ignore[list-item]


def test_remote_override_and_outcomes(remote: Any, tmp_path: Path) -> None:
    view = {"newest": {"id": "a" * 64}, "effective": -5.0, "effective_label": "discharge 5"}
    service = Service((200, view), (201, {}), (200, view))
    text = remote(service, "override", "SKU 1", "-5", "--why", "a storm comes")
    assert "discharge 5 is now in force" in text
    assert json.loads(service.seen[1].content) == {"action": -5.0, "why": "a storm comes", "expects": "a" * 64}
    assert "an action, or --withdraw" in remote(Service(), "override", "SKU", "--why", "none", code=2)
    path = tmp_path / "out.csv"
    path.write_text(f"decision,step,value,taken\n{'b' * 64},2,7.5,\n")
    service = Service((201, {}))
    assert "1 outcomes reported" in remote(service, "outcomes", path, "--observed-at", "2024-05-21T00:00:00Z")
    assert service.bodies[0]["items"] == [
        {"decision": "b" * 64, "step": 2, "value": 7.5, "observed_at": "2024-05-21T00:00:00Z"}
    ]
    assert "observed_at" in remote(Service(), "outcomes", path, code=2)


@pytest.mark.parametrize(
    "url", ["http://u:geheim@example.com", "ftp://u:geheim@x", "http://u:geheim@127.0.0.1/?q", "https://geheim@h"]
)
def test_a_password_in_an_address_is_never_shown(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Client(url, "ucs_x")
    assert "geheim" not in str(caught.value)
    assert "before the host" in str(caught.value)
