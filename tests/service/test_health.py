"""What an orchestrator and Prometheus are told, on a port of its own: as a standby, without usable tokens, and in
figures."""

from __future__ import annotations

import asyncio
import math
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kit.postgres import Server
from tests.service.console_kit import RAMPED
from tests.service.kit import CONFIG, START, Clock, make_folder, open_service, running
from tests.service.test_stores import filled
from ucsearch.cli.main import app
from ucsearch.service.backups import name_at
from ucsearch.service.observability import AdminServer
from ucsearch.service.run import address_of, listen
from ucsearch.verify import verify_files


def asked(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_standby_answers_while_it_waits_and_takes_over(tmp_path: Path) -> None:
    make_folder(tmp_path)
    first, second = open_service(tmp_path), open_service(tmp_path)
    first.start()
    socket = listen("127.0.0.1:0")
    admin, address = AdminServer(second, socket), address_of(socket)
    waiting = threading.Thread(target=second.start)
    waiting.start()
    try:
        until(lambda: second.is_standby)
        assert asked(address, "/healthz")[0] == 200
        assert asked(address, "/readyz") == (503, '{"status":"standby: another service holds the log"}')
        status, figures = asked(address, "/metrics")
        assert (status, "ucsearch_log_entries" in figures) == (200, True)
        first.stop()
        waiting.join(20)
        assert asked(address, "/readyz")[0] == 200
    finally:
        admin.stop()
        second.stop()


def test_the_command_answers_for_health_before_it_has_the_log(tmp_path: Path) -> None:
    """`service run` beside another service: an orchestrator must not start it again and again."""
    make_folder(tmp_path)
    first = open_service(tmp_path)
    first.start()
    with closing(listen("127.0.0.1:0")) as free:
        admin = address_of(free)
    command = [
        sys.executable, "-c", "from ucsearch.cli.main import main; main()", "service", "run", str(tmp_path), "--bind",
        "127.0.0.1:0", "--admin-bind", admin,
    ]  # fmt: skip
    second = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        until(lambda: answers(admin), 60.0)
        assert asked(admin, "/healthz")[0] == 200
        until(lambda: "standby" in asked(admin, "/readyz")[1])
        first.stop()
        assert second.stdout is not None
        assert second.stdout.readline().startswith("ready: ")
        until(lambda: asked(admin, "/readyz")[0] == 200)
    finally:
        second.send_signal(signal.SIGTERM)
        assert second.wait(30) == 0


def answers(address: str) -> bool:
    try:
        return asked(address, "/healthz")[0] > 0
    except OSError:
        return False


def test_without_usable_tokens_it_is_not_ready(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            assert (await client.admin.get("/readyz")).status_code == 200
            (tmp_path / "tokens.toml").chmod(0o644)
            until(lambda: client.service.tokens.problem)
            ready = await client.admin.get("/readyz")
            assert (ready.status_code, ready.json()["status"]) == (503, "tokens.toml cannot be used")
            assert (await client.admin.get("/healthz")).status_code == 200
            assert (await client.decide("A")).status_code == 401
            (tmp_path / "tokens.toml").chmod(0o600)
            until(lambda: not client.service.tokens.problem)
            assert (await client.admin.get("/readyz")).status_code == 200

    asyncio.run(go())


def test_figures_say_what_operators_ask(tmp_path: Path) -> None:
    clock = Clock()
    copies = tmp_path / "backups"
    copies.mkdir()

    async def go() -> None:
        async with running(tmp_path, CONFIG + '\n[backup]\nfolder = "backups"\n', RAMPED, clock) as client:

            def figure(text: str, name: str) -> float:
                return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).rpartition(" ")[2])

            text = await client.metrics()
            assert "ucsearch_build_info{" in text
            assert figure(text, "process_resident_memory_bytes") > 1e6
            assert figure(text, "ucsearch_backup_age_seconds") == math.inf
            (copies / name_at(START - timedelta(hours=5))).touch()
            (copies / f"{name_at(START - timedelta(hours=5))}.checkpoint").touch()
            held = {"items": [{"series": "H", "state": {"on_hand": 3.0, "open_orders": [97.0]},
                               "forecast": {"members": [[4.0, 5.0, 6.0]] * 4}}]}  # fmt: skip
            assert (await client.post("/v1/plans/orders/decisions", held)).json()["items"][0]["outcome"] == "HOLD"
            await client.post("/v1/plans/orders/pause", {"why": "a test"}, role="operator")
            assert (await client.get("/v1/plans", role="")).status_code == 401
            assert (await client.post("/v1/plans/orders/decisions", b"{")).status_code == 400
            text = await client.metrics()
            assert figure(text, "ucsearch_backup_age_seconds") == pytest.approx(5 * 3600.0, abs=60.0)
            assert figure(text, 'ucsearch_paused{plan="orders"}') == 1
            assert figure(text, 'ucsearch_on_hold{plan="orders"}') == 1
            assert figure(text, 'ucsearch_refusals_total{code="unauthorized"}') == 1
            assert figure(text, 'ucsearch_refusals_total{code="not_json"}') == 1
            route = 'route="/v1/plans/{plan}/decisions"'
            assert figure(text, f"ucsearch_http_request_seconds_count{{{route}}}") == 2
            assert figure(text, f'ucsearch_http_requests_total{{code="400",{route}}}') == 1

    asyncio.run(go())


def test_a_log_in_a_database_is_read_and_verified_as_a_file_is(postgres: Server, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    place = postgres.fresh()
    with filled(place) as log:
        log.checkpoint()
    run, mark = CliRunner().invoke, str(tmp_path / "mark.json")
    assert run(app, ["log", "checkpoint", mark, "--log", place]).exit_code == 0
    done = run(app, ["log", "checkpoint", mark, "--log", place])
    assert (done.exit_code, "4 entries" in done.output) == (0, True), done.output
    assert "RELEASED" in run(app, ["log", "list", "--log", place]).output
    assert run(app, ["log", "export", str(tmp_path / "all.jsonl"), "--log", place]).exit_code == 0
    assert {v.status for v in verify_files([tmp_path / "all.jsonl"])} == {"valid"}
    done = run(app, ["verify", place, "--checkpoint", mark])
    assert (done.exit_code, "4 valid" in done.output) == (0, True), done.output
    with psycopg.connect(place, autocommit=True) as connection:
        for statement in (
            "ALTER TABLE ucsearch.entries DISABLE TRIGGER entries_change",
            "UPDATE ucsearch.entries SET body = replace(body, 'order 5', 'order 6') WHERE seq = 2",
            "ALTER TABLE ucsearch.entries ENABLE TRIGGER entries_change",
        ):
            connection.execute(statement)
    for command in (["log", "checkpoint", mark, "--log", place], ["verify", place]):
        done = run(app, command)
        assert (done.exit_code, "entry 2" in done.output) == (1, True), done.output
    done = run(app, ["verify", "postgresql://nobody@127.0.0.1:1/none"])
    assert (done.exit_code, "127.0.0.1" in done.output) == (2, True), done.output
