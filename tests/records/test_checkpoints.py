"""What a checkpoint vouches for, in logs and in parts of exports; signed notes; Ed25519."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.kit.logged import decide, new_log, tank
from ucsearch.cli.log import log_app
from ucsearch.errors import InputError, RecordError
from ucsearch.records import AuditReader
from ucsearch.records.canonical import canonical, seal
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import entry_digest, next_head
from ucsearch.records.merkle import MerkleTree
from ucsearch.records.notes import Signer, checkpoint_text, make_key
from ucsearch.verify import chain, verify_file
from ucsearch.verify.__main__ import main
from ucsearch.verify.read import GENESIS

ENTRIES = 5
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with five decisions, its export, and a checkpoint."""
    folder = tmp_path_factory.mktemp("log")
    with new_log(folder) as log:
        for n in range(ENTRIES):
            decide(log, level=float(n), series=f"S{n}")
        log.export_jsonl(folder / "all.jsonl")
        log.checkpoint().write(folder / "c.json")
        log.checkpoint(max_marks=0).write(folder / "bare.json")  # only the last head
    return folder


def exported(folder: Path) -> Lines:
    return [json.loads(line) for line in (folder / "all.jsonl").read_bytes().splitlines()]


def seen(tmp_path: Path, lines: Lines, checkpoint: Path | None, **more: Any) -> list[str]:
    path = tmp_path / "part.jsonl"
    path.write_bytes(b"".join(canonical(line) + b"\n" for line in lines))
    return [v.status for v in verify_file(path, tank, checkpoint=checkpoint, **more)]


def other(record: dict[str, Any]) -> dict[str, Any]:
    """A record that is right in itself and was never in the log."""
    return seal({k: v for k, v in record.items() if k != "id"} | {"series": "forged"})


