"""The console: every page, escaping, logins, roles, forms that are refused, and the way from HOLD to an action."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.service.console_kit import DRIFTS, EVIL, ORIGIN, RAMPED, WATCHED, Person, fill, form_of, id_of, items
from tests.service.kit import Client, running
from ucsearch.service.console.sessions import MOST_SESSIONS

PAGES = ("/console", "/console/decisions", "/console/monitor", "/console/plans", "/console/log")
MOST_BYTES = 150_000


@asynccontextmanager
async def console(folder: Path, config: str = WATCHED, hours: int = 1) -> AsyncIterator[tuple[Person, Client]]:
    async with running(folder, config, RAMPED) as client:
        await fill(client, hours)
        yield Person(client), client


def go(test: Callable[[Person, Client], Awaitable[None]], folder: Path, **options: object) -> None:
    async def run() -> None:
        async with console(folder, **options) as (person, client):  # type: ignore[arg-type]
            await test(person, client)

    asyncio.run(run())


# -------------------------------------------------------------------- looking


def test_every_page_is_shown_to_who_may_see_it_and_nothing_is_taken_for_markup(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        evil, held = await id_of(client, EVIL), await id_of(client, "on hold")
        pages = [
            *PAGES, f"/console/decisions/{evil}", f"/console/decisions/{held}", f"/console/series?name={quote(EVIL)}",
            f"/console/series?name={quote(DRIFTS)}", f"/console/decisions?series={quote(EVIL)}&reason={quote(EVIL)}",
            f"/console/login?next={quote(EVIL)}", "/console/decisions/nothing", "/console/series?name=nobody",
        ]  # fmt: skip
        override, tokens = f"/console/decisions/{held}/override", "/console/tokens"
        for role, allowed in (("viewer", ()), ("operator", (override,)), ("admin", (override, tokens))):
            await person.login(role)
            for path in (*pages, override, tokens):
                found = await person.look(path)
                refused = path in (override, tokens) and path not in allowed
                missing = path.endswith(("nothing", "nobody"))
                assert found.status_code == (403 if refused else 404 if missing else 200), (
                    f"{role} {path}\n{found.text}"
                )
                text = found.text
                assert "<img" not in text, path
                assert "onerror=alert(1)>" not in text.replace("&gt;", ""), path
                assert "49" not in re.findall(r"onerror=alert\(1\)\S*", text), path
                # Nothing that the policy would stop: the page needs no script and no style of its own.
                assert not re.search(r"<script|<style| style=|javascript:| on\w+=\"", text), path
                assert len(found.content) < MOST_BYTES
                assert "default-src 'none'" in found.headers["content-security-policy"]
                assert found.headers["x-content-type-options"] == "nosniff"
                assert found.headers["referrer-policy"] == "no-referrer"
                assert found.headers["cache-control"] == "no-store"
                assert '<html lang="en">' in text
                assert text.count("<h1>") == 1
        style = re.search(r'href="(/console/style-\w+\.css)"', (await person.look("/console")).text)
        assert style
        sheet = await person.look(style.group(1))
        assert (sheet.status_code, sheet.headers["content-type"]) == (200, "text/css; charset=utf-8")
        assert "prefers-color-scheme" in sheet.text

    go(test, tmp_path)


def test_what_needs_a_person_comes_first(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("operator")
        text = (await person.look("/console")).text
        needs, plans = text.split('<h2 id="plans">')
        assert needs.index(DRIFTS) < needs.index("on hold")  # a tripped monitor stops more than one decision
        assert "tripped" in needs
        assert "HOLD" in needs
        assert f"/console/decisions/{await id_of(client, 'on hold')}/override" in needs
        assert "fine" not in needs
        assert "HOLD" in plans
        monitor = (await person.look("/console/monitor")).text
        assert re.search("forecasts too low|spread too narrow", monitor)
        assert "<svg" in monitor
        series = (await person.look(f"/console/series?name={quote(DRIFTS)}")).text
        assert "Evidence against the forecasts" in series
        assert series.count("<figure") == 4
        assert "The same as a table" in series

    go(test, tmp_path, hours=16)


def test_decisions_are_filtered_paged_and_exported(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await client.decide(*(f"=S{i}" for i in range(55)))
        await person.login("viewer")
        first = (await person.look("/console/decisions?series==S3")).text
        assert first.count("/console/series?name=%3DS3") == 1
        page = (await person.look("/console/decisions")).text
        older = re.search(r'href="(/console/decisions\?before=\d+)"', page)
        assert older
        seen = re.findall(r"/console/decisions/([0-9a-f]{64})", page)
        rest = re.findall(r"/console/decisions/([0-9a-f]{64})", (await person.look(older.group(1))).text)
        assert len(seen) == 50
        assert not set(seen) & set(rest)
        assert (await person.look("/console/decisions?before=x")).status_code == 422
        assert (await person.look("/console/decisions?kind=other")).status_code == 422
        file = await person.look("/console/decisions.csv?outcome=HOLD")
        assert "attachment" in file.headers["content-disposition"]
        (line,) = csv.DictReader(io.StringIO(file.text.lstrip("\ufeff")))
        assert line["series"] == "on hold"
        everything = (await person.look("/console/decisions.csv")).text
        assert "'=S3" in everything  # no spreadsheet takes it for a formula
        assert re.search(r"(?m)^=|,=", everything) is None
        # A page renews itself only where somebody asked for it.
        assert "http-equiv" not in page
        assert 'http-equiv="refresh" content="30"' in (await person.look("/console?refresh=30")).text
        assert "http-equiv" not in (await person.look("/console?refresh=1;url=//evil.example")).text

    go(test, tmp_path)


# -------------------------------------------------------------------- login


def test_logins(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        http = person.http
        away = await person.look("/console/decisions?series=a%20b")
        assert (away.status_code, away.headers["location"]) == (
            303, "/console/login?next=%2Fconsole%2Fdecisions%3Fseries%3Da%2520b",
        )  # fmt: skip
        for token in ("", "ucs_wrong", client.tokens["viewer"] + "x"):
            found = await http.post("/console/login", data={"token": token}, headers=ORIGIN)
            assert found.status_code == 401
            assert "set-cookie" not in found.headers
        agent = await http.post("/console/login", data={"token": client.tokens["agent"]}, headers=ORIGIN)
        assert (agent.status_code, "set-cookie" in agent.headers) == (403, False)
        for after in ("https://evil.example", "//evil.example", "/console//evil.example", "/consolee", "/console\\x"):
            data = {"token": client.tokens["viewer"], "next": after}
            assert (await http.post("/console/login", data=data, headers=ORIGIN)).headers["location"] == "/console"
        data = {"token": client.tokens["viewer"], "next": "/console/decisions?series=a%20b"}
        made = await http.post("/console/login", data=data, headers=ORIGIN)
        assert made.headers["location"] == "/console/decisions?series=a%20b"
        cookie = made.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/console", "max-age=28800"} <= set(cookie.split("; "))
        assert "secure" not in cookie  # there may be no TLS on loopback
        # Logged out is logged out, also for who kept the cookie.
        kept = http.cookies["ucs_session"]
        gone = await person.send("/console/logout")
        assert "Log in" in gone.text
        http.cookies.set("ucs_session", kept, domain="127.0.0.1", path="/console")
        assert (await person.look("/console")).status_code == 303

    go(test, tmp_path)


def test_a_cookie_for_another_name_than_loopback_is_secure(tmp_path: Path) -> None:
    config = WATCHED.replace("[store]", '[server]\nhosts = ["127.0.0.1", "decisions.example.com"]\n[store]')

    async def test(person: Person, client: Client) -> None:
        headers = {"Host": "decisions.example.com", "Origin": "https://decisions.example.com"}
        made = await person.http.post("/console/login", data={"token": client.tokens["viewer"]}, headers=headers)
        assert made.status_code == 303
        assert "secure" in made.headers["set-cookie"].lower().split("; ")

    go(test, tmp_path, config=config)


def test_bad_logins_are_limited_and_keep_nobody_out_who_has_a_token(tmp_path: Path) -> None:
    """Behind a proxy everybody has one address: ten bad logins of one locked out all others."""

    async def test(person: Person, client: Client) -> None:
        codes = []
        for i in range(6):
            found = await person.http.post("/console/login", data={"token": f"ucs_{i}"}, headers=ORIGIN)
            codes.append(found.status_code)
        assert codes == [401] * 4 + [429] * 2
        assert 1 <= int(found.headers["retry-after"]) <= 60
        assert (await person.login("admin")).status_code == 303
        assert 'ucsearch_refusals_total{code="too_many"} 2.0' in await client.metrics()

    go(test, tmp_path, config=WATCHED.replace("[[plan]]", "[limits]\nlogins = 4\n[[plan]]"))


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("viewer")
        assert (await person.look("/console")).status_code == 200
        client.service.tokens.revoke("the viewer")
        assert (await person.look("/console")).status_code == 303

    go(test, tmp_path)


def test_many_logins_of_one_token_log_nobody_else_out(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("admin")
        cookies = dict(person.http.cookies)
        sessions = client.http._transport.app.state.sessions  # type: ignore[attr-defined]
        viewer = client.service.tokens.find(client.tokens["viewer"])
        assert viewer is not None
        first, *_, last = [sessions.begin(viewer) for _ in range(MOST_SESSIONS + 5)]
        person.http.cookies.clear()
        assert (await person.http.get("/console", cookies=cookies)).status_code == 200
        assert sessions.find(first.id) is None
        assert sessions.find(last.id) is not None

    go(test, tmp_path)


def test_a_user_whom_the_proxy_names_needs_no_login(tmp_path: Path) -> None:
    server = '[server]\nproxy_user_header = "X-Remote-User"\nproxies = ["127.0.0.1"]\nproxy_role = "operator"\n[store]'

    async def test(person: Person, client: Client) -> None:
        anna = {"X-Remote-User": "anna"}
        found = await person.http.get("/console", headers=anna)
        assert found.status_code == 200
        assert "anna (operator)" in found.text
        # The cookie alone is nobody: the proxy must name the user every time, and the same one.
        assert (await person.http.get("/console")).status_code == 303
        bert = await person.http.get("/console", headers={"X-Remote-User": "bert"})
        assert "bert (operator)" in bert.text

    go(test, tmp_path, config=WATCHED.replace("[store]", server))


# -------------------------------------------------------------------- forms


def test_forms_from_elsewhere_change_nothing(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("admin")
        path = "/console/plans/orders/pause"
        form = {**form_of((await person.look("/console/plans")).text, path), "why": "a good reason"}
        before = client.service.writer  # the same service throughout
        tries = [
            ({}, {"Origin": "https://evil.example"}), ({}, {"Origin": "null"}), ({}, {}),
            ({}, {"Sec-Fetch-Site": "cross-site", **ORIGIN}), ({}, {"Sec-Fetch-Site": "same-site", **ORIGIN}),
            ({"csrf": ""}, ORIGIN), ({"csrf": "wrong"}, ORIGIN), ({"csrf": "\u00e9"}, ORIGIN),
        ]  # fmt: skip
        for change, headers in tries:
            found = await person.http.post(path, data={**form, **change}, headers=headers)
            assert found.status_code == 403, (change, headers, found.text)
        json = await person.http.post(path, json=form, headers=ORIGIN)
        assert json.status_code == 415
        huge = await person.http.post(path, data={**form, "why": "x" * 70_000}, headers=ORIGIN)
        assert huge.status_code == 413
        assert "running" in (await person.look("/console/plans")).text
        # What browsers send from a page without a referrer.
        right = await person.http.post(path, data=form, headers={"Sec-Fetch-Site": "same-origin", "Origin": "null"})
        assert right.status_code == 303
        assert client.service.writer is before
        # Somebody else's form is not ours either.
        await person.login("operator")
        other = await person.http.post("/console/plans/orders/resume", data=form, headers=ORIGIN)
        assert other.status_code == 403

    go(test, tmp_path)


def test_from_hold_to_an_action(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("operator")
        id = await id_of(client, "on hold")
        path = f"/console/decisions/{id}/override"
        form = (await person.look(path)).text
        assert "The rules allow none of the actions offered" in form
        given = {"choice": "other", "why": "the open order was placed by hand"}
        # Against the rules: told, and nothing is recorded.
        broken = await person.send(path, path, other="40", **given)
        assert broken.status_code == 422
        assert "breaks the rules" in broken.text
        assert "the open order was placed by hand" in broken.text  # nobody types it again
        for wrong in ({"other": ""}, {"other": "95", "choice": ""}, {"other": "95", "why": "x"}, {"other": "nan"}):
            assert (await person.send(path, path, **{**given, **wrong})).status_code == 422
        # Both side by side, then recorded.
        confirm = await person.send(path, path, other="95", **given)
        assert confirm.status_code == 200
        assert "In force" in confirm.text
        assert "nothing" in confirm.text
        assert "off the grid" in confirm.text
        fields = form_of(confirm.text, path)
        assert fields["step"] == "record"
        done = await person.http.post(path, data=fields, headers=ORIGIN)
        assert done.status_code == 303
        again = await person.http.post(path, data=fields, headers=ORIGIN)  # a second click
        assert again.headers["location"] == done.headers["location"]
        shown = (await person.look(done.headers["location"])).text
        assert "Recorded. In force for on hold is now" in shown
        assert "never certified" in shown
        found = (await client.get("/v1/series/on%20hold")).json()
        assert (found["effective"], found["certified"], len(found["overrides"])) == (95.0, False, 1)
        assert found["overrides"][0]["who"] == "the operator"
        # It does not wait for a person any more; and what was seen before cannot be overridden unseen.
        assert "on hold" not in (await person.look("/console")).text.split('<h2 id="plans">')[0]
        stale = await person.http.post(path, data={**fields, "key": "another", "other": "96"}, headers=ORIGIN)
        assert stale.status_code == 409
        # Withdrawn: it is on hold again.
        back = await person.send(path, path, choice="withdraw", why="it was cancelled")
        done = await person.http.post(path, data=form_of(back.text, path), headers=ORIGIN)
        assert done.status_code == 303
        assert (await client.get("/v1/series/on%20hold")).json()["effective"] is None

    go(test, tmp_path)


def test_what_the_rules_refuse_is_recorded_only_when_a_person_insists(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("operator")
        path = f"/console/decisions/{await id_of(client, 'on hold')}/override"
        given = {"choice": "other", "other": "40", "why": "the open order was placed by hand"}
        assert 'name="force"' not in (await person.look(path)).text
        refused = await person.send(path, path, **given)
        assert (refused.status_code, 'name="force"' in refused.text) == (422, True)
        confirm = await person.send(path, path, force="yes", **given)
        assert "Against the rules:" in confirm.text
        assert (await client.get("/v1/series/on%20hold")).json()["effective"] is None
        done = await person.http.post(path, data=form_of(confirm.text, path), headers=ORIGIN)
        assert done.status_code == 303
        assert '<span class="tag bad">forced</span>' in (await person.look(done.headers["location"])).text
        found = (await client.get("/v1/series/on%20hold")).json()
        assert (found["effective"], found["overrides"][0]["forced"]) == (40.0, True)

    go(test, tmp_path)


def test_an_offered_action_is_taken(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("operator")
        id = await id_of(client, "fine")
        path = f"/console/decisions/{id}/override"
        text = (await person.look(path)).text
        offered = re.findall(r'value="(action:[^"]*)"', text)
        assert offered == ["action:5"]  # within the ramp of 5
        confirm = await person.send(path, path, choice=offered[0], why="as planned")
        done = await person.http.post(path, data=form_of(confirm.text, path), headers=ORIGIN)
        assert done.status_code == 303
        found = (await client.get("/v1/series/fine")).json()
        assert (found["effective"], found["overrides"][0]["label"]) == (5.0, "order 5")

    go(test, tmp_path)


def test_roles_are_asked_when_a_form_is_sent(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        held = await id_of(client, "on hold")
        forms = {
            f"/console/decisions/{held}/override": "operator", "/console/plans/orders/pause": "operator",
            "/console/plans/orders/resume": "operator", "/console/monitor/orders/rearm": "admin",
            "/console/tokens": "admin", "/console/tokens/revoke": "admin",
        }  # fmt: skip
        for role, may in (("viewer", ()), ("operator", ("operator",)), ("admin", ("operator", "admin"))):
            await person.login(role)
            csrf = form_of((await person.look("/console")).text, "/console/logout")
            for path, needed in forms.items():
                found = await person.http.post(path, data={**csrf, "why": "no"}, headers=ORIGIN)
                assert (found.status_code == 403) == (needed not in may), f"{role} {path}: {found.status_code}"
        person.http.cookies.clear()
        for path in forms:
            found = await person.http.post(path, data={}, headers=ORIGIN)
            assert (found.status_code, found.headers["location"]) == (303, "/console/login")

    go(test, tmp_path)


def test_plans_are_paused_monitors_armed_again_and_tokens_made(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("admin")
        paused = await person.send("/console/plans/orders/pause", "/console/plans", why="stocktaking <b>", until="")
        assert "Paused by the admin" in paused.text
        assert "stocktaking &lt;b&gt;" in paused.text
        made = (await client.decide("after the pause")).json()["items"][0]
        assert (made["outcome"], made["reason"]) == ("FALLBACK", "paused") or made["outcome"] == "HOLD"
        assert "paused" in (await person.look("/console")).text.split('<h2 id="plans">')[0]
        resumed = await person.send("/console/plans/orders/resume", "/console", why="it is counted")
        assert "Running again" in resumed.text
        assert "<h1>Overview</h1>" in resumed.text
        again = await person.send("/console/plans/orders/pause", "/console", why="from the overview", until="")
        assert "<h1>Overview</h1>" in again.text
        assert "the admin: from the overview" in again.text
        await person.send("/console/plans/orders/resume", "/console", why="that was all")
        rearm = "/console/monitor/orders/rearm"
        ticked = {f"stream:{DRIFTS}": "yes"}
        assert f'name="stream:{DRIFTS}" value="yes" checked' in (await person.look("/console/monitor")).text
        none = await person.send(rearm, "/console/monitor", why="let us see")
        assert (none.status_code, "nothing was ticked" in none.text) == (422, True)
        refused = await person.send(rearm, "/console/monitor", why="let us see", **ticked)
        assert refused.status_code == 422
        assert f"the forecasts&#39; model of {DRIFTS} is the one that tripped" in refused.text
        armed = await person.send(rearm, "/console/monitor", why="let us see", accept="yes", **ticked)
        assert "Armed again." in armed.text
        assert "let us see" in armed.text
        tokens = await person.send("/console/tokens", "/console/tokens", name="bert", role="viewer", expires="")
        secret = re.search(r"ucs_[\w-]{43}", tokens.text)
        assert tokens.status_code == 201
        assert secret
        assert secret.group(0) not in (await person.look("/console/tokens")).text  # shown once
        assert client.service.tokens.find(secret.group(0)) is not None
        own = await person.send("/console/tokens/revoke", "/console/tokens", name="the admin")
        assert "logged in with" in own.text
        gone = await person.send("/console/tokens/revoke", "/console/tokens", name="bert")
        assert "Revoked." in gone.text
        assert client.service.tokens.find(secret.group(0)) is None

    go(test, tmp_path, hours=16)


def test_an_order_is_changed_from_the_list(tmp_path: Path) -> None:
    """The newest decision of a series, while it is valid, and by operators only."""

    async def test(person: Person, client: Client) -> None:
        old = (await client.decide("A")).json()["items"][0]["id"]
        new = (await client.decide("A")).json()["items"][0]["id"]
        for role, may in (("viewer", False), ("operator", True)):
            await person.login(role)
            page = (await person.look("/console/decisions?series=A")).text
            assert (f"/console/decisions/{new}/override" in page) == may
            assert f"/console/decisions/{old}/override" not in page
        assert (await person.look(f"/console/decisions/{new}/override")).status_code == 200

    go(test, tmp_path)


def test_a_refused_forecast_has_its_pages_too(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        bad = items(3, "refused")
        bad["items"][0]["forecast"]["members"][0][0] = None
        made = await client.post("/v1/plans/orders/decisions", bad)
        assert made.status_code == 200, made.text
        id = made.json()["items"][0]["id"]
        await person.login("operator")
        shown = await person.look(f"/console/decisions/{id}")
        assert shown.status_code == 200
        assert "The forecast was refused" in shown.text
        assert (await person.look("/console/series?name=refused")).status_code == 200
        path = f"/console/decisions/{id}/override"
        form = await person.look(path)
        assert 'value="action:5"' in form.text  # the state was kept, so the rules can be asked
        confirm = await person.send(path, path, choice="action:5", why="I know what is sold")
        assert (await person.http.post(path, data=form_of(confirm.text, path), headers=ORIGIN)).status_code == 303
        assert (await client.get("/v1/series/refused")).json()["effective"] == 5.0

    go(test, tmp_path)


def test_a_decision_and_the_log_are_verified_on_request(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("viewer")
        id = await id_of(client, "fine")
        found = await person.send(f"/console/decisions/{id}/verify", f"/console/decisions/{id}")
        assert "Verified now: <strong>valid</strong>" in found.text
        log = await person.send("/console/log/verify", "/console/log")
        assert "Every entry, digest and blob is right" in log.text

    go(test, tmp_path)


def test_a_log_that_is_gone_is_told_on_every_page_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ucsearch.service.writer.writer._AGAIN_S", 0.02)

    async def test() -> None:
        async with running(tmp_path) as client:
            person = Person(client)
            await person.login("admin")
            assert (await client.decide("A")).status_code == 200
            for _ in range(8):
                assert (await person.look("/console/log")).status_code == 200
            (tmp_path / "log").rename(tmp_path / "elsewhere")
            for _ in range(100):
                if client.service.not_ready():
                    break
                await asyncio.sleep(0.05)
            # Where a connection is open still, it shows what was; else the page says that the log cannot be read.
            for overview in [await person.look("/console") for _ in range(8)]:
                assert overview.status_code == 503 or "Nothing can be decided now:" in overview.text
                assert "Everything is decided" not in overview.text
            codes = {(await person.look(path)).status_code for path in PAGES}
            assert codes <= {200, 503}
            assert (await person.look("/console/log")).status_code == 503
            assert (await client.admin.get("/metrics")).status_code == 200

    asyncio.run(test())


def test_problems_are_pages_that_name_no_secret(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await person.login("viewer")
        found = await person.look("/console/decisions/" + "0" * 64)
        assert found.status_code == 404
        assert found.headers["content-type"].startswith("text/html")
        assert "Nothing was recorded" in found.text
        assert client.tokens["viewer"] not in found.text

    go(test, tmp_path)


@pytest.mark.parametrize("path", ["/", "/console/"])
def test_the_address_alone_leads_to_the_console(tmp_path: Path, path: str) -> None:
    async def test(person: Person, client: Client) -> None:
        found = await person.look(path)
        assert found.status_code in (303, 307)
        assert found.headers["location"].rstrip("/").endswith("/console")

    go(test, tmp_path)


def test_odd_requests_are_answered_from_the_closed_list(tmp_path: Path) -> None:
    """No page, whatever it is asked with, is a bug; and nothing of it is recorded."""
    import random

    pick = random.Random(7)
    texts = [
        "",
        "\x00",
        "\u202e",
        "a" * 3_000,
        "%",
        "../../etc/passwd",
        EVIL,
        "0" * 64,
        "-1",
        "1e999",
        "\ud7ff",
        "action:",
        "😀",
    ]

    async def test(person: Person, client: Client) -> None:
        await person.login("admin")
        held = await id_of(client, "on hold")
        before = (await client.get("/v1/log")).json()["count"]
        csrf = form_of((await person.look("/console")).text, "/console/logout")["csrf"]
        gets = [
            "/console/decisions",
            "/console/series",
            "/console/decisions.csv",
            "/console/login",
            "/console",
            "/console/monitor",
        ]
        nobody = f"/console/decisions/{'0' * 64}/override"
        posts = [f"/console/decisions/{held}/override", "/console/plans/orders/pause", "/console/plans/nothing/pause",
                 "/console/monitor/orders/rearm", nobody, "/console/tokens/revoke"]  # fmt: skip
        names = ["series", "name", "plan", "outcome", "reason", "before", "refresh", "next", "done", "kind"]
        fields = ["choice", "other", "expects", "key", "until", "series", "accept", "step", "name", "role"]
        for _ in range(150):
            given = {pick.choice(names): pick.choice(texts) for _ in range(3)}
            found = await person.http.get(pick.choice(gets), params=given)
            assert found.status_code in (200, 303, 404, 422), (given, found.status_code, found.text[-300:])
            data = {"csrf": csrf, "why": "", **{pick.choice(fields): pick.choice(texts) for _ in range(4)}}
            path = pick.choice(posts)
            found = await person.http.post(path, data=data, headers=ORIGIN)
            assert found.status_code in (400, 404, 409, 422), (path, data, found.status_code, found.text[-300:])
        assert (await client.get("/v1/log")).json()["count"] == before

    config = WATCHED + "\n[limits]\nper_token = 100000\nper_agent = 100000\n"
    go(test, tmp_path, config=config)
