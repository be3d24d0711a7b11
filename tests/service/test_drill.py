"""The runbook's restore drill, word for word: a copy taken under way, put in place elsewhere, checked, started."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from typer.testing import CliRunner

from tests.service.kit import CONFIG, make_folder, running
from ucsearch.cli import app
from ucsearch.errors import UCSearchError


def cli(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if isinstance(done.exception, UCSearchError):  # `main` prints it and ends with 2
        assert code == 2, done.exception
        return done.output + str(done.exception)
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
    cli("log", "copy", copy, new / "log/decisions.db", "--checkpoint", mark)
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


def test_drill_does_it_in_one_command(tmp_path: Path) -> None:
    """The newest copy is restored elsewhere, verified against its checkpoint and the log, and thrown away."""
    folder, copies = tmp_path / "s", tmp_path / "s" / "copies"
    config = CONFIG.replace("[store]", '[backup]\nfolder = "copies"\n[store]', 1)
    tokens = make_folder(folder, config)
    copies.mkdir()
    assert "no copy to restore" in cli("service", "drill", folder, code=2)

    async def work() -> None:
        async with running(folder, tokens=tokens) as client:
            await client.decide("A", "B")
            for day in (1, 2):
                await asyncio.to_thread(cli, "service", "backup", folder, copies / f"2026030{day}T023000Z.db")
                await client.decide("A")

    asyncio.run(work())
    before = sorted(path.name for path in folder.rglob("*"))
    text = cli("service", "drill", folder)
    newest = copies / "20260302T023000Z.db"
    assert f"{newest}: its SHA-256 is right" in text
    assert "restored and verified: 3 entries" in text
    assert "the log here goes on from it with 1 entries" in text
    assert "3 were derived again and are valid" in text
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert "restored and verified: 2 entries" in cli("service", "drill", folder, copies / "20260301T023000Z.db")
    one = (newest.read_bytes().replace(b"order 5", b"order 6", 1), newest.read_bytes())
    newest.write_bytes(one[0])
    assert "its SHA-256 is not the one of" in cli("service", "drill", folder, code=2)
    newest.write_bytes(one[1])
    # A copy of another log is no copy of this one.
    other = tmp_path / "other"
    make_folder(other, config)

    async def elsewhere() -> None:
        async with running(other) as client:
            await client.decide("X", "Y", "Z")

    asyncio.run(elsewhere())
    assert "is not the copy's last one" in cli("service", "drill", other, newest, code=2)


def test_a_token_file_is_its_owners_alone(tmp_path: Path) -> None:
    make_folder(tmp_path / "s")
    place = tmp_path / "agent.token"
    text = cli("service", "token", tmp_path / "s", "job", "--role", "agent", "--plan", "orders", "--out", place)
    secret = place.read_text().strip()
    assert secret.startswith("ucs_")
    assert secret not in text
    assert place.stat().st_mode & 0o777 == 0o600
    assert "job\tagent\tno end\tplan orders" in cli("service", "token", tmp_path / "s")
    assert "a new file" in cli("service", "token", tmp_path / "s", "another", "--out", place, code=2)
    nowhere = tmp_path / "nowhere" / "x.token"
    assert "can be written" in cli("service", "token", tmp_path / "s", "lost", "--out", nowhere, code=2)
    assert "lost" not in cli("service", "token", tmp_path / "s")  # nobody has it