def with_record(line: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    return line | {"record": record, "digest": entry_digest(canonical(record))}


# -------------------------------------------------------------------- three forgeries that were once "valid"


@pytest.mark.parametrize("name", ["c.json", "bare.json"])
def test_a_forged_first_line_with_a_genuine_head(made: Path, tmp_path: Path, name: str) -> None:
    last = exported(made)[-1]
    forged = with_record(last, other(last["record"]))
    assert seen(tmp_path, [last], made / name) == ["valid"]
    assert seen(tmp_path, [forged], made / name) == ["invalid"]
    del forged["previous"]
    assert "valid" not in seen(tmp_path, [forged], made / name)


def test_a_forged_entry_before_a_genuine_one(made: Path, tmp_path: Path) -> None:
    lines = exported(made)
    forged = with_record(lines[1], other(lines[1]["record"]))
    assert seen(tmp_path, [forged, *lines[2:]], made / "c.json")[0] == "invalid"
    # With a head and a previous that fit the forged entry, the next line contradicts it.
    forged["head"] = next_head(forged["previous"], 2, forged["digest"], forged["written_at"])
    found = seen(tmp_path, [forged, *lines[2:]], made / "bare.json")
    assert "invalid" in found
    assert found[-1] != "valid"


def test_a_bare_record_between_genuine_lines(made: Path, tmp_path: Path) -> None:
    lines = exported(made)
    blobs = lines[2]["blobs"]
    bare = other(lines[2]["record"])
    assert seen(tmp_path, [*lines[:2], bare, *lines[2:]], made / "c.json")[2] != "valid"
    # One with nothing to look up, a refusal without a state, would be valid in itself.
    outcome = {"outcome": "HOLD", "action": None, "reason": "invalid_trace", "cause": "invalid_trace"}
    outcome |= {"sentence": "", "pass_kind": "", "release_margin": None, "regret_bound": "inf", "rejected_action": None}
    outcome |= {"fallback_action": None, "fallback_feasible": False, "fallback_cost": None}
    gate = {"settings": lines[0]["record"]["gate"]["settings"], "now": ""}
    refusal = {"schema": "ucsearch.refusal/1", "kind": "refusal", "series": "x", "gate": gate, "outcome": outcome}
    refusal |= {"task": lines[0]["record"]["task"], "versions": lines[0]["record"]["versions"]}
    mixed = [*lines[:2], seal(refusal), *lines[2:]]
    assert seen(tmp_path, mixed, None) == ["valid"] * 6
    assert seen(tmp_path, mixed, made / "c.json") == ["valid", "valid", "weaker", "valid", "valid", "valid"]
    assert blobs


# -------------------------------------------------------------------- what is reached


def test_parts_of_an_export(made: Path, tmp_path: Path) -> None:
    lines = exported(made)
    for lo in range(ENTRIES):
        assert seen(tmp_path, lines[lo:], made / "bare.json") == ["valid"] * (ENTRIES - lo)
        for hi in range(lo + 1, ENTRIES + 1):
            assert seen(tmp_path, lines[lo:hi], None) == ["valid"] * (hi - lo)
            marked = seen(tmp_path, lines[lo:hi], made / "c.json")  # it knows every head
            assert marked == ["valid"] * (hi - lo) + ["invalid"] * (lo == 0 and hi < ENTRIES)
            alone = seen(tmp_path, lines[lo:hi], made / "bare.json")
            if hi < ENTRIES:  # nothing leads to the head that is pinned
                assert "valid" not in alone
            if lo > 0 and hi < ENTRIES:
                assert alone == ["weaker"] * (hi - lo)


def test_what_came_after_the_checkpoint_is_weaker(made: Path, tmp_path: Path) -> None:
    for name in ("log.db", "log.db-wal"):
        if (made / name).exists():
            shutil.copy(made / name, tmp_path / name)
    with new_log(tmp_path) as log:
        decide(log, series="later")
        log.export_jsonl(tmp_path / "out.jsonl")
    for path in ("log.db", "out.jsonl"):
        found = [v.status for v in verify_file(tmp_path / path, tank, checkpoint=made / "c.json")]
        assert found == ["valid"] * ENTRIES + ["weaker"]


def test_a_last_line_that_lies_about_its_number(made: Path, tmp_path: Path) -> None:
    lines = exported(made)[1:3]
    path = tmp_path / "part.jsonl"
    tail = b'{"x":"","seq":5,"written_at":null}\n'  # makes it look as if the pin at 5 were reached
    path.write_bytes(b"".join(canonical(line) + b"\n" for line in lines) + tail)
    found = [v.status for v in verify_file(path, tank, checkpoint=made / "bare.json")]
    assert found == ["weaker", "weaker", "malformed"]


def test_exports_from_and_to(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.jsonl"
    with AuditReader(made / "log.db") as reader:
        assert reader.export_jsonl(out, first=2, last=3) == 2
    assert out.read_bytes().splitlines() == (made / "all.jsonl").read_bytes().splitlines()[1:3]
    with AuditReader(made / "log.db") as reader:
        with pytest.raises(InputError, match="entries: saw 3 to 2"):
            reader.export_jsonl(out, first=3, last=2)
        assert reader.export_jsonl(out, first=9) == 0


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_whatever_is_done_to_an_export_only_what_was_recorded_is_valid(made: Path, tmp_path: Path, seed: int) -> None:
    """Forgers know the format: they recompute digests and heads, drop members, lines and marks, and insert records."""
    rng = random.Random(seed)
    genuine = {line["record"]["id"] for line in exported(made)}
    forgeries = 0
    for _ in range(40):
        lines: Lines = exported(made)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(lines))
            kind, line = rng.randrange(9), dict(lines[at])
            if kind < 4 and "record" in line:
                line = with_record(line, other(line["record"]))
                if kind == 1:
                    line["head"] = next_head(line.get("previous", "0" * 64), at + 1, line["digest"], line["written_at"])
                if kind == 2:
                    line.pop("previous", None)
                lines[at] = line
                if kind == 3:  # and the chain after it
                    for later in range(at, len(lines)):
                        if "record" not in lines[later]:
                            continue
                        one = lines[later] = dict(lines[later])
                        before = lines[later - 1].get("head", "0" * 64) if later else one.get("previous", "0" * 64)
                        one["previous"] = before
                        one["head"] = next_head(before, one["seq"], one["digest"], one["written_at"])
            elif kind == 4 and len(lines) > 1:
                del lines[at]
            elif kind == 5:
                lines.insert(at, lines[at].get("record", lines[at]))
            elif kind == 6 and "record" in line:
                lines[at] = other(line["record"])
            elif kind == 7:
                lines[at].pop("previous", None)
            elif kind == 8 and "record" in line:
                lines[at] = line | {"seq": rng.randrange(1, 8)}
        path = tmp_path / "part.jsonl"
        path.write_bytes(b"".join(canonical(one) + b"\n" for one in lines))
        for name in ("c.json", "bare.json"):
            found = list(verify_file(path, tank, checkpoint=made / name))
            records = {one.get("record", one)["id"] for one in lines}
            forgeries += not records <= genuine
            assert {v.name for v in found if v.status == "valid"} <= genuine
    assert forgeries > 20


# -------------------------------------------------------------------- files


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_files_are_private_and_links_are_refused(made: Path, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with new_log(tmp_path) as log:
            decide(log)
            log.export_jsonl(tmp_path / "out.jsonl")
            log.checkpoint().write(tmp_path / "c.json")
            make_key(tmp_path / "key", "k")
            names = ("log.db", "log.db-wal", "out.jsonl", "c.json", "key", "key.pub")
            assert {oct((tmp_path / name).stat().st_mode & 0o777) for name in names} == {"0o600"}
    finally:
        os.umask(before)
    target = tmp_path / "elsewhere"
    target.write_text("precious")
    (tmp_path / "link").symlink_to(target)
    with AuditReader(made / "log.db") as reader:
        for write in (reader.export_jsonl, reader.checkpoint().write):
            with pytest.raises(RecordError, match="symbolic link"):
                write(tmp_path / "link")
    assert target.read_text() == "precious"
    (tmp_path / "alias.db").symlink_to(tmp_path / "log.db")
    (tmp_path / "new.db").symlink_to(tmp_path / "made.db")
    for name in ("alias.db", "new.db"):
        with pytest.raises(RecordError, match="symbolic link"):
            type(log)(tmp_path / name)
    assert not (tmp_path / "made.db").exists()
    with pytest.raises(RecordError, match="symbolic link"):
        AuditReader(tmp_path / "alias.db")
    for beside in ("-wal", "-shm", "-journal"):
        place = tmp_path / f"log.db{beside}"
        place.unlink(missing_ok=True)
        place.symlink_to(target)
        with pytest.raises(RecordError, match="symbolic link"):
            type(log)(tmp_path / "log.db")
        place.unlink()
    assert target.read_text() == "precious"


# -------------------------------------------------------------------- signed notes


@pytest.fixture(scope="module")
def signed(made: Path) -> Path:
    """The log's folder, with a key and a signed checkpoint."""
    pytest.importorskip("cryptography")
    words = ["checkpoint", str(made / "note"), "--key", str(made / "key"), "-l", str(made / "log.db")]
    result = CliRunner().invoke(log_app, [*words, "--new-key", "example.com/decisions"])
    assert result.exit_code == 0, result.output
    assert (made / "key.pub").read_text().strip() in result.output
    again = CliRunner().invoke(log_app, [*words, "--new-key", "example.com/decisions"])
    assert (again.exit_code, "there is a file already" in again.output) == (2, True)
    return made


def test_a_note_is_what_the_standard_says(signed: Path) -> None:
    text = (signed / "note").read_text(encoding="utf-8")
    origin, size, root, head, empty, signature, end = text.split("\n")
    with AuditReader(signed / "log.db") as reader:
        rows = list(reader)
    assert (origin, size, empty, end) == ("example.com/decisions", "5", "", "")
    assert head == "ucsearch-head " + base64.b64encode(bytes.fromhex(rows[-1].head)).decode()
    leaves = [hashlib.sha256(b"\0" + bytes.fromhex(row.head)).digest() for row in rows]

    def node(parts: list[bytes]) -> bytes:  # RFC 6962, section 2.1, word for word
        if len(parts) == 1:
            return parts[0]
        k = 1
        while k * 2 < len(parts):
            k *= 2
        return hashlib.sha256(b"\1" + node(parts[:k]) + node(parts[k:])).digest()

    assert base64.b64decode(root) == node(leaves)
    dash, name, data = signature.split(" ")
    assert (dash, name) == ("\u2014", origin)
    public = base64.b64decode((signed / "key.pub").read_text().split("+", 2)[2])
    assert public[0] == 1
    assert base64.b64decode(data)[:4] == hashlib.sha256(name.encode() + b"\n" + public).digest()[:4]
    assert (signed / "key.pub").read_text().split("+")[1] == base64.b64decode(data)[:4].hex()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    message = text[: text.index("\n\n") + 1].encode()
    Ed25519PublicKey.from_public_bytes(public[1:]).verify(base64.b64decode(data)[4:], message)


def test_logs_and_exports_under_a_signed_note(signed: Path, tmp_path: Path) -> None:
    note, key = signed / "note", str(signed / "key.pub")
    for path in ("log.db", "all.jsonl"):
        found = [v.status for v in verify_file(signed / path, tank, checkpoint=note, key=key)]
        assert found == ["valid"] * ENTRIES
        unchecked = list(verify_file(signed / path, tank, checkpoint=note))
        assert {v.status for v in unchecked} == {"weaker"}
        assert "signature was not checked" in unchecked[0].message
    lines = exported(signed)
    assert seen(tmp_path, lines[2:], note, key=(signed / "key.pub").read_text()) == ["valid"] * 3
    assert seen(tmp_path, lines[2:4], note, key=key) == ["weaker"] * 2
    assert seen(tmp_path, lines[:4], note, key=key)[-1] == "invalid"
    text = (signed / "key.pub").read_text().strip()
    arguments = [str(signed / "log.db"), "--task", "tests.kit.logged:tank", "--checkpoint", str(note)]
    assert main([*arguments, "--key", key]) == 0
    assert main([*arguments, "--key", text]) == 0
    assert main(arguments) == 1
    for wrong in ("--key=nonsense", "--key=a+b+c"):
        with pytest.raises(SystemExit, match="2"):
            main([*arguments, wrong])


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (("\n5\n", "\n4\n"), "invalid"),
        (("example.com/decisions\n", "example.com/others\n"), "invalid"),
        (("\u2014 example.com/decisions", "\u2014 example.com/others"), "invalid"),
        (("ucsearch-head ", "other-head "), "malformed"),
        (("\n5\n", "\n05\n"), "malformed"),
        (("\n5\n", "\nfive\n"), "malformed"),
        (("\u2014 ", "- "), "malformed"),
        (("\n\n", "\n"), "malformed"),
        (("\n5\n", "\n5\r\n"), "malformed"),
        (("\n5\n", "\n\uff15\n"), "malformed"),  # a digit of another script
        (("\n5\n", "\n+5\n"), "malformed"),
        (("\n5\n", "\n-5\n"), "malformed"),
        (("\n5\n", f"\n{'9' * 30}\n"), "malformed"),
        (("\n5\n", f"\n{'9' * 5000}\n"), "malformed"),
        (("example", "\ufeffexample"), "invalid"),
        (("example", "\u0435xample"), "invalid"),  # a letter of another script that looks the same
        (("decisions\n", "decisions \n"), "invalid"),
        (("decisions\n", "decisions\x00\n"), "malformed"),
        (("decisions\n", "decisions\u2028\n"), "invalid"),
        (("ucsearch-head ", "ucsearch-head AAAA\nucsearch-head "), "malformed"),
        (("\n\n", "\nanother line\n\n"), "invalid"),
        (("\n\n", "\n\n\n"), "invalid"),
    ],
)
def test_an_altered_note(signed: Path, tmp_path: Path, change: tuple[str, str], status: str) -> None:
    note = tmp_path / "note"
    note.write_bytes((signed / "note").read_text(encoding="utf-8").replace(*change, 1).encode())
    (found,) = verify_file(signed / "log.db", tank, checkpoint=note, key=str(signed / "key.pub"))
    assert found.status == status, found


