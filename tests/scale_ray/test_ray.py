"""Ray Data on two workers: the plain run's rows for every number of blocks, also when a worker is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from tests.scale.kit import COUNT, TOML, batch, digests, sealed_digests  # noqa: E402
from tests.scale.processes import KilledOnce  # noqa: E402
from ucsearch.scale import Job, decide_batch  # noqa: E402
from ucsearch.scale.backends import write_ray_parts  # noqa: E402
from ucsearch.scale.parts import begin_parts, seal_parts  # noqa: E402
from ucsearch.scale.segments.audit import verify_segment  # noqa: E402

JOB = Job.of(TOML.encode())


@pytest.fixture(scope="module")
def data() -> Iterator[Any]:
    import ray.data

    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray.data
    ray.shutdown()


@pytest.fixture(scope="module")
def plain() -> dict[str, bytes]:
    return digests(decide_batch(batch(), JOB))


@pytest.mark.parametrize("blocks", [1, 3, 7])
def test_every_number_of_blocks_has_the_plain_rows(
    data: Any, plain: dict[str, bytes], tmp_path: Path, blocks: int
) -> None:
    folder = begin_parts(JOB, tmp_path / "log.db", ["kit"])
    parts = write_ray_parts(data.from_arrow(batch()), JOB, folder, blocks=blocks, batch_size=8)
    sealed = seal_parts(JOB, folder, tmp_path / "log.db", parts)
    assert (sealed.count, sealed_digests(folder, sealed)) == (COUNT, plain)
    assert verify_segment(folder, sealed, sample=1, engine="python").fault == ""


def test_a_worker_is_killed(data: Any, plain: dict[str, bytes], tmp_path: Path) -> None:
    folder = begin_parts(JOB, tmp_path / "log.db", ["kit"])
    with KilledOnce("^ray::(MapBatches|Map|.*work)", lambda: any(folder.glob("part-*"))) as killer:
        parts = write_ray_parts(data.from_arrow(batch()), JOB, folder, blocks=12, batch_size=2)
    assert killer.killed
    sealed = seal_parts(JOB, folder, tmp_path / "log.db", parts)
    assert (sealed.count, sealed_digests(folder, sealed)) == (COUNT, plain)
