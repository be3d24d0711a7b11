"""Reports in a real browser: nothing in the console, every figure drawn, nothing cut off on a phone, printable."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.suites.report_kit import many_folders
from ucsearch.lab.suites.report import write_reports

pytestmark = pytest.mark.slow

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PHONE, DESKTOP = 390, 1280
FIGURES = {
    "orders40": 9, "orders200": 9, "hostile": 9, "repair": 0, "": 0,
}  # fmt: skip

# Run in a page around the report, because the report itself allows no script.
PROBE = """<!doctype html><body><iframe id="f" src="{address}" style="border:0;width:{width}px;height:3000px"></iframe>
<pre id="found"></pre><script>
addEventListener("load", () => {{
  const page = document.getElementById("f").contentDocument;
  const found = {{svgs: 0, empty: [], outside: [], overlaps: [], title: page.title,
                 width: page.documentElement.scrollWidth, scripts: 0}};
  found.scripts = page.querySelectorAll("script:not([type='application/json']), img, iframe, object, embed").length;
  found.json = JSON.parse(page.getElementById("evidence").textContent) !== null;
  for (const svg of page.querySelectorAll("svg[role=img]")) {{
    found.svgs += 1;
    const frame = svg.getBoundingClientRect(), name = svg.parentElement.id;
    if (frame.width < 200 || frame.height < 60) found.empty.push(name);
    const boxes = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    for (const [i, [text, a]] of boxes.entries()) {{
      if (a.left < frame.left - 2 || a.right > frame.right + 2 || a.top < frame.top - 2 || a.bottom > frame.bottom + 2)
        found.outside.push(name + ": " + text);
      for (const [other, b] of boxes.slice(i + 1)) {{
        const w = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (w > 2 && h > 5) found.overlaps.push(name + ": " + text + " / " + other);
      }}
    }}
  }}
  document.getElementById("found").textContent = JSON.stringify(found);
}});
</script></body>"""


@pytest.fixture(scope="module")
def browser() -> str:
    named = os.environ.get("UCSEARCH_BROWSER")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed, and UCSEARCH_BROWSER names none")
    return found


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = many_folders(tmp_path_factory.mktemp("evidence"))
    write_reports(root)
    return root


def run(browser: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
        "--enable-logging=stderr", "--v=0", "--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}",
        *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def probe(browser: str, folder: Path, page: Path, width: int) -> dict[str, Any]:
    probing = folder / "probe.html"
    probing.write_text(PROBE.format(address=page.as_uri(), width=width), "utf-8")
    done = run(browser, folder, "--window-size=1400,3200", "--dump-dom", probing.as_uri())
    assert console(done) == []
    text = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert text, done.stdout[-500:]
    found: dict[str, Any] = json.loads(html.unescape(text.group(1)))
    return found


def test_the_console_of_a_faulty_page_is_seen(browser: str, tmp_path: Path) -> None:
    # Otherwise an empty console would prove nothing.
    page = tmp_path / "bad.html"
    page.write_text("<script>console.error('seen')</script>", "utf-8")
    assert any("seen" in line for line in console(run(browser, tmp_path, "--dump-dom", page.as_uri())))


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("suite", list(FIGURES))
def test_every_figure_is_drawn_within_the_page(
    browser: str, reports: Path, tmp_path: Path, suite: str, width: int
) -> None:
    found = probe(browser, tmp_path, reports / suite / "report.html", width)
    assert found["svgs"] == FIGURES[suite]
    assert found["width"] <= width
    assert found["json"] is True
    assert (found["empty"], found["outside"], found["overlaps"]) == ([], [], [])
    assert found["scripts"] == 1  # that sorts tables, known by its hash
    assert found["title"] != "owned"


def test_it_prints(browser: str, reports: Path, tmp_path: Path) -> None:
    paper = tmp_path / "report.pdf"
    done = run(
        browser, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer",
        (reports / "orders40" / "report.html").as_uri(),
    )  # fmt: skip
    assert console(done) == []
    body = paper.read_bytes()
    assert body.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", body)) <= 12
