"""One Arrow function and jobs of parts: the same rows however the series are cut, and what is refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.kit.counts import sizes
from tests.scale.kit import COUNT, TOML, batch, digests, sealed_digests, write_files
from ucsearch.cli.main import app
from ucsearch.errors import DataError, InputError, RecordError
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.settings import load_settings
from ucsearch.records import AuditReader
from ucsearch.scale import Job, decide_batch
from ucsearch.scale import job as job_module
from ucsearch.scale import parts as parts_of_jobs
from ucsearch.scale.backends import run_parts
from ucsearch.scale.parts import Folder, plan_job, run_part, seal_job
from ucsearch.scale.segments import files as segment_files
from ucsearch.scale.segments.audit import segments_of, verify_segments
from ucsearch.scale.segments.files import folder_of, part_name

JOB = Job.of(TOML.encode())


def same(ours: pa.Table, theirs: pa.Table) -> bool:
    """NaN equals NaN here."""
    return ours.schema == theirs.schema and repr(ours.to_pylist()) == repr(theirs.to_pylist())


@pytest.fixture(scope="module")
def whole() -> pa.Table:
    return decide_batch(batch(), JOB)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def plain(files: Path) -> dict[str, bytes]:
    """Digests of the rows that `ucsearch decide` seals."""
    pq.write_table(pa.concat_tables([pq.read_table(files / f"f-{k}.parquet") for k in (0, 1)]), files / "all.parquet")
    run_decide(load_settings(files / "job.toml"), files / "all.parquet", files / "states.parquet", files / "out.csv",
               files / "plain.db")  # fmt: skip
    with AuditReader(files / "plain.db") as reader:
        sealed = next(segments_of(reader))[1]
    return sealed_digests(folder_of(files / "plain.db", sealed.run), sealed)


def planned(files: Path, folder: Path, parts: int = 4) -> Folder:
    patterns = str(files / "f-*.parquet"), str(files / "states.parquet")
    return plan_job(files / "job.toml", *patterns, folder, parts=parts)


# -------------------------------------------------------------------- one function


def test_rows_depend_on_no_batch_and_no_order(whole: pa.Table) -> None:
    assert whole.num_rows == COUNT
    assert len(set(whole["task"].to_pylist())) == 2  # two lead times
    for size in (1, 7, 31):
        parts = [decide_batch(batch().slice(lo, size), JOB) for lo in range(0, COUNT, size)]
        assert same(pa.concat_tables(parts), whole)
    backwards = decide_batch(batch().take(list(range(COUNT))[::-1]), JOB)
    assert digests(backwards) == digests(whole)


def test_a_batch_gives_what_files_give(whole: pa.Table, plain: dict[str, bytes]) -> None:
    assert digests(whole) == plain


def test_batches_without_rows_and_record_batches(whole: pa.Table) -> None:
    assert decide_batch(batch().slice(0, 0), JOB).schema == whole.schema
    assert same(decide_batch(batch().to_batches()[0], JOB), whole)


def test_a_series_that_cannot_be_used_is_a_row() -> None:
    table = batch().slice(0, 3)
    members = table["members"].to_pylist()
    members[1][0][1] = float("nan")
    found = decide_batch(table.set_column(1, "members", pa.array(members)), JOB)
    assert found["cause"].to_pylist()[1] == "invalid_trace"
    assert "saw nan at step 2" in found["detail"][1].as_py()
    assert found["outcome"].to_pylist()[0] == "RELEASED"


def test_mean_and_quantile_forecasts() -> None:
    table = batch().slice(0, 4).drop_columns(["members"])
    steps = [[5.0, 6.0, 7.0]] * 4
    mean = table.append_column("mean", [steps]).append_column("std", [[[1.0, 2.0, 1.0]] * 4])
    assert decide_batch(mean, JOB)["shape"].to_pylist()[0] == [9, 3, 2, 1]
    quantiles = table.append_column("q0.1", [[[3.0] * 3] * 4]).append_column("q0.9", [[[8.0] * 3] * 4])
    assert set(decide_batch(quantiles, JOB)["outcome"].to_pylist()) <= {"RELEASED", "FALLBACK"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda t: t.drop_columns(["series"]), "column series"),
        (lambda t: t.drop_columns(["on_hand"]), "column on_hand"),
        (lambda t: t.drop_columns(["members"]), "column members"),
        (lambda t: t.set_column(0, "series", pa.array(range(COUNT))), "column series"),
        (lambda t: t.set_column(1, "members", pa.array([["a"]] * COUNT)), "column members"),
        (lambda t: t.set_column(1, "members", pa.array([1.0] * COUNT)), "column members"),
        (lambda t: t.set_column(1, "members", pa.array([[1.0]] * COUNT)), "column members"),
        (lambda t: t.set_column(2, "on_hand", pa.array([True] * COUNT)), "column on_hand"),
        (lambda t: t.set_column(3, "open_orders", pa.array([["x"]] * COUNT)), "column open_orders"),
        (lambda t: pa.concat_tables([t, t.slice(0, 1)]), "column series"),
        (lambda t: pa.table([*t.columns, t["on_hand"]], names=[*t.column_names, "on_hand"]), "column on_hand"),
        (lambda t: t.set_column(0, "series", pa.array(["a", " a", *t["series"].to_pylist()[2:]])), "column series"),
        (lambda t: t.to_pydict(), "table"),
        (lambda t: None, "table"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_column(change: Any, field: str) -> None:
    with pytest.raises(InputError) as refused:
        decide_batch(change(batch()), JOB)
    assert refused.value.field == field


@pytest.mark.parametrize("job", [None, TOML, {"toml": TOML}])
def test_a_job_that_is_none_is_refused(job: Any) -> None:
    with pytest.raises(InputError, match="job: saw"):
        decide_batch(batch(), job)
    with pytest.raises(InputError, match="job now: saw 'yesterday'"):
        decide_batch(batch(), replace(JOB, now="yesterday"))


def test_blanks_around_a_name_are_nothing(files: Path, tmp_path: Path, whole: pa.Table) -> None:
    """In a batch, where a name with them lost its state and got a second row, and in states of a job of parts."""
    padded = batch().set_column(0, "series", pa.array([f" {x}\t" for x in batch()["series"].to_pylist()]))
    assert decide_batch(padded, JOB)["digest"].to_pylist() == whole["digest"].to_pylist()
    own = tmp_path / "own"
    shutil.copytree(files, own)
    states = pq.read_table(own / "states.parquet")
    names = pa.array([f" {x} " for x in states["series"].to_pylist()])
    pq.write_table(states.set_column(0, "series", names), own / "states.parquet", row_group_size=16)
    given = str(own / "f-*.parquet"), str(own / "states.parquet")
    made = plan_job(own / "job.toml", *given, tmp_path / "job", parts=3)
    rows = [pq.read_table(run_part(made, k), columns=["digest"])["digest"].to_pylist() for k in range(len(made.items))]
    assert sorted(x for part in rows for x in part) == sorted(whole["digest"].to_pylist())


def test_a_worker_that_differs_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="settings digest"):
        decide_batch(batch(), replace(JOB, digest="0" * 64))
    other = replace(JOB, shared="0" * 64)
    with pytest.raises(InputError, match="worker node-7"):
        decide_batch(batch(), other, worker="node-7")
    with pytest.raises(InputError, match="recalibrate"):
        Job.of((TOML + '[forecast]\nrecalibrate = "paths"\nseason = 7\n').encode())


def test_actions_that_are_tuples_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "pairs.py").write_text(
        "from typing import NamedTuple\n"
        "import ucsearch as uc\n"
        "class S(NamedTuple):\n"
        "    stock: float\n"
        "PAIRS = uc.Task(name='pairs', actions=[(0.0, 0.0), (1.0, 2.0)], state=S, fallback=lambda s, p: (0.0, 0.0),\n"
        "    feasible=lambda s, a, p: True, step=lambda s, a, y, p: S(s.stock + a[0] + a[1] - y),\n"
        "    reward=lambda s, a, y, p: -a[0])\n"
    )
    text = "[task]\nname = 'own'\nobject = 'pairs.py:PAIRS'\n[policy]\nname = 'exact'\ndepth = 2\n"
    (tmp_path / "job.toml").write_text(text)
    with pytest.raises(InputError, match=r"job\.toml: task: saw actions that are tuples"):
        Job.read(tmp_path / "job.toml")


def test_closed_loop_rows_depend_on_no_batch() -> None:
    """The lattice of a series, which is part of its trace's meta, is its own."""
    closed = Job.of(TOML.replace("risk = 0.25\n", 'mode = "closed"\n').encode())
    table = batch().slice(0, 6)
    together = decide_batch(table, closed)
    assert all('"law"' in meta for meta in together["meta"].to_pylist())
    assert same(together, pa.concat_tables([decide_batch(table.slice(k, 2), closed) for k in (0, 2, 4)]))


