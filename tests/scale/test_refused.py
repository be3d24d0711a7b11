"""Files that are no good, a job that was edited, a seal that was cut off: one error with a name, nothing half-done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.scale.kit import write_files
from ucsearch.errors import DataError, InputError, RecordError, UCSearchError
from ucsearch.records import AuditReader
from ucsearch.records.log import AuditLog
from ucsearch.scale.parts import Folder, plan_job, run_part, seal_job, seal_parts
from ucsearch.scale.segments.audit import segments_of, verify_segments


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path / "files", count=8)


def planned(files: Path) -> Folder:
    patterns = str(files / "f-*.parquet"), str(files / "states.parquet")
    return plan_job(files / "job.toml", *patterns, files.parent / "job", parts=2)


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def with_column(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index(name), name, pa.array([value] * table.num_rows))

    return change


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("f-*", with_column("member_3", "4.5"), "f-0.parquet: column member_3: saw string"),
        ("f-*", lambda t: t.drop_columns(["series"]), "f-0.parquet: column series: saw missing"),
        ("states", lambda t: t.drop_columns(["on_hand"]), "states.parquet: column on_hand: saw missing"),
        ("states", lambda t: t.drop_columns(["series"]), "states.parquet: column series: saw missing"),
        ("states", with_column("on_hand", "3"), "states.parquet: column on_hand: saw string"),
        ("states", with_column("on_hand", {"a": 1}), r"states.parquet: column on_hand: saw struct"),
    ],
)
def test_columns_are_looked_at_before_anything_is_planned(
    files: Path, name: str, change: Callable[[pa.Table], pa.Table], told: str
) -> None:
    for path in files.glob(f"{name}.parquet"):
        rewrite(path, change)
    with pytest.raises(InputError, match=told):
        planned(files)
    assert not (files.parent / "job").exists()


@pytest.mark.parametrize("name", ["f-1.parquet", "states.parquet"])
def test_a_damaged_file_is_named_with_the_part(files: Path, name: str) -> None:
    made = planned(files)
    data = bytearray((files / name).read_bytes())
    data[8:200] = bytes(192)  # pages; the footer is as it was
    (files / name).write_bytes(bytes(data))
    with pytest.raises(DataError, match=rf"part-000001.parquet: .*{name}: cannot be read"):
        run_part(made, 1)
    with pytest.raises(RecordError, match="missing"):
        seal_job(made.path)
    assert not made.log.exists()


def test_states_whose_series_are_numbers(files: Path) -> None:
    rewrite(files / "states.parquet", with_column("series", 7))
    with pytest.raises(DataError, match=r"part-000000.parquet: states.parquet: no state"):
        run_part(planned(files), 0)


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b'{"schema": "ucsearch.job/1"}'])
def test_a_job_that_is_none_is_named(files: Path, content: bytes) -> None:
    made = planned(files)
    (made.path / "job.json").write_bytes(content)
    with pytest.raises(UCSearchError, match=r"job\.json: "):
        Folder.read(made.path)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["items"].pop(),
        lambda c: c["items"].append(c["items"][0]),
        lambda c: c["items"].clear(),
        lambda c: c["items"][0].__setitem__(1, -5),
        lambda c: c["items"][0].__setitem__(2, c["items"][0][2] + 4),
        lambda c: c["items"][0].reverse(),
        lambda c: c["footers"].clear(),
        lambda c: c["states"].clear(),
        lambda c: c.update(begin="soon"),
        lambda c: c.update(forecasting=None),
    ],
)
def test_a_job_that_was_edited_is_not_sealed_as_if_it_were_whole(files: Path, change: Callable[[Any], Any]) -> None:
    made = planned(files)
    content = json.loads((made.path / "job.json").read_text())
    change(content)
    (made.path / "job.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match=r"job\.json: not a job"):
        seal_job(made.path)


@pytest.mark.parametrize("number", [-1, 2, 1.0, "0", None, True])
def test_a_part_that_is_no_number(files: Path, number: Any) -> None:
    with pytest.raises(InputError, match="part: saw"):
        run_part(planned(files), number)


@pytest.mark.parametrize("parts", [0, 1.5, "3", None, True, 10**6])
def test_no_number_of_parts(files: Path, parts: Any) -> None:
    patterns = str(files / "f-*.parquet"), str(files / "states.parquet")
    with pytest.raises(InputError, match="parts: saw"):
        plan_job(files / "job.toml", *patterns, files.parent / "job", parts=parts)


def test_rows_without_names_and_a_folder_that_is_none(files: Path) -> None:
    (files.parent / "job").write_text("a file")
    with pytest.raises(InputError, match="a folder for the job"):
        planned(files)
    (files.parent / "job").unlink()
    rewrite(files / "f-1.parquet", lambda t: t.set_column(0, "series", pa.nulls(t.num_rows, pa.string())))
    with pytest.raises(DataError, match=r"part-000001.parquet: no row of this part names a series"):
        run_part(planned(files), 1)


def test_a_seal_that_was_cut_off_is_done_again(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = planned(files)
    for number in range(2):
        run_part(made, number)
    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "append", dies)
        with pytest.raises(KeyboardInterrupt):
            seal_job(made.path)
    first = seal_job(made.path)
    assert seal_job(made.path) == first
    with AuditReader(made.log) as reader:
        assert reader.verify().ok
        assert len(list(segments_of(reader))) == 1
        assert [report.fault for report in verify_segments(reader)] == [""]


def dies(*args: Any, **options: Any) -> Any:
    raise KeyboardInterrupt


def done(files: Path) -> Folder:
    made = planned(files)
    for number in range(2):
        run_part(made, number)
    return made


def another_action(table: pa.Table) -> pa.Table:
    values = pa.array([x + 5.0 for x in table["action"].to_pylist()], pa.float64())
    at = table.schema.get_field_index("action")
    return table.set_column(at, table.schema.field(at), values)


def marked(rows: bytes | None, change: Callable[[pa.Table], pa.Table] = lambda t: t) -> Callable[[pa.Table], pa.Table]:
    def made(table: pa.Table) -> pa.Table:
        marks = {k: v for k, v in table.schema.metadata.items() if k != b"ucsearch.root"}
        return change(table).replace_schema_metadata(marks if rows is None else {**marks, b"ucsearch.root": rows})

    return made


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (another_action, "its columns do not give its digest"),
        (marked(None, lambda t: t.slice(1)), "its rows are not those that were written there"),
        (marked(b" "), "its rows are not those that were written there"),
        (marked(b"\xff"), "its rows are not those that were written there"),
    ],
)
def test_a_part_that_was_edited_is_not_sealed(files: Path, change: Callable[[pa.Table], pa.Table], told: str) -> None:
    made = done(files)
    rewrite(made.segment / "part-000001.parquet", change)
    with pytest.raises(RecordError, match=f"part-000001.parquet.*{told}"):
        seal_job(made.path)
    assert not made.log.exists()


def test_a_second_seal_of_other_parts_is_refused(files: Path) -> None:
    made = done(files)
    seal_job(made.path)
    part = made.segment / "part-000001.parquet"
    whole = part.read_bytes()
    pq.write_table(pq.read_table(part), part)  # the same rows in another file
    with pytest.raises(RecordError, match=r"part-000001.parquet: not as it was sealed"):
        seal_job(made.path)
    with pytest.raises(RecordError, match=r"part-000001.parquet: was sealed as a part of this run"):
        seal_parts(made.job, made.segment, made.log, ["part-000000.parquet"])
    part.write_bytes(whole)
    with AuditReader(made.log) as reader:
        assert next(verify_segments(reader)).ok


def test_a_job_that_was_cut_short_with_its_rows_is_not_sealed(files: Path) -> None:
    made = done(files)
    (made.segment / "part-000001.parquet").unlink()
    content = json.loads((made.path / "job.json").read_text())
    name, first, last = content["items"].pop()
    content["items"].append([name, first, last - 4])
    content["rows"] -= 4
    (made.path / "job.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match=r"job\.json: not a job"):
        seal_job(made.path)
    content["log"] = "a\0b"
    (made.path / "job.json").write_text(json.dumps(content))
    with pytest.raises(RecordError, match="no file has"):
        run_part(made.path, 0)
