"""Large runs as segments: the same decisions, every tampering found and named, proofs, kill and resume."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.kit.counts import sizes
from tests.planner.kit import (
    FORECAST_HEAD,
    NAMES,
    TOML,
    decide,
    forecast_rows,
    make_settings,
    read_csv,
    write_csv,
    write_job,
)
from ucsearch.cli.main import app
from ucsearch.errors import RecordError
from ucsearch.planner.decide import segments
from ucsearch.planner.recorded.explain import explain_series
from ucsearch.records import AuditReader
from ucsearch.scale.segments.audit import segments_of, verify_segments
from ucsearch.scale.segments.files import Sealed, find_row, folder_of, part_name
from ucsearch.scale.segments.reader import SegmentReader, row_proof
from ucsearch.scale.segments.rows import COLUMNS as COLUMN_NAMES
from ucsearch.scale.segments.rows import Batch, digests_of, row_texts
from ucsearch.scale.segments.shared import Shared
from ucsearch.verify import verify_file
from ucsearch.verify.segments import numbers, row_digest

SEGMENTED = "segment_from = 1\n"
DEEP = make_settings(SEGMENTED)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five series in three parts; one of them is refused; forecasts of four steps, three of which are read."""
    folder = tmp_path_factory.mktemp("segment")
    write_job(folder)
    rows = forecast_rows(steps=4)
    rows[5][2] = "x"  # series B
    write_csv(folder / "forecasts.csv", FORECAST_HEAD, rows)
    decide(folder, DEEP)
    decide(folder, make_settings(), out="rows.csv", log_name="rows.db")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def sealed(folder: Path) -> Sealed:
    with AuditReader(folder / "log.db") as reader:
        return next(segments_of(reader))[1]


def segment(folder: Path) -> Path:
    return folder_of(folder / "log.db", sealed(folder).run)


def fault(folder: Path, **options: Any) -> str:
    with AuditReader(folder / "log.db") as reader:
        assert reader.verify().ok
        return next(verify_segments(reader, engine="python", **options)).fault


def test_decisions_are_those_of_entries(made: Path) -> None:
    ours, theirs = read_csv(made / "out.csv"), read_csv(made / "rows.csv")
    assert {row["outcome"] for row in ours} == {"RELEASED", "REFUSED"}
    for a, b in zip(ours, theirs, strict=True):
        assert len(a.pop("certificate")) == 64 == len(b.pop("certificate"))
        assert a == b


def test_one_entry_and_all_rows_derive(made: Path) -> None:
    assert fault(made, sample=-1) == ""
    with AuditReader(made / "log.db") as reader:
        assert reader.count() == 1
        report = next(verify_segments(reader, sample=-1, engine="python"))
    assert (report.rows, report.derived) == (5, 5)
    assert pq.read_table(segment(made) / part_name(1))["shape"].to_pylist() == [[4, 4, 3, 1]] * 2


CLOSED = TOML.replace("risk = 0.25", 'mode = "closed"')
INDEPENDENT = TOML + SEGMENTED + '[forecast]\ncoupling = "independent"\n'


