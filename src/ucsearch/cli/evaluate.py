"""`ucsearch evaluate` and `ucsearch suites`: run a suite into its evidence folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["evaluate", "suites"]


def suites() -> None:
    """List the evaluation suites, and what each is about."""
    from ucsearch.lab.suites.suite import load_suite, suite_names

    names = suite_names()
    width = max(map(len, names))
    for name in names:
        typer.echo(f"{name:<{width}}  {load_suite(name).title}")


def evaluate(
    name: Annotated[list[str], typer.Argument(metavar="NAME...", help="Suites (`ucsearch suites`), or TOML files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Evidence goes to OUT/<suite>.")] = Path("evidence"),
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Local copies of public data; else UCSEARCH_DATA, else the cache.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Worker threads; default: all cores.")] = None,
    family: Annotated[
        list[str] | None,
        typer.Option("--family", metavar="NAME=PATH", help="Take a family's series from other files of the same form."),
    ] = None,
    underpowered: Annotated[
        bool, typer.Option("--underpowered", help="Open the test split although the value gate is unlikely to pass.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Also write report.html.")] = True,
) -> None:
    """Choose on validation, look at the test once, and write evidence that classifies itself.

    A killed run goes on where it was. Every opening of a test split goes to the ledger OUT/looks.jsonl; running the
    same choice again is written down as a repeat, another choice as a second look, which costs the certificate.

    Exit codes: 0 evidence written, whatever its class; 1 an error.
    """
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from ucsearch.lab.suites.run import evaluate as run
    from ucsearch.lab.suites.suite import load_suite

    families = dict(_pair(one) for one in family or [])
    loaded = [load_suite(one) for one in name]  # every error in a name or file before any work
    for suite in loaded:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
        with Progress(*columns, TimeElapsedColumn(), transient=True, disable=not sys.stderr.isatty()) as bar:
            rows: dict[str, TaskID] = {}

            def progress(
                label: str, done: int, total: int, bar: Progress = bar, rows: dict[str, TaskID] = rows
            ) -> None:
                if label not in rows:
                    rows[label] = bar.add_task(label, total=total)
                bar.update(rows[label], completed=done, total=total)

            found = run(
                suite, out, data_dir=data_dir, threads=threads, progress=progress, underpowered=underpowered,
                families=families, say=bar.console.print,
            )  # fmt: skip
        verdict = found.verdict
        typer.echo(f"{suite.name}: {verdict['class']}: {verdict['interpretation']}")
        for reason in verdict["reasons"][:5]:
            typer.echo(f"  {reason}")
        if verdict["value"]["class"] != "not asked":
            typer.echo(f"  value gate {verdict['value']['class']}: {verdict['value']['reasons'][0]}")
        if len(verdict["reasons"]) > 5:
            typer.echo(f"  and {len(verdict['reasons']) - 5} more")
        if report:
            from ucsearch.lab.suites.report.write import write_reports

            typer.echo(f"  {write_reports(found.folder)[0]}")


def _pair(text: str) -> tuple[str, Path]:
    """`name=path`."""
    from ucsearch.errors import InputError

    name, sign, path = text.partition("=")
    if not (name and sign and path):
        raise InputError("--family", repr(text), "NAME=PATH")
    return name, Path(path)
