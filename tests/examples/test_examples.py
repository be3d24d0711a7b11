"""Examples and documents are run as a reader would run them, and their output is what it is said to be."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

# Part of what each example must print.
PRINTS = {
    "battery.py": ("0.0 (0.0, 0.0, -2.0, -2.0,", "497 497"),
    "inventory.py": ("exact: order 5, score -16.073, proved", "order 6: not allowed"),
    "panel.py": ("40 products", "SKU-001 steady", "SKU-005 steady"),
    "members.py": ("mean mode:", "members mode:", "later up to"),
    "truck.py": ("ALLOCATED: 60 series", "the truck is full", "litres more would be worth between", "next in line:"),
    "closed_loop.py": ("against every policy on this grid", "after high outcomes", "fixed plan", "verifier: valid"),
    "service_hourly.py": (
        "2024-03-04 08:00  {'RELEASED': 3}",
        "next morning: 4 reports of 3 items each; the monitor is armed",
    ),
    "perishables.py": (
        "0 0 0 0 0 0 0 0 0   printed 0 0 0 0 0 0 0 0 0\n  0 0",
        "4 4 3 3 3 3 3 3 3   printed 4 4 3 3 3 3 3 3 3",
        "162 of 162 orders are those printed",
    ),
    "lost_sales.py": ("2: 4.3953 to 4.3953 a period, printed 4.40", "3: 4.5987 to 4.5987 a period, printed 4.60"),
    "reorder_point.py": ("order when 6 or fewer are left, up to 40: 35.022 a period; printed (6, 40, 35.022)",),
    "dual_sourcing.py": (
        "faster at 105: 216.770 a period; printed 216.7698",
        "faster at 110: 219.733 a period; printed 219.7333",
    ),
    "booking_limits.py": (
        "uc.solve: keep [4, 12, 19] seats, expected revenue 18,920.02",
        "Littlewood, and trying: keep [4, 12, 19] seats, expected revenue 18,920.02",
    ),
    "certify.py": ("RELEASED: order 5", "1 entry on disk; released: order 5", "verifier's exit code: 0"),
}


def test_every_example_is_run() -> None:
    assert sorted(PRINTS) == sorted(path.name for path in EXAMPLES.glob("*.py"))


# A process of its own costs more than what most of them do. One of these begins with nothing but the package, one names
# itself as a module, one starts the service.
PROCESSES = ("battery.py", "certify.py", "service_hourly.py")


@pytest.mark.parametrize("name", PRINTS)
def test_example(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, names = EXAMPLES / name, {}
    if name in PROCESSES:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        printed = done.stdout
    else:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [str(path)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            names = runpy.run_path(str(path), run_name="__main__")
        printed = capsys.readouterr().out
    for part in PRINTS[name]:
        assert part in printed
    assert list(tmp_path.iterdir()) == []  # an example leaves nothing behind
    if name == "members.py":
        assert names["members"].reward < names["mean"].reward  # the mean of costs is above the cost of the mean
        assert names["longer"].continuation >= 0


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_readme_example_prints_what_the_readme_shows(compiled: bool, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    part = text.split("## Ten lines")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", part, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", part, re.S)
    (tmp_path / "ten_lines.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "ten_lines.py"], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "NUMBA_DISABLE_JIT": str(int(not compiled))},
    )  # fmt: skip
    assert done.stdout == shown, done.stderr
    verified = subprocess.run(
        [sys.executable, "-m", "ucsearch", "verify", "--plain", "orders.db"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert verified.stdout == "1 valid\n", verified.stderr


@pytest.mark.parametrize(
    "path",
    ["README.md", "CONTRIBUTING.md", *(p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.md")))],
)
def test_links_lead_somewhere(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (ROOT / path).parent.joinpath(target).exists(), f"{path} links to {target}"


def test_the_reasons_in_the_documents_are_the_reasons() -> None:
    from ucsearch.decision.gate import Gate, Reason

    text = (ROOT / "docs" / "concepts" / "gate.md").read_text(encoding="utf-8")
    gate, reasons = text.split("## The gate")[1].split("## Reasons")
    first = re.findall(r"^\| (`.*?) \|", reasons.split("\n## ")[0], re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(first))) == sorted(reason.value for reason in Reason)
    rows = re.findall(r"^\| (`.*?) \|", gate.split("<!-- end of gate -->")[0], re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(Gate.__dataclass_fields__)