def test_a_truncated_note_vouches_for_nothing(signed: Path, tmp_path: Path) -> None:
    whole = (signed / "note").read_bytes()
    for cut in range(len(whole)):
        (tmp_path / "note").write_bytes(whole[:cut])
        (found,) = verify_file(signed / "log.db", tank, checkpoint=tmp_path / "note", key=str(signed / "key.pub"))
        assert found.status in ("malformed", "invalid"), cut


def test_signatures_of_witnesses_may_stand_beside_ours(signed: Path, tmp_path: Path) -> None:
    """Before it or after it, of other keys, of other kinds and of our name with another hash: ours must be there."""
    text = (signed / "note").read_text(encoding="utf-8")
    message, _, own = text.rpartition("\n\n")
    make_key(tmp_path / "other", "witness.example")
    make_key(tmp_path / "namesake", "example.com/decisions")
    others = [Signer(tmp_path / name).sign(message + "\n").rpartition("\n\n")[2] for name in ("other", "namesake")]
    odd = "\u2014 witness.example " + base64.b64encode(b"abcd\x04" + bytes(72)).decode() + "\n"
    note, key = tmp_path / "note", str(signed / "key.pub")
    for lines, status in (
        ([own, *others, odd], "valid"), ([*others, odd, own], "valid"), ([own, own], "valid"), (others, "invalid"),
        ([odd], "invalid"), ([own.replace("\n", " \n")], "invalid"), ([*others] * 60 + [own], "malformed"),
    ):  # fmt: skip
        note.write_text(message + "\n\n" + "".join(lines), encoding="utf-8")
        found = {v.status for v in verify_file(signed / "log.db", tank, checkpoint=note, key=key)}
        assert found == {status}, lines


