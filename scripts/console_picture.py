"""Take the console's picture for README and documents again, of a released decision of the demonstration:
`python scripts/console_picture.py` (it needs playwright and chromium, as `make test-browser` does)."""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from playwright.sync_api import sync_playwright

from ucsearch.client import Client
from ucsearch.service.config import load_config
from ucsearch.service.demo import PERIOD, ShelfStream, set_up
from ucsearch.service.run import embedded
from ucsearch.service.service import Service

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "console.png"
SIZE = {"width": 1280, "height": 860}
PERIODS = 12  # before anything trips


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        tokens = set_up(Path(name), "127.0.0.1:0")
        config, place = load_config(name)
        with embedded(Service.open(config, place)) as url, Client(url, tokens["demo agent"]) as client:
            start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - (PERIODS + 1) * PERIOD
            stream = ShelfStream(client, start)
            for _ in range(PERIODS):
                stream.step()
            released = next(d for d in client.decisions(outcome="RELEASED") if d["effective"])
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                page = browser.new_page(viewport=SIZE, color_scheme="light")
                page.goto(url)
                page.fill("#token", tokens["demo operator"])
                page.press("#token", "Enter")
                page.wait_for_url("**/console")
                page.goto(f"{url}/console/decisions/{released['id']}")
                page.screenshot(path=PICTURE)
                browser.close()
    print(f"{PICTURE}: {PICTURE.stat().st_size} bytes, {released['series']} {released['outcome']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
