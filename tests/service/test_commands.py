"""`ucsearch service`: init, check, tokens, backup, arm; and configurations that are refused."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import random
import re
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kit.postgres import Server
from tests.service.kit import CONFIG, PLAN, make_folder, open_service
from ucsearch.cli.main import app
from ucsearch.errors import InputError, UCSearchError
from ucsearch.monitor import Settings, rank_of
from ucsearch.monitor.arming import arm, replayed
from ucsearch.planner.decide.in_memory import decide_cases
from ucsearch.planner.new.inventory import write_scaffold
from ucsearch.planner.settings import load_settings
from ucsearch.records.backup import backup
from ucsearch.records.chain import Checkpoint
from ucsearch.service.backups import backup_log
from ucsearch.service.config import PlanTable, load_config
from ucsearch.service.run import check, init, run
from ucsearch.service.writer.plans import load_plan


def command(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["service", *arguments])
    return done.exit_code, done.output


def test_a_new_service_is_right_and_shows_its_token_once(tmp_path: Path) -> None:
    code, text = command("init", str(tmp_path / "s"))
    assert code == 0
    token = text.strip().rpartition(" ")[2]
    assert token.startswith("ucs_")
    kept = (tmp_path / "s/tokens.toml").read_text()
    assert token not in kept
    assert hashlib.sha256(token.encode()).hexdigest() in kept
    assert (tmp_path / "s/tokens.toml").stat().st_mode & 0o077 == 0
    settings = tmp_path / "s/orders.toml"
    settings.write_text(settings.read_text() + '\n[run]\nengine = "python"\n')
    assert command("check", str(tmp_path / "s"))[0] == 0
    assert command("init", str(tmp_path / "s"))[0] != 0
    (tmp_path / "a file").write_text("")
    for place in ("a file", "a file/within"):
        with pytest.raises(UCSearchError, match="folder"):
            init(tmp_path / place)
    code, text = command("token", str(tmp_path / "s"), "bot", "--role", "agent")
    assert (code, text[:4]) == (0, "ucs_")
    assert "bot\tagent" in command("token", str(tmp_path / "s"))[1]
    assert command("token", str(tmp_path / "s"), "bot")[0] != 0
    assert command("token", str(tmp_path / "s"), "bot", "--revoke")[0] == 0
    assert "bot" not in command("token", str(tmp_path / "s"))[1]


def test_a_new_service_refuses_forecasts_of_another_time(tmp_path: Path) -> None:
    init(tmp_path / "s")
    settings = load_settings(tmp_path / "s" / "orders.toml")
    forecast = {"mean": [5, 6, 5, 4], "std": [1, 1, 1, 1]}
    cutoffs = {"today": "2024-05-20", "old": "2024-05-16", "unknown": None}
    rows = [
        {"series": name, "on_hand": 3, "open_orders": [4], "forecast": forecast | ({"cutoff": day} if day else {})}
        for name, day in cutoffs.items()
    ]
    told = {row["series"]: row for row in decide_cases(settings, rows, now=datetime(2024, 5, 20, tzinfo=UTC))}
    assert {name: row["outcome"] == "REFUSED" for name, row in told.items()} == {
        "today": False, "old": True, "unknown": False,
    }  # fmt: skip
    assert "expected one at most 2 periods before 2024-05-20" in told["old"]["problem"]


def _key_and_certificate() -> tuple[bytes, bytes]:
    from datetime import timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=9))
    pem = serialization.Encoding.PEM
    kind, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(pem, kind, none), made.sign(key, hashes.SHA256()).public_bytes(pem)


@pytest.mark.parametrize("wrong", ["missing", "of another key", "no certificate", ""])
def test_a_certificate_that_does_not_serve_is_told_by_check_and_run(tmp_path: Path, wrong: str) -> None:
    make_folder(tmp_path, '[server]\ntls_cert = "a.pem"\ntls_key = "a.key"\n' + CONFIG)
    key, certificate = _key_and_certificate()
    if wrong != "missing":
        (tmp_path / "a.pem").write_bytes(b"hello" if wrong == "no certificate" else certificate)
        (tmp_path / "a.key").write_bytes(_key_and_certificate()[0] if wrong == "of another key" else key)
    code, text = command("check", str(tmp_path))
    if not wrong:
        assert "tls" not in text
        return
    assert (code, "server.tls_cert" in text) == (2, True)
    with pytest.raises(InputError, match=r"server\.tls_cert"):
        run(tmp_path, bind="127.0.0.1:0", admin_bind="127.0.0.1:0")


@pytest.mark.parametrize(("place", "level"), [("log", 2), ("log/decisions.db", 2), ("checkpoint", 1)])
def test_check_says_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, level: int
) -> None:
    assert command("init", str(tmp_path / "s"))[0] == 0
    (tmp_path / "s/orders.toml").write_text(PLAN)
    real = os.access

    def access(path: Path, mode: int, **more: bool) -> bool:  # root may write everywhere
        return path != tmp_path / "s" / place and real(path, mode, **more)

    monkeypatch.setattr(os, "access", access)
    code, text = command("check", str(tmp_path / "s"))
    assert (code, "cannot be written" in text) == (level, True), text


def test_an_address_that_is_taken_is_told_before_anything_is_opened(tmp_path: Path) -> None:
    make_folder(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError) as told:
            run(tmp_path, bind=f"127.0.0.1:{port}", admin_bind="127.0.0.1:0")
    assert f"server.bind: saw 127.0.0.1:{port} (Address already in use)" in str(told.value)
    assert "--bind ADDRESS:PORT" in str(told.value)
    assert not (tmp_path / "log").exists() or not list((tmp_path / "log").iterdir())


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ('[server]\nbind = "0.0.0.0:8411"\n' + CONFIG, "loopback"),
        ('[server]\nbind = "nowhere"\n' + CONFIG, "bind"),
        ('[server]\ncolour = "red"\n' + CONFIG, "colour"),
        ('[server]\nproxy_user_header = "X-User"\n' + CONFIG, "proxies"),
        ('[server]\nhosts = ["decisions.example.com:443"]\n' + CONFIG, "without scheme and port"),
        ('[server]\nhosts = ["https://decisions.example.com"]\n' + CONFIG, "without scheme and port"),
        ('[server]\nhosts = ["::1"]\n' + CONFIG, "IPv6 as"),
        ("[server]\nhosts = []\n" + CONFIG, "hosts"),
        (CONFIG.replace('"checkpoint/decisions.json"', '"log/checkpoint.json"'), "another folder"),
        (CONFIG + '[[plan]]\nname = "orders"\nsettings = "orders.toml"\n', "twice"),
        (CONFIG.replace('name = "orders"', 'name = "a/b"'), "letters"),
        (CONFIG.replace("checkpoint_every = 10", 'checkpoint_every = "10"'), "checkpoint_every"),
        ("[store\n", "TOML"),
    ],
)
def test_a_configuration_that_is_wrong_says_where(tmp_path: Path, config: str, word: str) -> None:
    make_folder(tmp_path, config)
    with pytest.raises(InputError, match=word):
        load_config(tmp_path)


def test_other_addresses_need_tls_or_a_proxy(tmp_path: Path) -> None:
    for more in ('tls_cert = "c"\ntls_key = "k"\n', 'proxy_user_header = "X-User"\nproxies = ["10.0.0.1"]\n'):
        make_folder(tmp_path, f'[server]\nbind = "0.0.0.0:8411"\n{more}' + CONFIG)
        assert not load_config(tmp_path)[0].server.on_loopback


@pytest.mark.parametrize(
    ("more", "task", "words"),
    [
        ('[forecast]\nseason = 7\nrecalibrate = "rolling"\n', "", "forecast.recalibrate needs an archive"),
        ("every_action = true\n[shared.truck]\nlimit = 10.0\nsteps = 2\n", "", "a service shares today's"),
        ("", "of_two_fields", r"outcomes of several fields \(a, b\) are for files"),
    ],
)
def test_what_a_service_cannot_decide_is_refused_at_the_start(tmp_path: Path, more: str, task: str, words: str) -> None:
    named = f'settings = "orders.toml"\ntask = "tests.service.broken:{task}"'
    plan = PLAN.replace("depth = 2\n", f"depth = 2\n{more}")
    make_folder(tmp_path, CONFIG.replace('settings = "orders.toml"', named) if task else CONFIG, plan)
    (found,) = [finding for finding in check(tmp_path) if finding.level == 2]
    assert re.search(f"^plan 'orders': .*{words}", found.text), found.text


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_backup_can_be_put_back(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    store = None
    if kind == "postgres":
        server: Server = request.getfixturevalue("postgres")
        store = server.fresh()
    make_folder(tmp_path, CONFIG if store is None else CONFIG.replace("log/decisions.db", store))
    service = open_service(tmp_path)
    service.start()
    service.writer.call(
        lambda desk: desk.log.append(
            {"schema": "ucsearch.control/1", "kind": "control", "plan": "orders", "action": "pause", "who": "M",
             "why": "a test", "at": desk.now.isoformat()}
        )
    ).result()  # fmt: skip
    lines = backup_log(tmp_path, tmp_path / "copy.db")
    service.stop()
    assert "1 entries" in lines[0]
    digest, name = (tmp_path / "copy.db.sha256").read_text().split()
    assert (hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()) == digest
    made = backup(
        tmp_path / "copy.db", tmp_path / "back.db", checkpoint=Checkpoint.read(tmp_path / "copy.db.checkpoint")
    )
    assert made.count == 1


@pytest.mark.parametrize("kind", ["storage", "intervention"])
def test_plans_of_other_tasks_are_tried_before_they_are_called_ready(tmp_path: Path, kind: str) -> None:
    settings = next(p for p in write_scaffold(kind, tmp_path) if p.suffix == ".toml")
    plan = load_plan(PlanTable(name="p", settings=settings.name), tmp_path)
    assert plan.warm().engine == "compiled"
    # A forecast that is too short is refused, so nothing is searched and nothing compiled.
    short = dataclasses.replace(plan.settings, forecast=plan.settings.forecast.model_copy(update={"steps": 1}))
    found = dataclasses.replace(plan, settings=short).warm()
    assert (found.engine, "could not be tried" in found.note) == ("python", True)


def ranks(narrow: float, periods: int = 300, series: int = 4) -> list[list[tuple[str, float, float]]]:
    chance = random.Random(5)
    out = []
    for _ in range(periods):
        members = [chance.gauss(0.0, 1.0) for _ in range(60)]
        out.append([(f"S{i}", *rank_of(members, chance.gauss(0.0, narrow))) for i in range(series)])
    return out


def test_a_replay_says_whether_the_monitor_fits() -> None:
    assert not replayed(ranks(1.0), Settings()).tripped
    found = replayed(ranks(2.0), Settings())
    assert found.tripped
    assert 0 < found.after < 300
    assert found.about == "spread too narrow"
    assert found.fits is None or found.fits > Settings().max_undercoverage


def test_arming_looks_at_a_backtest_of_the_plans_own_forecaster(tmp_path: Path) -> None:
    plan = PLAN + '[forecaster]\nname = "seasonal_naive"\npaths = 60\n[backtest]\nseason = 7\n'
    make_folder(tmp_path, CONFIG + "[plan.monitor]\n", plan)
    chance = random.Random(3)
    lines = ["series,step,demand"]
    for s in range(2):
        lines += [f"S{s},{t + 1},{10 + 3 * math.sin(t) + chance.gauss(0, 1):.3f}" for t in range(400)]
    (tmp_path / "sales.csv").write_text("\n".join(lines) + "\n")
    config, place = load_config(tmp_path)
    made = load_plan(config.plan[0], place)
    assert made.watching is not None
    found = arm(made.settings, made.watching, tmp_path / "sales.csv")
    assert found.outcomes >= 500
    (tmp_path / "few.csv").write_text("\n".join(lines[:60]) + "\n")
    with pytest.raises(InputError, match="at least 500"):
        arm(made.settings, made.watching, tmp_path / "few.csv")


def test_a_service_that_is_told_to_stop_while_a_kernel_is_made_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler aborts the process when Python ends under its feet."""
    from ucsearch.cli import service as cli
    from ucsearch.service import observability
    from ucsearch.service import run as starting
    from ucsearch.service.writer import plans

    ended: list[int] = []
    monkeypatch.setattr(observability, "set_up_logging", lambda: None)
    monkeypatch.setattr(starting, "run", lambda *_, **__: None)
    monkeypatch.setattr(cli.os, "_exit", ended.append)
    cli.run(tmp_path)
    assert ended == []
    done = threading.Event()
    maker = threading.Thread(target=done.wait, name=plans._THREAD, daemon=True)
    maker.start()
    cli.run(tmp_path)
    done.set()
    maker.join()
    assert ended == [0]