def test_an_old_note_and_a_log_that_was_rolled_back(signed: Path, tmp_path: Path) -> None:
    """A note says how far the log had come: the newest one known shows that entries are gone, an older one cannot."""
    lines, key, made = exported(signed), str(signed / "key.pub"), Signer(signed / "key")
    heads = [line["head"] for line in lines]
    old = tmp_path / "old"
    tree = MerkleTree()
    for head in heads[:3]:
        tree.add(bytes.fromhex(head))
    old.write_text(made.sign(checkpoint_text("example.com/decisions", 3, tree.root(), heads[2])), encoding="utf-8")
    assert seen(tmp_path, lines[:3], old, key=key) == ["valid"] * 3
    assert seen(tmp_path, lines, old, key=key) == ["valid"] * 3 + ["weaker"] * 2
    assert seen(tmp_path, lines[:3], signed / "note", key=key)[-1] == "invalid"
    # Of a log that had nothing: it vouches for no entry.
    old.write_text(
        made.sign(checkpoint_text("example.com/decisions", 0, MerkleTree().root(), GENESIS)), encoding="utf-8"
    )
    assert set(seen(tmp_path, lines, old, key=key)) == {"weaker"}


def test_every_flipped_bit_of_a_signature(signed: Path, tmp_path: Path) -> None:
    head, _, tail = (signed / "note").read_text(encoding="utf-8").rpartition(" ")
    data = base64.b64decode(tail)
    rng = random.Random(5)
    for bit in rng.sample(range(8 * len(data)), 12):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        (tmp_path / "note").write_bytes(f"{head} {base64.b64encode(bad).decode()}\n".encode())
        (found,) = verify_file(signed / "log.db", tank, checkpoint=tmp_path / "note", key=str(signed / "key.pub"))
        assert (found.status, found.where) == ("invalid", "checkpoint.signature")


