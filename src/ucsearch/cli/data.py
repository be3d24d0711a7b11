"""`ucsearch data list | get | check`: the public data files we know.

Exit codes: 0 all is well, 1 a file is wrong or could not be fetched, 2 no such name, no file found at all,
or a wrong option.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from ucsearch.lab.data.published import DataFile

from ucsearch.cli.terminal import NEEDS_A_PERSON, UNUSABLE

__all__ = ["data_app"]


data_app = typer.Typer(
    name="data",
    no_args_is_help=True,
    help="Public data files: what is known about them, download, check.",
    epilog="Exit codes: 0 all is well, 1 a file is wrong or could not be fetched, 2 no such name or no file.",
)

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder with local copies (default: UCSEARCH_DATA, then the cache)."),
]
CacheDir = Annotated[Path | None, typer.Option("--cache-dir", help="Where downloads go.")]


@data_app.command("list")
def list_files(
    name: Annotated[str | None, typer.Argument(help="A data set or prefix, e.g. m4 or m4/hourly.")] = None,
) -> None:
    """List data sets, or the files under a name."""
    from ucsearch.errors import DataError
    from ucsearch.lab.data.registry import FILES, find

    if name is None:
        table = _table("data set", "files", "direct download", "licence")
        groups: dict[str, list[DataFile]] = {}
        for file in FILES:
            groups.setdefault(file.dataset, []).append(file)
        for dataset, files in groups.items():
            direct = sum(any(copy.url for copy in file.copies) for file in files)
            licences = ", ".join(dict.fromkeys(file.licence for file in files))
            table.add_row(dataset, str(len(files)), str(direct), licences)
        _print(table)
        return
    try:
        found = find(name)
    except DataError as error:
        _fail(str(error))
    table = _table("file", "accepted at", "sha256", "download", "note")
    for file in found:
        for at, copy in enumerate(file.copies):
            known = copy.sha256[:12] if copy.sha256 else "recorded at first download"
            label = file.name if at == 0 else ""
            table.add_row(label, copy.paths[0], known, "yes" if copy.url else "no", copy.note)
    _print(table)
    for origin in dict.fromkeys(f"origin: {file.origin}; licence: {file.licence}" for file in found):
        typer.echo(origin)


@data_app.command("get")
def get_files(
    name: Annotated[str, typer.Argument(help="A file, data set or prefix, e.g. ett/ETTh1 or m4/hourly.")],
    cache_dir: CacheDir = None,
) -> None:
    """Download files into the cache.

    Files that are there already are checked, not fetched again.
    """
    from ucsearch.errors import DataError
    from ucsearch.lab.data.registry import find
    from ucsearch.lab.data.resolve import resolve

    try:
        found = find(name)
    except DataError as error:
        _fail(str(error))
    failed = 0
    for file in found:
        try:
            got = resolve(file, download=True, cache_dir=cache_dir)
        except DataError as error:
            failed += 1
            typer.echo(str(error), err=True)
            continue
        typer.echo(f"{got.name}: {got.path} ({got.bytes:,} bytes, sha256 {got.sha256}, {got.status})")
        if got.status == "recorded":
            typer.echo("  no official hash was at hand: this one was written down at the first download")
    if failed:
        raise typer.Exit(NEEDS_A_PERSON)


@data_app.command("check")
def check_files(
    data_dir: DataDir = None,
    full: Annotated[bool, typer.Option("--full", help="Also read every file and check its counts.")] = False,
) -> None:
    """Check the files that are present.

    Sizes, hashes and, with --full, contents.
    """
    from ucsearch.errors import DataError
    from ucsearch.lab.data.registry import FILES
    from ucsearch.lab.data.resolve import resolve_optional

    table = _table("file", "status", "bytes", "sha256", "note")
    present, wrong = [], []
    for file in FILES:
        try:
            found = resolve_optional(file.name, data_dir=data_dir)
        except DataError as error:
            wrong.append(str(error))
            table.add_row(file.name, "WRONG", "", "", "see below")
            continue
        if found is not None:
            present.append(file.name)
            note = found.note if found.whole else f"subset: {found.note}"
            table.add_row(file.name, found.status, f"{found.bytes:,}", found.sha256[:12], note)
    if present or wrong:
        _print(table)
    if full:
        wrong += _read_all(present, data_dir)
    for sentence in wrong:
        typer.echo(sentence, err=True)
    typer.echo(f"{len(present)} of {len(FILES)} known files present, {len(wrong)} problems")
    if wrong:
        raise typer.Exit(NEEDS_A_PERSON)
    if not present:
        typer.echo("no known file found; name a folder with --data-dir or UCSEARCH_DATA", err=True)
        raise typer.Exit(UNUSABLE)


def _read_all(present: list[str], data_dir: Path | None) -> list[str]:
    """Load each data set that is present; returns the problems."""
    from ucsearch.errors import DataError

    problems = []
    table = _table("data set", "what", "count", "detail")
    for label, load in _loaders(present, data_dir):
        try:
            loaded = load()
        except DataError as error:
            problems.append(str(error))
            continue
        for what, count, detail in loaded.report.rows() or [("as published", 0, "")]:
            table.add_row(label, what, f"{count:,}" if count else "", detail)
    _print(table)
    return problems


def _loaders(present: list[str], data_dir: Path | None) -> list[tuple[str, Callable[[], Any]]]:
    from functools import partial

    import ucsearch.lab.data as data
    from ucsearch.lab.data.registry import FI2010_NORMALISATIONS, fi2010_name

    have = set(present)
    known: list[tuple[str, str, Callable[..., Any]]] = []  # label, file that must be present, loader
    known += [(f"ett/{name}", f"ett/{name}", partial(data.load_ett, name)) for name in data.ETT_NAMES]
    known += [(f"m4/{f}", f"m4/{f}/train", partial(data.load_m4, f)) for f in data.M4_FREQUENCIES]
    known.append(("m4/daily-tail", "m4/daily-tail/train", data.load_m4_daily_tails))
    known += [(f"ltsf/{name}", f"ltsf/{name}", partial(data.load_ltsf, name)) for name in data.LTSF_SETS]
    for ticker in ("AAPL", "AMZN"):
        known.append((f"lobster/{ticker}", f"lobster/{ticker}/orderbook", partial(data.load_lobster, ticker)))
    for auction, kind, fold, part in product((False, True), FI2010_NORMALISATIONS, range(1, 10), ("train", "test")):
        name = fi2010_name(kind, fold, part, auction=auction)
        known.append((name, name, partial(data.load_fi2010, kind, fold, part, auction=auction)))
    return [(label, partial(load, data_dir=data_dir)) for label, needs, load in known if needs in have]


def _table(*headings: str) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print(table: Any) -> None:
    from rich.console import Console

    Console(markup=False, highlight=False, soft_wrap=False).print(table)


def _fail(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(UNUSABLE)