@pytest.mark.parametrize(
    "text", [CLOSED + SEGMENTED, INDEPENDENT, CLOSED + SEGMENTED + '[forecast]\ncoupling = "independent"\n'],
    ids=["closed", "independent", "closed, independent"],
)  # fmt: skip
def test_forecasts_with_a_law(tmp_path: Path, text: str) -> None:
    """Decisions as in entries; every row derives; exported records are valid; an edited law or action is found."""
    write_job(tmp_path)
    rough = [[*row[:2], *(round(x * 1.0371 + 0.013, 3) for x in row[2:])] for row in forecast_rows(steps=9)]
    write_csv(tmp_path / "forecasts.csv", FORECAST_HEAD, rough)
    decide(tmp_path, make_settings(text=text))
    decide(tmp_path, make_settings(text=text.replace(SEGMENTED, "")), out="rows.csv", log_name="rows.db")
    ours, theirs = read_csv(tmp_path / "out.csv"), read_csv(tmp_path / "rows.csv")
    for a, b in zip(ours, theirs, strict=True):
        assert (a.pop("certificate"), b.pop("certificate")) != ("", "")
        assert a == b
    with AuditReader(tmp_path / "log.db") as reader:
        assert reader.count() == 1
        report = next(verify_segments(reader, sample=-1, engine="python"))
    assert (report.fault, report.rows, report.derived) == ("", 5, 5)
    out = tmp_path / "records.jsonl"
    log = str(tmp_path / "log.db")
    done = CliRunner().invoke(app, ["log", "export", str(out), "--log", log, "--segments"])
    assert done.exit_code == 0, done.output
    assert [v.status for v in verify_file(out)] == ["valid"] * 5
    assert '"law"' in out.read_text() or '"independent"' in out.read_text()
    digest = next(row["certificate"] for row in read_csv(tmp_path / "out.csv") if row["series"] == "C")
    assert explain_series(tmp_path / "log.db", "C").text.endswith(f"certificate {digest}")
    part = segment(tmp_path) / part_name(1)
    for change in (
        edited("meta", 1, lambda v: v.replace("independent", "joint")),
        edited("action", 1, lambda v: v + 5),
    ):
        whole = part.read_bytes()
        rewrite(part, change)
        assert f"{part_name(1)}, row 2, series 'D" in fault(tmp_path)
        part.write_bytes(whole)


def test_exported_records_are_valid_for_the_verifier(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "records.jsonl"
    done = CliRunner().invoke(app, ["log", "export", str(out), "--log", str(made / "log.db"), "--segments"])
    assert done.exit_code == 0, done.output
    assert [v.status for v in verify_file(out)] == ["valid"] * 5


@pytest.mark.parametrize("keep", ["all", "reference"])
def test_what_is_kept(tmp_path: Path, keep: str) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "forecasts.csv", FORECAST_HEAD, forecast_rows(steps=4))
    decide(tmp_path, make_settings(f'{SEGMENTED}[log]\nkeep = "{keep}"\n'))
    assert fault(tmp_path) == ""
    table = pq.read_table(segment(tmp_path) / part_name(0))
    assert [row[2] for row in table["shape"].to_pylist()] == [4 if keep == "all" else 0] * 2
    assert table["source"][1].as_py().endswith(":4-8") is (keep == "reference")
    assert len(table["members"][0].as_py()) == (16 if keep == "all" else 0)


# -------------------------------------------------------------------- tampering


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path, compression="zstd")


