"""`ucsearch data`: the public data files we know, which of them are here, and their download.

Exit codes: 0 all is well, 1 a file is wrong or could not be fetched, 2 no such name, no file found at all,
or a wrong option.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from ucsearch.lab.data.registry import DataFile

from ucsearch.cli.terminal import NEEDS_A_PERSON, UNUSABLE, print_table

__all__ = ["data"]


_UNKNOWN = "hash recorded at the first download"


def data(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A file, data set or prefix, such as m4/hourly.")
    ] = None,
    get: Annotated[bool, typer.Option("--get", help="Download what is not here into the cache.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Also read every file and check its counts.")] = False,
) -> None:
    """List public data files, check or download them.

    Without a name the data sets are listed. The files under a name are looked for in UCSEARCH_DATA, then in the cache
    (UCSEARCH_CACHE), and their sizes and hashes checked; with --full their contents too.

    Exit codes: 0 all is well; 1 a file is wrong or could not be fetched; 2 no such name, or no file.
    """
    from ucsearch.errors import DataError
    from ucsearch.lab.data.registry import FILES, find

    if name is None and not full and not get:
        _list(FILES)
        return
    if name is None and get:
        _fail("say which: ucsearch data NAME --get")
    try:
        files = FILES if name is None else find(name)
    except DataError as error:
        _fail(str(error))
    if get:
        _fetch(files)
    _check(files, full)


def _list(files: Sequence[DataFile]) -> None:
    groups: dict[str, list[DataFile]] = {}
    for file in files:
        groups.setdefault(file.dataset, []).append(file)
    rows = []
    for dataset, own in groups.items():
        direct = sum(any(copy.url for copy in file.copies) for file in own)
        rows.append((dataset, len(own), direct, ", ".join(dict.fromkeys(file.licence for file in own))))
    print_table(("data set", "files", "direct download", "licence"), rows, right=("files", "direct download"))


def _fetch(files: Sequence[DataFile]) -> None:
    from ucsearch.errors import DataError
    from ucsearch.lab.data.resolve import resolve

    failed = 0
    for file in files:
        try:
            got = resolve(file, download=True)
        except DataError as error:
            failed += 1
            typer.echo(str(error), err=True)
            continue
        typer.echo(f"{got.name}: {got.path} ({got.bytes:,} bytes, sha256 {got.sha256}, {got.status})")
        if got.status == "recorded":
            typer.echo("  no official hash is known: this one was recorded at the first download")
    if failed:
        raise typer.Exit(NEEDS_A_PERSON)


def _check(files: Sequence[DataFile], full: bool) -> None:
    from ucsearch.errors import DataError
    from ucsearch.lab.data.resolve import resolve_optional

    rows: list[Sequence[object]] = []
    present, wrong = [], []
    for file in files:
        at = "; ".join(f"{one.paths[0]} ({one.sha256[:12] if one.sha256 else _UNKNOWN})" for one in file.copies)
        download = "yes" if any(copy.url for copy in file.copies) else "no"
        try:
            found = resolve_optional(file.name)
        except DataError as error:
            wrong.append(str(error))
            rows.append((file.name, "WRONG", "", "", at, download, "see below"))
            continue
        if found is None:
            rows.append((file.name, "not here", "", "", at, download, file.copies[0].note))
        else:
            present.append(file.name)
            note = found.note if found.whole else f"subset: {found.note}"
            rows.append((file.name, found.status, f"{found.bytes:,}", found.sha256[:12], at, download, note))
    print_table(("file", "status", "bytes", "sha256", "accepted at", "download", "note"), rows, right=("bytes",))
    if len({file.dataset for file in files}) == 1:
        for origin in dict.fromkeys(f"origin: {file.origin}; licence: {file.licence}" for file in files):
            typer.echo(origin)
    if full:
        wrong += _read_all(present)
    for sentence in wrong:
        typer.echo(sentence, err=True)
    typer.echo(f"{len(present)} of {len(files)} known files present, {len(wrong)} problems")
    if wrong:
        raise typer.Exit(NEEDS_A_PERSON)
    if full and not present:
        typer.echo("no known file found; UCSEARCH_DATA names a folder, ucsearch data NAME --get downloads", err=True)
        raise typer.Exit(UNUSABLE)


def _read_all(present: list[str]) -> list[str]:
    """Load each data set that is present; returns the problems."""
    from ucsearch.errors import DataError

    problems = []
    rows = []
    for label, load in _loaders(present):
        try:
            loaded = load()
        except DataError as error:
            problems.append(str(error))
            continue
        for what, count, detail in loaded.report.rows() or [("as published", 0, "")]:
            rows.append((label, what, f"{count:,}" if count else "", detail))
    print_table(("data set", "what", "count", "detail"), rows, right=("count",))
    return problems


def _loaders(present: list[str]) -> list[tuple[str, Callable[[], Any]]]:
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
    return [(label, load) for label, needs, load in known if needs in have]


def _fail(sentence: str) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(UNUSABLE)
