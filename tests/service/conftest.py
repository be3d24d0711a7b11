"""One PostgreSQL server for all tests of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.postgres import Server, find_binaries


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty log can be made, in each store."""
    if request.param == "sqlite":
        return str(tmp_path / "log.db")
    if find_binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    server: Server = request.getfixturevalue("postgres")
    return server.fresh()
