"""A PostgreSQL server of one's own for tests: a temporary folder, a socket in it, no network."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

__all__ = ["Server", "find_binaries"]

_NOBODY = 65534
_MEMORY = Path("/dev/shm")
_ROOM = 1 << 30  # bytes: every database of a test is some megabytes


def _home() -> str | None:
    """In memory where there is room: the server must sync (the store insists), and tests make dozens of databases."""
    usable = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM
    return str(_MEMORY) if usable else None


def find_binaries() -> Path | None:
    """The folder of initdb and postgres, from Debian's package or the PATH."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return None if found is None or shutil.which("postgres") is None else Path(found).parent


class Server:
    """Started when made; `stop("immediate")` is a crash."""

    def __init__(self) -> None:
        self.bin = find_binaries()
        if self.bin is None:
            pytest.skip("PostgreSQL is not installed")
        self.folder = Path(tempfile.mkdtemp(prefix="ucs-pg-", dir=_home()))
        self.data = self.folder / "data"
        self._user: list[str] = []
        if os.getuid() == 0:  # it refuses to run as root
            os.chown(self.folder, _NOBODY, _NOBODY)
            self._user = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        self._run("initdb", "-D", str(self.data), "-U", "ucsearch", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.start()

    def _run(self, name: str, *arguments: str) -> None:
        assert self.bin is not None
        done = subprocess.run(
            [*self._user, str(self.bin / name), *arguments], capture_output=True, text=True, check=False, cwd="/"
        )
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stderr or done.stdout}")

    def start(self, *options: str) -> None:
        more = " ".join(options)
        self._run(
            "pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.folder / "log"), "-o",
            f"-k {self.folder} -c listen_addresses='' -c max_connections=40 -c shared_buffers=16MB {more}", "start",
        )  # fmt: skip

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://ucsearch@/{database}?host={self.folder}"

    def fresh(self) -> str:
        """The address of a new, empty database."""
        import psycopg

        name = f"t{time.monotonic_ns()}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def remove(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)
