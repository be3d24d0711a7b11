"""The root file system that `deploy/Dockerfile` describes, built with its own commands in a folder: there is no Docker
where these tests run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may be another user"),
]
ROOT = Path(__file__).resolve().parents[2]
USER = 8411
IN_IMAGE = re.compile(r"(?<![\w./-])/(?=(?:src|opt|var|tmp)(?:/|\b))")


class Image:
    """Its commands, with every path of the image inside of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", (ROOT / "deploy/Dockerfile").read_text(), flags=re.M))
        self.stages = [stage.splitlines() for stage in re.split(r"^FROM .*\n", text, flags=re.M)[1:]]
        self.env = {"PATH": f"{_python().parent}:/usr/bin:/bin", "HOME": str(folder / "tmp")}
        for name in ("PIP_INDEX_URL", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE"):
            self.env |= {name: os.environ[name]} if name in os.environ else {}

    def inside(self, text: str) -> str:
        return IN_IMAGE.sub(f"{self.folder}/", text.replace("$PATH", self.env["PATH"]))

    def build(self) -> None:
        for stage in self.stages:
            self.work, self.user = self.folder, 0
            for line in stage:
                word, _, rest = line.partition(" ")
                getattr(self, f"do_{word.lower()}", lambda _: None)(rest)

    def do_env(self, text: str) -> None:
        self.env |= dict(part.split("=", 1) for part in self.inside(text).split())

    def do_arg(self, text: str) -> None:
        name, _, value = text.partition("=")
        self.env[name] = value

    def do_workdir(self, text: str) -> None:
        self.work = Path(self.inside(text))
        self.work.mkdir(parents=True)

    def do_user(self, text: str) -> None:
        self.user = int(text.split(":")[0])

    def do_copy(self, text: str) -> None:
        if text.startswith("--from"):  # it is there already
            return
        *sources, target = [part for part in text.split() if not part.startswith("--")]
        for source in sources:
            source = source.replace("${PLANS}", self.env.get("PLANS", ""))
            to = self.work / target if not target.startswith("/") else Path(self.inside(target))
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, to, dirs_exist_ok=True, ignore=ignored)
            else:
                if target.endswith("/"):
                    to.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, to)
            for path in [to, *to.rglob("*")] if "--chown" in text else []:
                os.chown(path, USER, USER)

    def do_run(self, text: str) -> None:
        text = text.replace("python -m venv", "python3 -m venv")  # the name of the system's own
        # The user of the image has only a number here.
        done = self.call(["sh", "-c", self.inside(re.sub(r"groupadd .*?useradd .*? && ", "", text))])
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"

    def call(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        given: dict[str, Any] = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        return subprocess.run(
            command, env=self.env, cwd=self.work, capture_output=True, text=True, check=False, **given
        )

    def word(self, name: str) -> list[str]:
        """The last JSON list behind a word."""
        found = [x for x in self.stages[-1] if x.strip().startswith(name)][-1]
        return [self.inside(part) for part in json.loads(found[found.index("[") :])]


def _python() -> Path:
    """One that the image's user may run too."""
    for name in (getattr(sys, "_base_executable", sys.executable), "/usr/bin/python3"):
        script = "import ensurepip, sys; assert sys.version_info >= (3, 11)"
        with suppress(PermissionError):
            done = subprocess.run(
                [name, "-c", script], user=USER, group=USER, extra_groups=[], cwd="/", capture_output=True, check=False
            )
            if done.returncode == 0:
                return Path(name)
    pytest.skip("there is no Python with ensurepip that others may run")


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    folder = Path(tempfile.mkdtemp(prefix="ucsearch-image-"))
    folder.chmod(0o755)
    (folder / "tmp").mkdir(mode=0o777)
    (folder / "tmp").chmod(0o777)
    made = Image(folder)
    made.build()
    yield made
    shutil.rmtree(folder)


def test_it_starts_with_its_kernels_and_is_healthy(image: Image) -> None:
    place = image.word("CMD")[-1]
    done = image.call(["ucsearch", "service", "init", place])
    assert done.returncode == 0, done.stderr
    for name in ("service.toml", "orders.toml"):
        shutil.copy(image.folder / "tmp/warm" / name, Path(place) / name)
    config = Path(place) / "service.toml"
    config.write_text(re.sub(r'checkpoint = ".*"', 'checkpoint = "kept/decisions.json"', config.read_text()))
    cached = {path: path.stat().st_mtime_ns for path in (image.folder / "var/cache/ucsearch").rglob("*.*bc")}
    command = [*image.word("ENTRYPOINT"), *image.word("CMD"), "--bind", "127.0.0.1:18411"]
    service = subprocess.Popen(
        command, env=image.env, cwd="/", user=USER, group=USER, extra_groups=[], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        check = image.word("HEALTHCHECK")
        deadline = time.monotonic() + 120.0
        while image.call(check).returncode and time.monotonic() < deadline and service.poll() is None:
            time.sleep(0.5)
        found = image.call(check)
        assert found.returncode == 0, found.stderr + (service.stderr.read() if service.poll() is not None else "")
        with urllib.request.urlopen("http://127.0.0.1:8412/metrics") as answer:
            assert b"ucsearch_build_info" in answer.read()
    finally:
        service.send_signal(signal.SIGTERM)
        said = service.communicate(timeout=30)[1]
    assert service.returncode == 0, said
    plan = next(line for line in map(json.loads, said.splitlines()) if line.get("plan") == "orders")
    assert plan["engine"] != "python", plan
    assert {path: path.stat().st_mtime_ns for path in cached} == cached  # made in the build, only read here
    assert cached
