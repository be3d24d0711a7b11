"""The runbook's restore drill, word for word: a copy taken under way, put in place elsewhere, checked, started."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from typer.testing import CliRunner

from tests.service.kit import make_folder, running
from ucsearch.cli import app


def cli(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_the_drill(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    tokens = make_folder(old)
    copy, mark = tmp_path / "copy.db", tmp_path / "copy.db.checkpoint"

    async def work() -> tuple[list[str], bytes]:
        async with running(old, tokens=tokens) as client:
            first = await client.decide("A", "B", key="before-the-copy")
            # The service goes on while the copy is taken.
            await asyncio.to_thread(cli, "service", "backup", old, copy)
            await client.decide("A", key="after-the-copy")
            return [i["id"] for i in first.json()["items"]], first.content

    ids, answer = asyncio.run(work())
    (new / "log").mkdir(parents=True)
    for name in ("service.toml", "orders.toml", "tokens.toml"):
        shutil.copy2(old / name, new / name)
    cli("log", "restore", copy, new / "log/decisions.db", "--checkpoint", mark)
    text = cli("service", "check", new)
    assert "error" not in text

    async def again() -> None:
        async with running(new, tokens=tokens) as client:
            found = (await client.get("/v1/log")).json()
            assert found["count"] == 2
            for id in ids:
                assert (await client.get(f"/v1/decisions/{id}")).status_code == 200
            # A caller that asks again gets what it was told then, to the byte.
            assert (await client.decide("A", "B", key="before-the-copy")).content == answer

    asyncio.run(again())
    # With the checkpoint of the lost machine the short log is refused: somebody has to know what was lost.
    shutil.rmtree(new / "checkpoint", ignore_errors=True)
    shutil.copytree(old / "checkpoint", new / "checkpoint")
    assert "does not confirm" in cli("service", "check", new, code=2)