# -------------------------------------------------------------------- jobs of parts


@pytest.mark.parametrize("parts", [1, 4, 23])
def test_every_partitioning_has_the_plain_rows(
    files: Path, plain: dict[str, bytes], tmp_path: Path, parts: int
) -> None:
    made = planned(files, tmp_path / "job", parts)
    for number in reversed(range(len(made.items))):
        run_part(tmp_path / "job", number)
    sealed = seal_job(tmp_path / "job", out=tmp_path / "out.parquet")
    assert (sealed.count, sealed_digests(made.segment, sealed)) == (COUNT, plain)
    assert pq.read_table(tmp_path / "out.parquet").num_rows == COUNT
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 1  # not one for each part: bytes would differ
    with AuditReader(made.log) as reader:
        assert reader.verify().ok
        assert [r.fault for r in verify_segments(reader, sample=1, engine="python")] == [""]
    assert seal_job(tmp_path / "job") == sealed  # again: the same entry
    with AuditReader(made.log) as reader:
        assert reader.count() == 1


def test_the_table_of_decisions_has_the_same_bytes_for_every_partitioning(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_of_jobs, "_OUT_ROWS", 5)
    for name, count in (("a", 2), ("b", 5)):
        made = planned(files, tmp_path / name, count)
        for number in range(len(made.items)):
            run_part(made, number)
        seal_job(tmp_path / name, out=tmp_path / f"{name}.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    groups = pq.ParquetFile(tmp_path / "a.parquet").metadata
    lengths = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
    assert sum(lengths) == COUNT
    assert set(lengths[:-1]) == {5}


def test_a_part_twice_at_once_gives_the_same_bytes(files: Path, tmp_path: Path) -> None:
    made = planned(files, tmp_path / "job")
    first = run_part(made, 1).read_bytes()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run_part(made, 1, again=True), range(4)))
    assert (made.segment / part_name(1)).read_bytes() == first
    assert [p.name for p in made.segment.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize("processes", sizes(1, 2))
def test_processes_one_of_them_killed(files: Path, plain: dict[str, bytes], tmp_path: Path, processes: int) -> None:
    """A worker dies with a part half done; the others go on, and the job ends whole."""
    made = planned(files, tmp_path / "job", 6)
    command = [sys.executable, "-c", "from ucsearch.cli import main; main()", "job", "run", str(tmp_path / "job")]
    victim = subprocess.Popen([*command, "--workers", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True)  # fmt: skip
    while victim.poll() is None and not list(made.segment.glob("part-*")):
        time.sleep(0.01)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    with pytest.raises(RecordError, match=r"part-0000\d\d.parquet: missing") if victim.returncode else open(os.devnull):
        seal_job(tmp_path / "job")
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        assert len(run_parts(tmp_path / "job", pool)) == 6
    sealed = seal_job(tmp_path / "job")
    assert (sealed.count, sealed_digests(made.segment, sealed)) == (COUNT, plain)


def test_the_commands(files: Path, tmp_path: Path) -> None:
    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["job", *words])
        assert done.exit_code == code, done.output
        return done.output

    place = str(tmp_path / "job")
    options = ["--forecasts", str(files / "f-*.parquet"), "--states", str(files / "states.parquet"), "--parts", "2"]
    assert "2 parts planned" in run("plan", place, "-c", str(files / "job.toml"), *options)
    run("run", place, "--part", "0")
    assert "part-000001.parquet: missing" in run("seal", place, code=2)
    run("run", place, "--part", "1")
    assert f"{COUNT} rows in 2 parts, run {Folder.read(place).run}" in run("seal", place)
    assert "part: saw 2" in run("run", place, "--part", "2", code=2)
    other = [*options[:-1], "3"]
    assert "another job" in run("plan", place, "-c", str(files / "job.toml"), *other, code=2)


# -------------------------------------------------------------------- what is refused before anything is sealed


def sealed_fault(made: Folder) -> str:
    with pytest.raises(RecordError) as refused:
        seal_job(made.path)
    assert not made.log.exists()
    return str(refused.value)


@pytest.fixture
def job(files: Path, tmp_path: Path) -> Folder:
    made = planned(files, tmp_path / "job", 2)
    for number in (0, 1):
        run_part(made, number)
    return made


def changed(path: Path, change: Any, **marks: bytes) -> None:
    table = pq.read_table(path)
    kept = {**(table.schema.metadata or {}), **{k.replace("_", ".").encode(): v for k, v in marks.items()}}
    pq.write_table(change(table).replace_schema_metadata(kept), path)


def test_a_missing_column(job: Folder) -> None:
    changed(job.segment / part_name(1), lambda t: t.drop_columns(["digest"]))
    assert sealed_fault(job) == "part-000001.parquet, column digest: missing"


def test_another_type(job: Folder) -> None:
    changed(
        job.segment / part_name(1),
        lambda t: t.set_column(t.schema.get_field_index("action"), "action", t["action"].cast(pa.float32())),
    )
    assert sealed_fault(job) == "part-000001.parquet, column action: saw float, expected double"


def nullable(name: str) -> Any:
    def change(table: pa.Table) -> pa.Table:
        column = table[name]
        return table.set_column(
            table.schema.get_field_index(name), name, pa.array([None, *column.to_pylist()[1:]], column.type)
        )

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t.slice(1), "rows are not those"),
        (lambda t: t.slice(0, 0), "rows are not those"),
        (lambda t: t.take(list(range(t.num_rows))[::-1]), "rows are not those"),
        (lambda t: t.append_column("action", t["action"]), "column action: there twice"),
        (nullable("action"), "column action: saw an empty cell"),
        (nullable("state"), "column state: saw an empty cell"),
        (nullable("series"), "column series: saw an empty cell"),
        (nullable("digest"), "column digest: saw an empty cell"),
    ],
)
def test_a_part_that_was_touched_before_the_seal(job: Folder, change: Any, told: str) -> None:
    changed(job.segment / part_name(1), change)
    said = sealed_fault(job)
    assert said.startswith("part-000001.parquet")
    assert told in said


