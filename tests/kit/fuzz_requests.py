"""Requests to a service, most of them wrong somewhere: what is asked of whom by whom is drawn from its description."""

from __future__ import annotations

import json
import random
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any
from urllib.parse import quote

from tests.kit import fuzz_heads as heads
from tests.kit.fuzz_answers import Answer
from tests.kit.fuzz_json import Parts, broken_bytes, changed, parts_of

__all__ = ["FORECAST_MARK", "PLANS", "Drawer", "Known", "Sent"]

FORECAST_MARK = 8.4375197  # in every forecast: it must not come back in a problem, nor be in the text log
ID = "5ca1ab1e" * 8  # stands for the id of a decision until a request is sent
EXPECTS = "0ddba11e" * 8
PLANS = ("orders", "watched", "beam", "store", "turns", "truck")
SERIES = 24
# How often: what is refused costs a tenth of a millisecond, pages and long lists a hundred times that.
WEIGHTS = {
    "POST /v1/plans/{plan}/decisions": 330, "POST /v1/outcomes": 110, "POST /v1/decisions/{id}/override": 90,
    "POST /v1/plans/{plan}/pause": 25, "POST /v1/plans/{plan}/resume": 45, "POST /v1/monitors/{plan}/rearm": 40,
    "POST /v1/plans/{plan}/allocations": 40, "GET /v1/allocations/{id}": 3,
    "POST /v1/decisions/{id}/verify": 3, "GET /v1/decisions": 6, "GET /v1/decisions/{id}": 15,
    "GET /v1/decisions/{id}/explain": 3, "GET /v1/series/{series}": 5, "GET /v1/monitors": 0.2,
    "GET /v1/monitors/{plan}": 3, "GET /v1/monitors/{plan}/{series}": 10, "GET /v1/plans": 2,
    "GET /v1/plans/{plan}/schema": 4, "GET /v1/log": 2, "GET /v1/log/checkpoint": 3, "GET /v1/log/export": 2,
    "GET /v1/openapi.json": 0.1,
}  # fmt: skip
PAGES = (
    "/", "/console", "/console/", "/console/login", "/console/decisions", "/console/decisions.csv",
    "/console/decisions/{id}", "/console/decisions/{id}/override", "/console/series", "/console/monitor",
    "/console/log",
    "/console/plans", "/console/tokens", "/console/allocations", "/console/allocations/{id}", "/console/style.css",
    "/console/x",
)  # fmt: skip
LARGE = (
    b'{"items":[' + b"1," * 2_000_000 + b"1]}", b'{"items":[' + b"{}," * 1_000_000 + b"{}]}", b"[" * 4_000_000,
    b'{"items":[{"series":"A","forecast":{"members":[[' + b'"",' * 1_000_000 + b"1]]}}]}", b" " * ((8 << 20) + 1),
    b'{"items":[{"series":"A","state":{' + b'"a":true,' * 400_000 + b'"b":1},"forecast":{}}]}', b"{" * 3_000_000,
)  # fmt: skip
RIGHT = {"decisions": "agent", "outcomes": "agent", "rearm": "admin", "allocations": "agent"}
SLOW_PAGES = ("/console", "/console/decisions", "/console/series", "/console/monitor")
ROLES = ("viewer", "operator", "admin", "agent", "")


@dataclass(slots=True)
class Sent:
    """A request, and what is known about it before it is answered."""

    number: int
    raw: bytes
    method: bytes
    target: bytes
    role: str | None  # "" nobody; None: its token was tampered with
    what: str = ""  # what to learn from the answer
    is_odd: bool = False  # it may be refused before its route is found
    ends: bool = False  # the connection ends with it
    about: str = ""  # a plan, or a decision's id
    repeats: Sent | None = None  # the same request once more
    reuses: bool = False  # the key of one that was recorded, another body
    answer: Answer | None = None

    @property
    def headless(self) -> bool:
        """Whether the answer has no body."""
        return self.method == b"HEAD"


