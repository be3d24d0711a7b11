"""`ucsearch decide` from Parquet to logged rows, as in `python -m bench.decide_bench` but smaller: killed, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.decide_bench import check_log, resumed, run, write_job

pytestmark = pytest.mark.slow

SERIES = 4_000  # four chunks


def test_a_killed_run_resumes_to_the_same_bytes_with_nothing_twice(tmp_path: Path) -> None:
    write_job(tmp_path, SERIES)
    figures = run(tmp_path, "whole")
    assert figures["peak_mb"] < 4096
    kept = resumed(tmp_path, "cut", 0.4, SERIES // 1000)
    assert 1 <= kept < 4
    assert (tmp_path / "cut.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert check_log(tmp_path / "cut.db", SERIES) == check_log(tmp_path / "whole.db", SERIES)
    assert not (tmp_path / "cut.parquet.partial").exists()
    whole, cut = (sorted((tmp_path / f"{name}.db.d").rglob("*.*")) for name in ("whole", "cut"))
    assert [p.name for p in whole] == [p.name for p in cut]
    assert [p.read_bytes() for p in whole if p.is_file()] == [p.read_bytes() for p in cut if p.is_file()]