def test_another_key_and_an_unsigned_checkpoint(signed: Path, tmp_path: Path) -> None:
    stranger = make_key(tmp_path / "key", "example.com/decisions")  # the same name
    (found,) = verify_file(signed / "log.db", tank, checkpoint=signed / "note", key=stranger)
    assert found.where == "checkpoint.signature"
    (found,) = verify_file(signed / "log.db", tank, checkpoint=signed / "c.json", key=stranger)
    assert found.status == "malformed"
    assert "without signatures" in found.message
    # A second signature, of a witness, is beside the point for ours and found by its own key.
    both = (signed / "note").read_text(encoding="utf-8")
    text = both[: both.index("\n\n") + 1]
    (tmp_path / "both").write_bytes((both + Signer(tmp_path / "key").sign(text).rpartition("\n\n")[2]).encode())
    for key in (stranger, str(signed / "key.pub")):
        found_all = list(verify_file(signed / "log.db", tank, checkpoint=tmp_path / "both", key=key))
        assert {v.status for v in found_all} == {"valid"}


def test_the_root_is_checked_too(signed: Path, tmp_path: Path) -> None:
    with AuditReader(signed / "log.db") as reader:
        text = checkpoint_text("o", 5, b"\1" * 32, reader.checkpoint().head)
    (tmp_path / "note").write_bytes(Signer(signed / "key").sign(text).encode())
    found = list(verify_file(signed / "log.db", tank, checkpoint=tmp_path / "note", key=str(signed / "key.pub")))
    assert [v.where for v in found] == ["checkpoint"] * 4 + ["entry 5.root"]
    words = ["copy", str(signed / "log.db"), str(tmp_path / "copy.db"), "--checkpoint", str(tmp_path / "note")]
    result = CliRunner().invoke(log_app, words)
    assert result.exit_code == 2
    assert "ALTERED (rechained)" in result.output
    assert not (tmp_path / "copy.db").exists()


def test_a_log_does_not_stand_for_another_under_the_same_key(signed: Path, tmp_path: Path) -> None:
    """One key may sign for several logs; the note says for which."""
    path, note, key = signed / "log.db", tmp_path / "note", str(signed / "key.pub")
    with AuditReader(path) as reader:
        text = checkpoint_text("example.com/other", reader.count(), reader.root(), reader.checkpoint().head)
    note.write_text(Signer(signed / "key").sign(text), encoding="utf-8")

    def status(**more: Any) -> set[str]:
        return {v.status for v in verify_file(path, tank, checkpoint=note, key=key, **more)}

    assert status() == {"weaker"}
    assert status(origin="example.com/other") == {"valid"}
    assert status(origin="example.com/decisions") == {"invalid"}
    with pytest.raises(SystemExit) as ended:
        main([str(path), "--origin", "example.com/other"])
    assert ended.value.code == 2


