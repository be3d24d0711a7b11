"""Schemathesis on the service's own description: no answer that is not declared (`make test-fuzz`)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.forks import Forks
from tests.service.kit import CONFIG, make_folder
from ucsearch.verify import verify_log

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "unsupported_method,ignored_auth"
)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["agent", "admin"])
def test_nothing_undeclared_is_answered(tmp_path: Path, role: str) -> None:
    found = shutil.which("schemathesis", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        pytest.skip("schemathesis is not installed; make test-fuzz does")
    config = CONFIG.replace("[[plan]]", "[limits]\nper_token = 1e6\nper_agent = 1e6\n[[plan]]", 1)
    tokens = make_folder(tmp_path, config + "[plan.monitor]\n")
    forks = Forks(tmp_path)
    running = forks.start()
    try:
        done = subprocess.run(
            [found, "run", f"http://127.0.0.1:{running.port}/v1/openapi.json", "-H",
             f"Authorization: Bearer {tokens[role]}", "--checks", CHECKS, "--phases", "coverage,fuzzing", "-n",
             os.environ.get("UCSEARCH_FUZZ", "100"), "--continue-on-failure"],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    finally:
        os.kill(running.pid, signal.SIGTERM)
        forks.close()
    assert done.returncode == 0, done.stdout[-6000:]
    # Whatever was asked, nothing left without a certificate that holds.
    assert {v.status for v in verify_log(tmp_path / "log/decisions.db")} <= {"valid"}
