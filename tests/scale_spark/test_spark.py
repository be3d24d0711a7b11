"""Spark's local cluster, two executors of their own process: the plain run's rows, also when one is killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pyspark = pytest.importorskip("pyspark")

from tests.scale.kit import COUNT, TOML, batch, digests, sealed_digests  # noqa: E402
from tests.scale.processes import KilledOnce, descendants  # noqa: E402
from ucsearch.errors import RecordError  # noqa: E402
from ucsearch.scale import Job, decide_batch  # noqa: E402
from ucsearch.scale.backends import write_spark_parts  # noqa: E402
from ucsearch.scale.parts import begin_parts, seal_parts  # noqa: E402
from ucsearch.scale.segments.audit import verify_segment  # noqa: E402

JOB = Job.of(TOML.encode())


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable,
    }  # fmt: skip
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.executor.memory", "1g").config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false").config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "4").getOrCreate()
    )  # fmt: skip
    yield made
    made.stop()


@pytest.fixture(scope="module")
def plain() -> dict[str, bytes]:
    return digests(decide_batch(batch(), JOB))


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_every_partitioning_has_the_plain_rows(
    spark: Any, plain: dict[str, bytes], tmp_path: Path, partitions: int
) -> None:
    frame = spark.createDataFrame(batch()).repartition(partitions)
    folder = begin_parts(JOB, tmp_path / "log.db", ["kit"])
    parts = [row["part"] for row in write_spark_parts(frame, JOB, folder).collect()]
    sealed = seal_parts(JOB, folder, tmp_path / "log.db", parts)
    assert (sealed.count, sealed_digests(folder, sealed)) == (COUNT, plain)
    assert verify_segment(folder, sealed, sample=1, engine="python").fault == ""


def test_an_executor_is_killed(spark: Any, plain: dict[str, bytes], tmp_path: Path) -> None:
    folder = begin_parts(JOB, tmp_path / "log.db", ["kit"])
    frame = spark.createDataFrame(batch()).repartition(12)
    with KilledOnce("CoarseGrainedExecutorBackend", lambda: any(folder.glob("part-*"))) as killer:
        parts = [row["part"] for row in write_spark_parts(frame, JOB, folder).collect()]
    assert killer.killed
    assert killer.killed not in descendants("CoarseGrainedExecutorBackend")
    sealed = seal_parts(JOB, folder, tmp_path / "log.db", parts)
    assert (sealed.count, sealed_digests(folder, sealed)) == (COUNT, plain)


def test_the_same_series_twice_is_not_sealed(spark: Any, tmp_path: Path) -> None:
    first, again = (spark.createDataFrame(batch().slice(0, n)).coalesce(1) for n in (8, 3))
    folder = begin_parts(JOB, tmp_path / "log.db", ["kit"])
    parts = [row["part"] for frame in (first, again) for row in write_spark_parts(frame, JOB, folder).collect()]
    with pytest.raises(RecordError, match="the series is in part-"):
        seal_parts(JOB, folder, tmp_path / "log.db", parts)
    assert not (tmp_path / "log.db").exists()
