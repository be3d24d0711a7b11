"""A client that a tool writes from `/openapi.json`: it decides at the first try, and goes on when a plan is added."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("openapi_python_client", reason="it is not here; make test-fuzz installs it")

from tests.service.kit import CONFIG, body, make_folder, open_service
from ucsearch.service.run import embedded

pytestmark = pytest.mark.slow
BOUND = '[server]\nbind = "127.0.0.1:0"\n' + CONFIG
MORE = '\n[[plan]]\nname = "others"\nsettings = "orders.toml"\n'


def generate(url: str, token: str, target: Path) -> dict[str, bytes]:
    """The files of a client for the service as it describes itself now."""
    found = httpx.get(f"{url}/v1/openapi.json", headers={"Authorization": f"Bearer {token}"})
    target.parent.mkdir(parents=True, exist_ok=True)
    described = target.parent / "openapi.json"
    described.write_bytes(found.content)
    command = ["generate", "--path", str(described), "--output-path", str(target), "--meta", "none"]
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # JSON lines are none of the tool's media types; the endpoint is there all the same.
    warned = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("WARNING")]
    assert warned == ["WARNING parsing GET /v1/log/export within plans_and_log."]
    return {str(path.relative_to(target)): path.read_bytes() for path in sorted(target.rglob("*.py"))}


def decide(client: Any, plan: str, key: str) -> tuple[int, dict[str, Any]]:
    made = importlib.import_module("generated.api.decisions.decide")
    kind = importlib.import_module("generated.models").DecideBody
    found = made.sync_detailed(plan, client=client, body=kind.from_dict(body("A", "B")), idempotency_key=key)
    return int(found.status_code), json.loads(found.content)


def test_a_generated_client_decides_and_goes_on_when_a_plan_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "service"
    tokens = make_folder(folder, BOUND)
    with embedded(open_service(folder)) as url:
        before = generate(url, tokens["viewer"], tmp_path / "one" / "generated")
        monkeypatch.syspath_prepend(str(tmp_path / "one"))
        kind = importlib.import_module("generated").AuthenticatedClient
        status, first = decide(kind(base_url=url, token=tokens["agent"]), "orders", "monday")
        assert (status, [x["outcome"] for x in first["items"]]) == (200, ["RELEASED", "RELEASED"])
    (folder / "service.toml").write_text(BOUND + MORE)
    with embedded(open_service(folder)) as url:
        client = kind(base_url=url, token=tokens["agent"])
        assert decide(client, "orders", "monday") == (200, first)
        status, second = decide(client, "others", "monday")  # a plan that it has never heard of
        assert (status, len(second["items"])) == (200, 2)
        assert decide(client, "none", "monday")[0] == 404
        assert generate(url, tokens["viewer"], tmp_path / "two" / "generated") == before