def edited(column: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        values[row] = value(values[row])
        return table.set_column(table.schema.get_field_index(column), table.schema.field(column),
                                pa.array(values, table.schema.field(column).type))  # fmt: skip

    return change


COLUMNS = {
    "series": lambda v: v + "x", "outcome": lambda v: "HOLD", "action": lambda v: v + 5.0, "bits": lambda v: v ^ 1,
    "state": lambda v: [v[0] + 1.0, *v[1:]], "claims": lambda v: [0.0, *v[1:]], "paths": lambda v: [v[0] + 1, *v[1:]],
    "meta": lambda v: v.replace("joint", "comonotone"), "members": lambda v: [v[0] + 1.0, *v[1:]],
}  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_an_edited_cell_is_found_and_its_row_named(folder: Path, column: str) -> None:
    rewrite(segment(folder) / part_name(1), edited(column, 1, COLUMNS[column]))
    assert f"{part_name(1)}, row 2, series 'D" in fault(folder)


def test_a_dropped_doubled_or_swapped_row(folder: Path) -> None:
    part = segment(folder) / part_name(1)
    whole = part.read_bytes()
    rewrite(part, lambda t: pa.concat_tables([t, t.slice(1, 1)]))
    assert f"{part_name(1)}, row 3, series 'D': the series is in {part_name(1)} too" in fault(folder)
    for change in (lambda t: t.slice(0, 1), lambda t: t.take([1, 0]), lambda t: t):
        part.write_bytes(whole)
        rewrite(part, change)
        assert fault(folder).endswith(f"{part_name(1)}: not the file that was sealed")


def test_a_dropped_doubled_added_or_swapped_part(folder: Path) -> None:
    place = segment(folder)
    first, second = place / part_name(0), place / part_name(1)
    data = second.read_bytes()
    second.unlink()
    assert fault(folder).endswith(f"{part_name(1)}: missing")
    second.write_bytes(first.read_bytes())
    assert f"{part_name(1)}, row 1, series 'A': the series is in {part_name(0)} too" in fault(folder)
    first.write_bytes(data)
    assert f"{part_name(0)}: not the file that was sealed" in fault(folder)
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    assert fault(folder) == ""
    (place / part_name(7)).write_bytes(data)
    assert f"{part_name(7)}: a part that was not sealed" in fault(folder)


def test_a_row_with_its_digest_made_again(folder: Path) -> None:
    place = segment(folder)
    part, shared = place / part_name(1), Shared.read(place / "shared.json")
    rewrite(part, edited("action", 1, COLUMNS["action"]))
    found = find_row(place, "D")
    assert found is not None
    digest = digests_of(found.batch, shared.hex)[found.row]
    rewrite(part, edited("digest", 1, lambda v: digest))
    assert fault(folder).endswith(f"{part_name(1)}: not the file that was sealed")
    assert f"{part_name(1)}, row 2, series 'D': column action is not what its inputs give" in fault(folder, sample=-1)
    with pytest.raises(RecordError, match="not the row that was sealed"):
        row_proof(place, sealed(folder), "D")


def test_the_verifier_reads_the_files_by_its_own_code(folder: Path) -> None:
    """Without Arrow: the SHA-256 of every file that the entry names."""
    (told,) = verify_file(folder / "log.db")
    assert (told.status, "the files are those sealed" in told.message) == ("weaker", True)
    place = segment(folder)
    for name, where in (("shared.json", "segment.shared"), (part_name(2), "segment.parts[2].sha256")):
        whole = (place / name).read_bytes()
        for content in (whole + b" ", None):
            (place / name).unlink()
            if content is not None:
                (place / name).write_bytes(content)
            (told,) = verify_file(folder / "log.db")
            assert (told.status, told.where) == ("invalid", where)
            (place / name).write_bytes(whole)
    shutil.rmtree(folder / "log.db.d")
    (told,) = verify_file(folder / "log.db")
    assert (told.status, "files that were not given" in told.message) == ("weaker", True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("shared.json", lambda d: d.replace(b'"depth":3', b'"depth":4')),
        (part_name(2), lambda d: d[:-9]),
    ],
)
def test_an_edited_file_is_named(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = segment(folder) / name
    before = path.read_bytes()
    path.write_bytes(change(before))
    assert path.read_bytes() != before
    assert name in fault(folder)
    done = CliRunner().invoke(app, ["verify", str(folder / "log.db")])
    assert done.exit_code == 1
    assert name in done.stderr
    path.unlink()
    assert name in fault(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["shared.json", part_name(1)])
def test_a_pipe_or_a_hole_in_a_file_s_place_is_named(folder: Path, name: str) -> None:
    """Nobody ever writes into the pipe, and the hole is longer than memory."""
    path = segment(folder) / name
    path.unlink()
    os.mkfifo(path)
    assert name in fault(folder)
    if name != "shared.json":  # which a proof does not need
        with pytest.raises(RecordError, match="regular file"):
            row_proof(segment(folder), sealed(folder), "C")
    path.unlink()
    path.touch()
    os.truncate(path, 2**40)
    assert name in fault(folder)


def test_what_arrow_says_of_a_damaged_part_steers_no_terminal(folder: Path) -> None:
    path = segment(folder) / part_name(0)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[-8:-4], "little")
    said = set()
    for at in range(len(data) - 8 - size, len(data) - 8):  # the footer
        old, data[at] = data[at], 0x0F  # no type of Thrift's
        path.write_bytes(data)
        data[at] = old
        done = CliRunner().invoke(app, ["verify", str(folder / "log.db")])
        assert done.output.replace("\n", "").isprintable()
        said.add(done.exit_code)
        if at - (len(data) - 8 - size) > 40:
            break
    assert said == {1}