def test_other_settings(job: Folder) -> None:
    changed(job.segment / part_name(0), lambda t: t, ucsearch_shared=b"0" * 64)
    assert "part-000000.parquet, settings: digest '000000000000'" in sealed_fault(job)


def test_another_version_or_platform(job: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    own = job_module.worker()
    with monkeypatch.context() as patch:
        patch.setattr(segment_files, "worker", lambda: own | {"numpy": "1.0.0"})
        run_part(job, 1, again=True)
    assert "part-000001.parquet, worker: numpy is '1.0.0', expected" in sealed_fault(job)
    with monkeypatch.context() as patch:
        patch.setattr("ucsearch.planner.decide.segments.worker", lambda: own | {"platform": "Plan9-mips"})
        with pytest.raises(InputError, match=r"worker of part-000000\.parquet: saw .*, expected the settings"):
            run_part(Folder.read(job.path), 0)


def test_a_series_in_two_parts(job: Folder) -> None:
    first = pq.read_table(job.segment / part_name(0))
    name = first["series"][0].as_py()
    changed(job.segment / part_name(1), lambda t: pa.concat_tables([t, first.slice(0, 1)]))
    assert f"series {name!r}: the series is in part-000000.parquet too" in sealed_fault(job)


def test_a_part_that_is_no_file_of_parquet(job: Folder) -> None:
    (job.segment / part_name(1)).write_bytes(b"PAR1")
    assert sealed_fault(job).startswith("part-000001.parquet: cannot be read as a part")


def test_files_that_changed_or_differ(files: Path, tmp_path: Path) -> None:
    own = write_files(tmp_path / "own")
    made = planned(own, tmp_path / "job", 2)
    table = pq.read_table(own / "f-1.parquet")
    pq.write_table(table.slice(0, 8), own / "f-1.parquet")
    with pytest.raises(DataError, match=r"part-000001\.parquet: .*f-1\.parquet was written again"):
        run_part(made, 1)
    pq.write_table(table.drop_columns(["member_5"]), own / "f-1.parquet")
    with pytest.raises(InputError, match=r"f-1\.parquet: column member_5: saw missing"):
        planned(own, tmp_path / "other", 2)
    pq.write_table(table.set_column(2, "member_1", table["member_1"].cast(pa.string())), own / "f-1.parquet")
    with pytest.raises(InputError, match=r"f-1\.parquet: column member_1: saw string"):
        planned(own, tmp_path / "other", 2)
    assert folder_of(made.log, made.run) == made.segment


def test_kernels_are_compiled_into_a_folder_to_ship(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship = tmp_path / "ship"
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(ship))
    asked: list[int] = []

    def noted(task: Any, policy: Any, *, state: Any) -> tuple[str, ...]:
        asked.append(len(state.pipeline))
        return ("search",)

    monkeypatch.setattr("ucsearch.scale.job.warm", noted)
    words = ["cache", "-c", str(files / "job.toml")]
    assert CliRunner().invoke(app, words).stdout == f"ready: lead_time_inventory 0: search\nkernels in {ship}\n"
    assert CliRunner().invoke(app, [*words, "--set", "files.states=states.parquet"]).stdout.count("ready") == 2
    assert asked == [1, 2, 1]
