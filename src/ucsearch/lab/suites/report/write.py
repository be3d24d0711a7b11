"""From evidence folders to files."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from ucsearch.errors import InputError
from ucsearch.lab.suites.report.page import index_page, suite_page
from ucsearch.lab.suites.report.source import load
from ucsearch.records.files import whole_file

__all__ = ["NAME", "write_reports"]

NAME = "report.html"


def write_reports(directory: Path, out: Path | None = None) -> list[Path]:
    """Write `report.html` into every evidence folder under `directory`, and an index if there are several.

    `out` is another place: a file for one evidence folder, a folder for several. Returns what was written, the index
    (or the only report) first. All evidence is read before anything is written.
    """
    if out is not None and out.suffix != ".html" and out.is_file():
        raise InputError("--out", str(out), "a file that ends in .html, or a folder")
    found = load(directory)
    if [e.folder for e in found] == [directory]:
        target = directory / NAME if out is None else out if out.suffix == ".html" else out / NAME
        _write(target, suite_page(found[0]))
        return [target]
    if out is not None and out.suffix == ".html":
        raise InputError("--out", str(out), f"a folder, since {directory} holds {len(found)} suites")
    root = out or directory
    places = [e.folder.relative_to(directory) for e in found]
    pages = [suite_page(e, back="../" * len(p.parts) + NAME) for e, p in zip(found, places, strict=True)]
    index = index_page([(e, quote(f"{p.as_posix()}/{NAME}")) for e, p in zip(found, places, strict=True)])
    written = [root / NAME]
    _write(written[0], index)
    for place, page in zip(places, pages, strict=True):
        written.append(root / place / NAME)
        _write(written[-1], page)
    return written


def _write(path: Path, page: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(page.encode("utf-8"))