def test_the_command_confirms_the_note_before_it_replaces_it(signed: Path, tmp_path: Path) -> None:
    note, log = tmp_path / "note", str(signed / "log.db")
    shutil.copy(signed / "note", note)
    command = ["checkpoint", str(note), "-l", log, "--key", str(signed / "key")]
    assert CliRunner().invoke(log_app, command).exit_code == 0
    assert note.read_bytes() == (signed / "note").read_bytes()  # signatures are deterministic
    make_key(tmp_path / "other", "example.com/decisions")
    text = note.read_text(encoding="utf-8")
    forged = Signer(tmp_path / "other").sign(text[: text.index("\n\n") + 1])
    note.write_bytes(forged.encode())
    result = CliRunner().invoke(log_app, command)
    assert (result.exit_code, note.read_bytes()) == (1, forged.encode())
    copy = ["copy", log, str(tmp_path / "copy.db"), "--checkpoint", str(note)]
    assert CliRunner().invoke(log_app, [*copy, "--key", str(signed / "key.pub")]).exit_code == 1
    assert CliRunner().invoke(log_app, [*copy, "--key", str(tmp_path / "other.pub")]).exit_code == 0
    assert "taken as it is" in CliRunner().invoke(log_app, [*copy, "--replace"]).output
    Checkpoint.write(Checkpoint(5, AuditReader(log).checkpoint().head), note)  # from unsigned to signed
    assert CliRunner().invoke(log_app, command).exit_code == 0
    assert note.read_bytes() == (signed / "note").read_bytes()


def test_keys(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    for name in ("", "a b", "a+b", "a\n", "\u2028", 7):
        with pytest.raises(InputError, match="name"):
            make_key(tmp_path / "key", name)  # type: ignore[arg-type]
    public = make_key(tmp_path / "key", "näme")
    assert Signer(tmp_path / "key").verifier == public
    assert chain.read_key(public).name == "näme"
    with pytest.raises(RecordError, match="never replaced"):
        make_key(tmp_path / "key", "other")
    text = (tmp_path / "key").read_text(encoding="utf-8")
    for bad in (text.replace("PRIVATE", "PUBLIC"), text[:-8] + "\n", text.replace("näme", "name"), ""):
        (tmp_path / "key").write_text(bad, encoding="utf-8")
        with pytest.raises(RecordError, match="private key"):
            Signer(tmp_path / "key")
    if os.name == "posix":
        (tmp_path / "key").write_text(text, encoding="utf-8")
        (tmp_path / "key").chmod(0o644)
        with pytest.raises(RecordError, match="others may read"):
            Signer(tmp_path / "key")


def test_trees_of_records_and_verifier_agree() -> None:
    ours, theirs = MerkleTree(), chain.MerkleTree()
    assert ours.root() == theirs.root() == hashlib.sha256(b"").digest()
    for n in range(70):
        ours.add(bytes([n]) * 32)
        theirs.add(bytes([n]) * 32)
        assert ours.root() == theirs.root()


# -------------------------------------------------------------------- Ed25519

# RFC 8032, section 7.1: public key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe"
        "24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302a"
        "eeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed2"
        "8dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("key", "message", "signature"), VECTORS)
def test_signatures_are_those_of_the_standard(key: str, message: str, signature: str) -> None:
    pytest.importorskip("cryptography")
    public, text, signed = bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature)
    assert chain._is_by(public, text, signed)
    assert not chain._is_by(public, text + b"x", signed)
    assert not chain._is_by(public, text, signed[:-1])
    assert not chain._is_by(public[:-1], text, signed)
    # The same number in another form (S + L) must not pass: a signature is one text.
    s = int.from_bytes(signed[32:], "little") + 2**252 + 27742317777372353535851937790883648493
    assert not chain._is_by(public, text, signed[:32] + s.to_bytes(32, "little"))


def test_without_cryptography_a_key_is_of_no_use(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    found = list(verify_file(signed / "log.db", tank, checkpoint=signed / "note", key=str(signed / "key.pub")))
    assert [v.status for v in found] == ["malformed"]
    assert "pip install cryptography" in found[0].message
