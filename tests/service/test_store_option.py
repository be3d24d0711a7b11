"""`--store postgresql://...` through the command line: check, run, decide, look at the console, back up, stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.kit.postgres import Server, find_binaries
from tests.service.console_kit import RAMPED, WATCHED, items
from tests.service.kit import make_folder
from tests.service.test_drill import cli
from ucsearch.records.chain import Checkpoint
from ucsearch.records.log import open_reader
from ucsearch.verify import verify_file

MAIN = "from ucsearch.cli.main import main; main()"


@pytest.mark.skipif(find_binaries() is None, reason="PostgreSQL is not installed")
def test_a_service_whose_log_is_a_database(tmp_path: Path, postgres: Server) -> None:
    place, folder = postgres.fresh(), tmp_path / "service"
    tokens = make_folder(folder, WATCHED, RAMPED)
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "service", "run", str(folder), "--store", place, "--bind", "127.0.0.1:0",
         "--admin-bind", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "NUMBA_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready: "), line
        url = f"http://{line.split()[1]}"
        headers = {"Authorization": f"Bearer {tokens['agent']}", "Content-Type": "application/json"}
        with httpx.Client(base_url=url, timeout=30.0) as http:
            bodies = [json.dumps(items(0, "fine")), json.dumps(items(0, "on hold", order=97.0))]
            made = [
                http.post("/v1/plans/orders/decisions", content=b, headers={**headers, "Idempotency-Key": f"k{i}"})
                for i, b in enumerate(bodies)
            ]
            assert [m.json()["items"][0]["outcome"] for m in made] == ["RELEASED", "HOLD"]
            again = http.post(
                "/v1/plans/orders/decisions", content=bodies[0], headers={**headers, "Idempotency-Key": "k0"}
            )
            assert again.content == made[0].content
            data = {"token": tokens["admin"], "next": "/console"}
            assert http.post("/console/login", data=data, headers={"Origin": url}).status_code == 303
            held = made[1].json()["items"][0]["id"]
            for path in (
                "", "/decisions", f"/decisions/{held}", f"/decisions/{held}/override", f"/series?name={quote('fine')}",
                "/monitor", "/log", "/plans", "/tokens",
            ):  # fmt: skip
                assert http.get(f"/console{path}").status_code == 200, path
        cli("service", "backup", folder, tmp_path / "copy.db", "--store", place)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
    with open_reader(place) as reader:
        count = reader.count()
        assert reader.verify().ok
    assert count == 3  # what the monitor watches by, and both decisions
    assert not (folder / "log/decisions.db").exists()
    assert Checkpoint.read(folder / "checkpoint/decisions.json").count == count
    assert "error" not in cli("service", "check", folder, "--store", place, code=1)  # its points are coarse
    assert {v.status for v in verify_file(tmp_path / "copy.db")} == {"valid"}
    # Under the checkpoint of the database an empty file is not the log.
    assert "does not confirm" in cli("service", "check", folder, "--store", "log/other.db", code=2)
