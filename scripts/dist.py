"""`make dist`: build the wheel and the sdist twice, compare the bytes, look inside, and try them where nobody has been.

The wheel is installed into an empty environment of each Python that is at hand (3.11, 3.12, 3.13), and the demo is run
from another folder. Beside the files a software bill of materials (CycloneDX) says what an installation pulls in.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent
PYTHONS = ("3.11", "3.12", "3.13")
WHEEL_MB, SDIST_MB = 3.0, 4.0  # at most
NOT_SHIPPED = ("evidence/", ".cache/", ".ci/", ".venv", "build/", "__pycache__")  # never in the sdist


def run(*command: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(c) for c in command], text=True, capture_output=True, check=False, **more)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done  # type: ignore[no-any-return]


def build(folder: Path) -> dict[str, str]:
    """Both files with their digests. The time of the last commit stands in for the clock."""
    at = run("git", "log", "-1", "--format=%ct", cwd=ROOT).stdout.strip()
    run(
        TOOLS / "python",
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        folder,
        ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": at},
    )
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def contents(path: Path) -> list[str]:
    if path.suffix == ".whl":
        return zipfile.ZipFile(path).namelist()
    with tarfile.open(path) as file:
        return [name.partition("/")[2] for name in file.getnames()]


def readme(wheel: Path) -> str:
    """The long description in the metadata, without its code."""
    with zipfile.ZipFile(wheel) as file:
        name = next(n for n in file.namelist() if n.endswith(".dist-info/METADATA"))
        return re.sub(r"```.*?```", "", file.read(name).decode(), flags=re.S)


def look_inside(folder: Path) -> list[str]:
    """What a release must and must not hold."""
    wrong = []
    for path in sorted(folder.iterdir()):
        names, size = contents(path), path.stat().st_size / 1e6
        most = WHEEL_MB if path.suffix == ".whl" else SDIST_MB
        print(f"{path.name}: {size:.2f} MB, {len(names)} files")
        if not size <= most:
            wrong.append(f"{path.name}: {size:.1f} MB, expected at most {most} MB")
        wrong += [f"{path.name} holds {n}" for n in names if n.startswith(NOT_SHIPPED) or "__pycache__" in n][:5]
        if path.suffix == ".whl" and re.search(r"\]\((?!https?://|#)", readme(path)):
            wrong.append(f"{path.name}: its readme has a link that leads nowhere on an index")
        if not any(n.endswith("ucsearch/py.typed") for n in names):
            wrong.append(f"{path.name} lacks py.typed")
    return wrong


def python_of(version: str) -> str | None:
    homes = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    return str(homes[-1]) if homes else shutil.which(f"python{version}")


def try_out(wheel: Path, version: str) -> str:
    """The demo, from an empty folder and an empty environment."""
    python = python_of(version)
    if python is None:
        return f"Python {version} is not at hand: not tried"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(python, "-m", "venv", folder / "env")
        run(folder / "env" / "bin" / "python", "-m", "pip", "install", "-q", wheel)
        (folder / "elsewhere").mkdir()
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        said = run(folder / "env" / "bin" / "ucsearch", "demo", cwd=folder / "elsewhere", env=clean).stdout
        if "RELEASED" not in said.upper():
            raise SystemExit(f"Python {version}: the demo released nothing\n{said[-2000:]}")
        if version == PYTHONS[0]:
            run(
                TOOLS / "cyclonedx-py",
                "environment",
                folder / "env",
                "--output-reproducible",
                "--of",
                "JSON",
                "-o",
                DIST / "sbom.cdx.json",
            )
    return f"Python {version}: installed, the demo ran from another folder"


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name) / "a", Path(name) / "b"
        one, two = build(first), build(second)
        if one != two:
            raise SystemExit(f"two builds differ: {one} and {two}")
        wrong = look_inside(first)
        if wrong:
            raise SystemExit("\n".join(wrong))
        shutil.copytree(first, DIST)
    print("two builds, equal bytes: " + ", ".join(f"{n} {d[:16]}" for n, d in one.items()))
    print(run(TOOLS / "python", "-m", "twine", "check", "--strict", *sorted(DIST.iterdir())).stdout.strip())
    wheel = next(DIST.glob("*.whl"))
    for version in sys.argv[1:] or PYTHONS:
        print(try_out(wheel, version), flush=True)


if __name__ == "__main__":
    main()
