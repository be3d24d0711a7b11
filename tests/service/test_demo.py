"""`ucsearch service demo`: it starts, decides, says where to look, and leaves a complete log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ucsearch.cli.main import app
from ucsearch.errors import InputError
from ucsearch.records.log import AuditReader
from ucsearch.service import demo


def test_it_decides_and_stops_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PAST", 3)
    said: list[str] = []
    assert demo.run_demo(tmp_path, port=0, once=True, say=said.append) == 3
    text = "\n".join(said)
    assert "/console" in text
    assert text.count("ucs_") == len(demo.PEOPLE)
    assert "Stopped. 3 periods were decided; the log is complete." in text
    with AuditReader(tmp_path / "log" / "decisions.db") as log:
        assert log.verify().ok
        newest = log.newest(demo.HOLDS)
        assert newest is not None
        assert newest.record["outcome"]["outcome"] == "HOLD"  # somebody has something to do
        kinds = [row.record["kind"] for row in log]
    assert kinds.count("decision") == 3 * len(demo.PRODUCTS)
    assert kinds.count("outcome") == 2 * len(demo.PRODUCTS)
    assert (tmp_path / "checkpoint" / "decisions.json").exists()
    (line,) = [part for part in text.splitlines() if part.startswith("Log:")]
    listed = CliRunner().invoke(app, line.split()[2:])
    assert (listed.exit_code, "SKU-003" in listed.output) == (0, True), "as it is printed, so it works"


def test_a_port_that_is_taken_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        folder = tmp_path / "new"
        with pytest.raises(InputError, match=r"--port: saw .*in use.*, expected a port that is free; 0 takes any"):
            demo.run_demo(folder, port=port, once=True, say=lambda text: None)
    assert not folder.exists(), "the same command with another port would be refused for it"


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_before_it_is_ready_it_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """In a process of its own, which is stopped as soon as its folder is there."""
    code = (
        "import os, signal, ucsearch.service.demo as demo\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored under nohup and in the background
        "made = demo.set_up\n"
        f"demo.set_up = lambda *a: (made(*a), os.kill(os.getpid(), {int(number)}))[0]\n"
        "from ucsearch.cli.main import main\n"
        "main(['service', 'demo', '--port', '0', '--once'])\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Stopped before it was ready." in done.stdout
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("ucsearch-service-")]


def test_it_stops_after_a_while(tmp_path: Path) -> None:
    assert demo.run_demo(tmp_path, port=0, seconds=0.5, say=lambda text: None) >= 0


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    from ucsearch.cli.service_demo import demo as command

    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="a new or empty folder"):
        command(folder=tmp_path, port=0, once=True)