@pytest.mark.parametrize("told", [b"[1,2]", b'"text"', b"7", b"null", b'{"python":[]}', b"\xff"])
def test_a_part_that_says_anything_of_its_worker_is_named(folder: Path, told: bytes) -> None:
    part = segment(folder) / part_name(0)
    rewrite(part, lambda t: t.replace_schema_metadata({**t.schema.metadata, b"ucsearch.worker": told}))
    assert f"{part_name(0)}, worker: " in fault(folder)


@pytest.mark.parametrize("column", ["paths", "claims", "actions"])
def test_an_empty_place_within_a_list_is_no_number(folder: Path, column: str) -> None:
    """It would be read as 0 or NaN."""
    rewrite(segment(folder) / part_name(0), edited(column, 0, lambda v: [None, *v[1:]]))
    assert f"{part_name(0)}, column {column}: saw an empty place" in fault(folder)


def test_a_missing_column_or_another_type_is_named(folder: Path) -> None:
    part = segment(folder) / part_name(0)
    whole = part.read_bytes()
    rewrite(part, lambda t: t.drop_columns(["claims"]))
    assert f"{part_name(0)}, column claims: missing" in fault(folder)
    part.write_bytes(whole)
    rewrite(part, lambda t: t.set_column(t.schema.get_field_index("action"), "action", t["action"].cast(pa.float32())))
    assert f"{part_name(0)}, column action: saw float, expected double" in fault(folder)


# -------------------------------------------------------------------- proofs, words, overrides


@pytest.mark.parametrize("bombs", sizes((1 << 26, 1_000), (1 << 27, 5_000)))
def test_a_part_that_would_fill_the_memory_is_not_read(folder: Path, bombs: tuple[int, int]) -> None:
    size, times = bombs
    part = segment(folder) / part_name(1)
    whole = pq.read_table(part)
    bomb = whole.append_column("more", pa.array([bytes(size)] * len(whole), pa.large_binary()))
    pq.write_table(bomb, part, compression="zstd")
    before = pa.total_allocated_bytes()
    del bomb
    assert "more than any part's" in fault(folder)
    assert pa.total_allocated_bytes() <= before
    pq.write_table(pa.concat_tables([whole] * times), part, compression="zstd")
    assert "fewer than their digests take" in fault(folder)


def test_row_digests_in_two_implementations(made: Path) -> None:
    place = segment(made)
    shared = Shared.read(place / "shared.json").hex
    for name in NAMES:
        found = find_row(place, name)
        assert found is not None
        row = list(row_texts(found.batch))[found.row]
        assert row_digest(row, shared) == found.digest
        for column in ("action", "state", "actions", "members"):
            seen = np.atleast_1d(found.batch.numbers[column][found.row])
            assert np.array(numbers(row, column)).tobytes() == seen.tobytes()


def test_the_published_vector() -> None:
    """docs/how-to/scale.md has the same row and digest."""
    row = dict.fromkeys(COLUMN_NAMES, "") | {"series": "A", "outcome": "HOLD", "action": "AAAAAAAA+H8="}
    row |= {"bits": "AQAAAAAAAAA=", "state": "AAAAAAAAAAAAAAAAAAAEQA==", "paths": "//8CAA=="}
    wanted = "1b652f0442988aee61958f257390221ee76c6dba70c1ec95de846e887a144233"
    assert row_digest(row, "00" * 32).hex() == wanted
    texts = {name: [row[name]] for name, kind in COLUMN_NAMES.items() if kind == "text"}
    own: dict[str, Any] = {
        name: np.zeros((1, 0), kind.removesuffix("[]")) for name, kind in COLUMN_NAMES.items() if kind != "text"
    }
    own |= {"action": np.array([np.nan]), "bits": np.array([1]), "state": np.array([[0.0, 2.5]])}
    own |= {"paths": np.array([[-1, 2]], "i2")}
    assert digests_of(Batch(texts, own), "00" * 32)[0].hex() == wanted