@dataclass
class Known:
    """What a client knows of a service."""

    tokens: dict[str, str]
    sessions: dict[str, tuple[str, str]] = field(default_factory=dict)  # cookie and what forms must prove
    decisions: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=400))  # id, series
    expects: dict[str, str] = field(default_factory=dict)  # by decision, where it was overridden
    allocations: deque[str] = field(default_factory=lambda: deque(maxlen=50))
    written: deque[Sent] = field(default_factory=lambda: deque(maxlen=400))  # recorded, with their answers
    last_seq: int = 1

    def learn(self, sent: Sent, answer: Answer) -> None:
        if sent.what == "decide" and answer.status == 200:
            for item in json.loads(answer.body)["items"]:
                self.decisions.append((item["id"], item["series"]))
                self.last_seq = max(self.last_seq, item["seq"])
        elif sent.what == "override" and answer.status == 201:
            if len(self.expects) > 5_000:
                self.expects.clear()
            self.expects[sent.about] = json.loads(answer.body)["id"]
        elif sent.what == "allocations" and answer.status == 201:
            self.allocations.append(json.loads(answer.body)["id"])
        if sent.what and answer.status == (200 if sent.what == "decide" else 201) and sent.repeats is None:
            sent.answer = answer
            self.written.append(sent)


def _forecast(rng: random.Random, form: int, members: int) -> dict[str, Any]:
    def path() -> list[float]:
        return [round(rng.uniform(2.0, 14.0), 2) for _ in range(4)]

    mean = path()
    if form == 1:
        return {"mean": mean, "std": [FORECAST_MARK - 7.0] * 4}
    if form == 2:
        return {"quantiles": {q: [x + d for x in mean] for q, d in (("0.1", -2.0), ("0.5", 0.0), ("0.9", 2.5))}}
    return {"members": [[FORECAST_MARK, *path()[1:]], *(path() for _ in range(members - 1))]}


def _templates(rng: random.Random) -> dict[str, list[Parts]]:
    """Bodies that would be done, by what they are for."""
    out: dict[str, list[Parts]] = {}
    now = datetime.now(UTC)
    for plan in PLANS:
        made = out[plan] = []
        for n in range(2 * SERIES):
            items = []
            for k in range(rng.choice((1, 1, 1, 1, 1, 2, 4))):
                form = rng.choice((0, 0, 1, 2)) if plan != "watched" else rng.choice((0, 0, 0, 1))
                forecast = _forecast(rng, form, 52 if plan == "watched" and form == 0 else rng.choice((1, 4, 6)))
                if rng.random() < 0.4:
                    cutoff = (now - timedelta(minutes=rng.randrange(300))).isoformat()
                    forecast |= {"cutoff": cutoff, "issued": cutoff, "model": rng.choice(("m1", "m2"))}
                state: dict[str, Any] = {
                    "on_hand": float(rng.randrange(20)), "open_orders": [5.0] * (2 if plan == "beam" else 1)
                }  # fmt: skip
                if plan == "store":
                    state = {"level": rng.choice((0.0, 0.5, 1.0))}
                elif plan == "turns":
                    state = {"direction": float(rng.choice((-1, 0, 1))), "charge": rng.choice(("change", "hold"))}
                items.append({"series": f"{plan}-{(n + 7 * k) % SERIES}", "state": state, "forecast": forecast})
            made.append(parts_of({"items": items}))
    soon = (now + timedelta(seconds=90)).isoformat()
    out["outcomes"] = [
        parts_of({"items": [
            {"decision": ID, "step": rng.choice((1, 1, 1, 2, 3)), "value": round(rng.uniform(0.0, 40.0), 1),
             "observed_at": (now - timedelta(minutes=n)).isoformat(), **({"taken": 5.0} if n % 3 == 0 else {})}
            for _ in range(rng.choice((1, 1, 1, 2)))
        ]}) for n in range(40)
    ]  # fmt: skip
    actions: tuple[Any, ...] = (0.0, 5.0, 10.0, 3.7, -5.0, 1e9, None, "hold", "long", "0", "5", "order 5")
    out["override"] = [parts_of({"action": a, "why": "a person says so", "expects": EXPECTS}) for a in actions]
    out["allocations"] = [
        parts_of({"items": [{"decision": ID, "columns": {"litres": rng.choice((1.0, 2.5)), "truck": "north"}}] * count})
        for count in (1, 1, 2)
    ] + [parts_of({"items": [{"decision": ID}], "limits": {"truck": 40.0}})]
    out["pause"] = [parts_of({"why": "stocktaking"}), *[parts_of({"why": "a while", "until": soon})] * 5]
    out["resume"] = [parts_of({"why": "it goes on"})]
    out["rearm"] = [
        parts_of({"why": "seen and accepted", "accept": True, **({"streams": [f"watched-{i}"]} if i else {})})
        for i in range(SERIES)
    ] + [parts_of({"why": "another model", "streams": ["watched-1"]})]  # fmt: skip
    return out


class Drawer:
    """One request after the other; with the same seed the same ones, but for ids that the service gives."""

    def __init__(
        self, seed: int, known: Known, routes: Sequence[tuple[str, str]], corpus: Sequence[bytes], style: str
    ) -> None:
        self.seed, self.known, self.corpus = seed, known, corpus
        self.bodies = _templates(random.Random(seed))
        self.pages = (*PAGES, style)
        self._own = secrets.token_hex(3)  # of this run: keys of another one with the same seed are other keys
        named = [f"{method} {path}" for method, path in routes]
        self._choices = [*named, "page", "form", "repeat", "reuse"]
        weights = [WEIGHTS.get(name, 5) for name in named]
        self._weights = list(accumulate([*weights, 6, 20, 20, 10]))

    def draw(self, number: int) -> Sent:
        rng = random.Random(self.seed << 40 | number)
        what = rng.choices(self._choices, cum_weights=self._weights)[0]
        if what in ("repeat", "reuse") and self.known.written:
            return self._again(number, rng, reuses=what == "reuse")
        if what == "page":
            return self._page(number, rng)
        if what == "form":
            return self._form(number, rng)
        if what in ("repeat", "reuse"):
            what = "GET /v1/log/checkpoint"
        method, _, path = what.partition(" ")
        return self._api(number, rng, method, path)

    def _again(self, number: int, rng: random.Random, *, reuses: bool) -> Sent:
        """A request that was recorded once more, or its key with another body."""
        old = rng.choice(self.known.written)
        raw = old.raw
        if reuses:
            head, _, body = raw.partition(b"\r\n\r\n")
            length = b"Content-Length: %d" % len(body)
            head = head.replace(length, b"Content-Length: %d" % (len(body) + 1))
            raw = b"%b\r\n\r\n%b " % (head, body)
        return Sent(
            number, raw, old.method, old.target, old.role, old.what, is_odd=old.is_odd, about=old.about, repeats=old,
            reuses=reuses,
        )  # fmt: skip

    def _decision(self, rng: random.Random) -> str:
        if not self.known.decisions or rng.random() < 0.1:
            return rng.choice(("0" * 64, "f" * 63, "x", "1", "-1", ID.upper(), "%00", "9" * 20, "latest"))
        return rng.choice(self.known.decisions)[0]

    def _place(self, path: str, rng: random.Random) -> tuple[str, str]:
        """An address of a route, and what it is about."""
        about = ""
        if "allocations/{id}" in path and self.known.allocations and rng.random() < 0.7:
            about = rng.choice(self.known.allocations)
        elif "{id}" in path:
            about = self._decision(rng)
        elif "{plan}" in path:
            about = rng.choice(PLANS) if rng.random() < 0.95 else rng.choice(("other", "Orders", "%20", "a" * 300))
            if path.endswith("pause"):
                about = "orders" if rng.random() < 0.9 else about
            elif path.endswith("rearm"):
                about = "watched" if rng.random() < 0.9 else about
            elif path.endswith("allocations"):
                about = "truck" if rng.random() < 0.9 else about
        series = ""
        if "{series}" in path:
            known = self.known.decisions
            series = quote(rng.choice(known)[1], safe="") if known and rng.random() < 0.7 else "watched-3"
        return path.replace("{id}", about).replace("{plan}", about).replace("{series}", series), about

    def _query(self, path: str, rng: random.Random) -> bytes:
        if path == "/v1/log/export":  # near the end: all of it is long
            first = max(1, self.known.last_seq - rng.randrange(5))
            query = b"from=%d" % first if rng.random() < 0.8 else b"from=%d&to=%d" % (first, first + 2)
            return query if rng.random() < 0.8 else query + b"&" + heads.odd_query(b"", rng)
        query = b""
        if path == "/v1/decisions":
            query = rng.choice((b"limit=5", b"plan=orders&limit=3", b"series=orders-1.1&limit=2", b"before=9&limit=9",
                                b"limit=2&kind=refusal", b"outcome=RELEASED&limit=2"))  # fmt: skip
        elif "series" in path and rng.random() < 0.5:
            query = b"plan=orders"
        return heads.odd_query(query, rng) if rng.random() < 0.4 else query

    def _api(self, number: int, rng: random.Random, method: str, path: str) -> Sent:
        last = path.rpartition("/")[2]
        place, about = self._place(path, rng)
        target = place.encode()
        if method == "GET" and (query := self._query(path, rng)):
            target += b"?" + query
        right = RIGHT.get(last, "operator") if method == "POST" and last != "verify" else rng.choice(ROLES[:4])
        role = right if rng.random() < 0.8 else rng.choice(ROLES)
        headers = [(b"Host", b"127.0.0.1")]
        if role:
            headers.append((b"Authorization", b"Bearer " + self.known.tokens[role].encode()))
        body, what = b"", ""
        if method == "POST" and last != "verify":
            what = "decide" if last == "decisions" else last
            headers += [
                (b"Content-Type", b"application/json"), (b"Idempotency-Key", f"{self._own}-{number}".encode())
            ]  # fmt: skip
            body = self._body(what, about, rng)
        elif rng.random() < 0.02:
            body = b"{}"
        return self._finished(number, rng, method.encode(), target, headers, body, role, what, about)

    def _body(self, what: str, about: str, rng: random.Random) -> bytes:
        if what in ("decide", "outcomes") and rng.random() < 0.1:
            return rng.choice(LARGE) if rng.random() < 0.001 else rng.choice(self.corpus)
        own = self.bodies[about if what == "decide" and about in PLANS else "orders" if what == "decide" else what]
        body, way = rng.choice(own), rng.random()
        if way < (0.03 if what == "decide" else 0.08):
            raw = body.text.encode()
        elif way < 0.85:
            raw = changed(body, rng)
        else:
            raw = broken_bytes(body.text.encode() if rng.random() < 0.6 else changed(body, rng), rng)
        if what == "decide" and about != "watched":  # more series than bodies, so that none is long
            raw = raw.replace(b'"%b-' % about.encode(), b'"%b-%d.' % (about.encode(), rng.randrange(40)))
        elif what == "outcomes":
            raw = raw.replace(ID.encode(), self._decision(rng).encode())
        elif what == "allocations":
            own = [id for id, series in self.known.decisions if series.startswith("truck-")][-20:]
            while (at := raw.find(ID.encode())) >= 0:
                id = rng.choice(own) if own and rng.random() < 0.95 else self._decision(rng)
                raw = raw[:at] + id.encode() + raw[at + len(ID) :]
        elif what == "override":
            expected = self.known.expects.get(about, about) if rng.random() < 0.9 else self._decision(rng)
            raw = raw.replace(EXPECTS.encode(), expected.encode())
        return raw

    def _page(self, number: int, rng: random.Random) -> Sent:
        page = rng.choice(self.pages)
        if page in SLOW_PAGES and rng.random() < 0.9:
            page = "/console/plans"
        place, about = self._place(page, rng)
        query = b""
        if place == "/console/decisions.csv":  # all of it is long
            query = b"series=orders-1.1"
        elif place == "/console/series":
            query = b"name=" + quote(rng.choice(self.known.decisions)[1] if self.known.decisions else "x").encode()
        if rng.random() < 0.3 and place != "/console/decisions.csv":
            query = heads.odd_query(query, rng)
        target = place.encode() + (b"?" + query if query else b"")
        headers = [(b"Host", b"127.0.0.1"), *self._cookie(rng.choice(("", "viewer", "operator", "admin")))]
        return self._finished(number, rng, b"GET", target, headers, b"", None, "", about)

    def _cookie(self, role: str) -> list[heads.Header]:
        return [(b"Cookie", b"ucs_session=" + self.known.sessions[role][0].encode())] if role else []

    def _form(self, number: int, rng: random.Random) -> Sent:
        """A form of the console. Nobody is logged out, and no token of ours revoked."""
        path = rng.choice((
            "login", "logout", "decisions/{id}/override", "decisions/{id}/override", "decisions/{id}/verify",
            "log/verify", "plans/{plan}/pause", "plans/{plan}/resume", "plans/{plan}/resume", "monitor/{plan}/rearm",
            "tokens", "tokens/revoke",
        ))  # fmt: skip
        place, about = self._place(f"/console/{path}", rng)
        role = rng.choice(("", "viewer", "operator", "admin", "admin"))
        csrf = self.known.sessions[role][1] if role else "x"
        if path == "logout" or (path in ("log/verify", "tokens") and rng.random() < 0.9):
            csrf = "x"
        fields = [("csrf", csrf), ("key", f"{self._own}-{number}"), ("why", "said in a form")]
        if path == "login":
            token = self.known.tokens["viewer"] if rng.random() < 0.1 else "ucs_" + "B" * 43
            fields = [("token", token), ("next", "/console")]
        elif path.endswith("override"):
            choice = rng.choice(("action:5.0", "action:0.0", "other", "withdraw"))
            expected = self.known.expects.get(about, about)
            fields += [
                ("choice", choice),
                ("other", "7.5"),
                ("expects", expected),
                ("step", rng.choice(("", "record"))),
            ]
        elif path.endswith("rearm"):
            fields += [("accept", "yes"), (f"stream:{rng.choice(('', 'watched-1'))}", "yes")]
        elif path.startswith("tokens"):
            fields += [("name", f"made-{number}"), ("role", rng.choice(ROLES)), ("expires", "")]
        way = rng.random()
        plain = b"&".join(quote(k).encode() + b"=" + quote(v).encode() for k, v in fields)
        body = plain if way < 0.4 else heads.odd_form(fields, rng) if way < 0.9 else broken_bytes(plain, rng)
        headers = [
            (b"Host", b"127.0.0.1"), (b"Content-Type", b"application/x-www-form-urlencoded"),
            (b"Origin", b"http://127.0.0.1"), *self._cookie(role),
        ]  # fmt: skip
        return self._finished(number, rng, b"POST", place.encode(), headers, body, None, "", about)

    def _finished(
        self, number: int, rng: random.Random, method: bytes, target: bytes, headers: list[heads.Header], body: bytes,
        role: str | None, what: str, about: str,
    ) -> Sent:  # fmt: skip
        """Bytes to send: as they should be, or odd in one more way."""
        if body or method == b"POST":
            headers.append((b"Content-Length", b"%d" % len(body)))
        way, is_odd, ends = rng.random(), False, False
        if way < 0.15:
            before = [h for h in headers if h[0] == b"Authorization"]
            headers, ends = heads.odd_headers(headers, rng)
            is_odd, role = True, role if [h for h in headers if h[0] == b"Authorization"] == before else None
        elif way < 0.25:
            target, ends = heads.odd_target(target, rng)
            what, is_odd = "", True
        elif way < 0.30:
            method, ends = heads.odd_method(rng)
            what = ""
        elif way < 0.31:
            raw = heads.odd_framing(method, target, headers, body, rng)
            return Sent(number, raw, method, target, None, "", True, True, about)
        elif way < 0.32 and body:  # in pieces: another way to say the same
            rest = [h for h in headers if h[0] != b"Content-Length"]
            raw = heads.assembled(method, target, [*rest, (b"Transfer-Encoding", b"chunked")], b"")
            raw += b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            return Sent(number, raw, method, target, role, "", False, False, about)
        raw = heads.assembled(method, target, headers, body)
        return Sent(number, raw, method, target, role, what, is_odd, ends or heads.ends_connection(raw), about)