def test_explain_and_override_a_row(folder: Path) -> None:
    log = folder / "log.db"
    told = explain_series(log, "C").text
    digest = next(row["certificate"] for row in read_csv(folder / "out.csv") if row["series"] == "C")
    assert told.endswith(f"certificate {digest}")
    assert explain_series(log, digest[:8]).text == told
    runner = CliRunner()
    words = ["--who", "Ann", "--why", "a fair"]
    done = runner.invoke(app, ["override", "C", "10", "--set", f"files.log={log}", *words])
    assert done.exit_code == 0, done.output
    assert runner.invoke(app, ["override", "C", "-5", "--set", f"files.log={log}", *words]).exit_code == 2
    assert "Overridden by Ann: 10 instead" in explain_series(log, "C").text
    assert "Overridden" not in explain_series(log, "D").text
    assert fault(folder) == ""
    assert [v.status for v in verify_file(log)] == ["weaker", "valid"]
    with SegmentReader(log) as reader:
        record = reader.list(kind="override")[0].record
    assert record["proof"]["row"]["series"] == "C"


def test_explain_a_refusal(made: Path) -> None:
    assert "The forecast was refused" in explain_series(made / "log.db", "B").text


# -------------------------------------------------------------------- cut off


class Cut(BaseException):
    """As if the process had died there."""


def dying(name: str, count: int, after: bool) -> Callable[..., Any]:
    """The function of that name, which dies at its call number `count`, before or after its work."""
    real, calls = getattr(segments, name), []

    def cut(*args: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) == count and not after:
            raise Cut
        done = real(*args, **options)
        if len(calls) == count:
            raise Cut
        return done

    return cut


@pytest.mark.parametrize(
    ("name", "count", "after"),
    [
        ("write_part", 1, False), ("write_part", 2, True), ("seal_folder", 1, False), ("seal_folder", 1, True),
        ("segment_record", 1, True),
    ],
)  # fmt: skip
def test_a_run_that_was_cut_off_anywhere_ends_in_the_same_bytes(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, count: int, after: bool
) -> None:
    for file in ("forecasts.csv", "states.csv"):
        shutil.copy(made / file, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(segments, name, dying(name, count, after))
        with pytest.raises(Cut):
            decide(tmp_path, DEEP)
    assert not (tmp_path / "out.csv").exists()
    decide(tmp_path, DEEP)
    ours, theirs = segment(tmp_path), segment(made)
    assert {p.name for p in ours.iterdir()} == {p.name for p in theirs.iterdir()}
    for path in ours.iterdir():
        assert path.read_bytes() == (theirs / path.name).read_bytes(), path.name
    out = (tmp_path / "out.csv").read_text().replace(str(tmp_path), str(made))
    assert out == (made / "out.csv").read_text()
    with AuditReader(tmp_path / "log.db") as reader:
        assert reader.count() == 1


def test_the_monitor_looks_at_rows_as_at_entries(made: Path, tmp_path: Path) -> None:
    """The same outcomes against both logs, by count and by decision; a forecast that is kept elsewhere is told."""
    from ucsearch.planner.monitor.job import run_watch

    numbered = tmp_path / "outcomes.csv"
    write_csv(numbered, ["series", "step", "value"], [[name, 1, 4.0 + i] for i, name in enumerate(NAMES)])
    ours, theirs = (run_watch(made / log, numbered) for log in ("log.db", "rows.db"))
    assert ours.outcomes == theirs.outcomes == len(NAMES) - 1  # one was refused
    assert [(s.series, s.status, s.members) for s in ours.series] == [
        (s.series, s.status, s.members) for s in theirs.series
    ]
    named = tmp_path / "named.csv"
    lines = [[row["certificate"], 1, 4.0] for row in read_csv(made / "out.csv")]
    write_csv(named, ["decision", "step", "value"], lines)
    assert run_watch(made / "log.db", named).outcomes == len(NAMES) - 1
    edited = Path(shutil.copytree(made, tmp_path / "copy"))
    part = segment(edited) / part_name(0)
    table = pq.read_table(part)
    at = table.schema.get_field_index("series")
    pq.write_table(table.set_column(at, "series", pa.array(["X"] + table.column(at).to_pylist()[1:])), part)
    with pytest.raises(RecordError, match="do not give its digest"):
        run_watch(edited / "log.db", numbered)
