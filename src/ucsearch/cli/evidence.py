"""`ucsearch claims` and `ucsearch evidence`: what a run's evidence permits to say, and whether it is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ucsearch.lab.suites.recheck import Report

__all__ = ["claims", "evidence_app"]

FALSE = 1
MALFORMED = 2

evidence_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Check evidence against its rows, its suite file and the ledger of looks. Nothing here changes the evidence.",
)
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="An evidence folder, or one that holds several.")]
LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", help="The ledger of looks; default: looks.jsonl beside the evidence folder.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


def claims(folder: FolderArgument, ledger: LedgerOption = None, as_json: JsonOption = False) -> None:
    """Print the certification status table of all evidence below DIR: class, endpoint, key figures, what may be said.

    Classes are derived from the rows again before they are printed; evidence that does not agree with its own rows is
    named on stderr and left out. Sampled decisions are not verified here; `evidence verify` does that.

    Exit codes: 0 printed, 1 some evidence claims what is false, 2 some is malformed, or there is none.
    """
    from ucsearch.lab.suites.claims import status_rows

    reports = _reports(folder, decisions=0, budget=None, task=None, ledger=ledger)
    rows = status_rows([r.evidence.predicate for r in reports if r.ok and r.evidence is not None])
    if as_json:
        import json

        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        _print_table(rows)
    for report in reports:
        if not report.ok:
            typer.echo(f"Left out: {_outcome(report)}", err=True)
    raise typer.Exit(_worst(reports))


@evidence_app.command("verify")
def verify(
    folder: FolderArgument,
    decisions: Annotated[int, typer.Option("--decisions", "-n", min=0, help="Sampled decisions to verify.")] = 20,
    budget: Annotated[int | None, typer.Option("--budget", min=0, help="Nodes per decision.")] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="PACKAGE:OBJECT", help="The sampled decisions' task, if it is your own."),
    ] = None,
    ledger: LedgerOption = None,
    kept: Annotated[
        str | None,
        typer.Option("--kept", metavar="HEAD", help="Head of a look, kept elsewhere, that the ledger must still have."),
    ] = None,
    rerun: Annotated[
        float | None,
        typer.Option("--rerun", metavar="SHARE", help="Also run this share of the series again, drawn by the rows."),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="With --rerun: local copies of public data; else UCSEARCH_DATA.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="With --rerun: worker threads.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Derive every figure of the evidence again from its rows and compare; verify the drawn sample of its decisions.

    Rows are tied to the suite file (families, series, windows, decisions, candidates, comparators and their budgets),
    and looks to the ledger. Selection, tables and verdict are derived again by the functions that wrote them; the
    gate's rates and bounds also by a second program. No policy is run. A decision that cannot be verified within the
    budget counts as not right.

    Exit codes: 0 valid, 1 a claim is false (each is named), 2 malformed, or there is no evidence.
    """
    reports = _reports(folder, decisions=decisions, budget=budget, task=_task(task), ledger=ledger, kept=kept)
    if rerun is not None:
        reports = [_run_again(report, rerun, data_dir, threads) for report in reports]
    if as_json:
        import json

        typer.echo(json.dumps([_as_json(report) for report in reports], indent=2, ensure_ascii=False))
    else:
        for report in reports:
            typer.echo(_outcome(report), err=not report.ok)
            for note in report.notes:
                typer.echo(f"  note: {_plain(note)}")
    raise typer.Exit(_worst(reports))


def _reports(
    folder: Path, *, decisions: int, budget: int | None, task: Any, ledger: Path | None, kept: str | None = None
) -> list[Report]:
    from ucsearch.errors import UCSearchError
    from ucsearch.lab.suites.manifest import find_evidence
    from ucsearch.lab.suites.recheck import verify_evidence

    try:
        found = find_evidence(folder)
    except UCSearchError as error:
        typer.echo(f"Error: {_plain(error)}", err=True)
        raise typer.Exit(MALFORMED) from error
    if not found:
        typer.echo(f"Error: {folder}: no evidence (no manifest.json) at or below it", err=True)
        raise typer.Exit(MALFORMED)
    options: dict[str, Any] = dict(decisions=decisions, budget=budget, task=task, ledger=ledger, kept=kept)
    return [verify_evidence(one, **options) for one in found]


def _run_again(report: Report, share: float, data_dir: Path | None, threads: int | None) -> Report:
    """The report with what a drawn share shows when it is run again; what is not valid is not run."""
    from dataclasses import replace

    from ucsearch.cli.terminal import told_or_shown
    from ucsearch.errors import UCSearchError
    from ucsearch.lab.suites.rerun import rerun

    if not report.ok or report.evidence is None:
        return report
    try:
        with told_or_shown() as progress:
            problems, notes = rerun(report.evidence, share, data_dir=data_dir, threads=threads, progress=progress)
    except UCSearchError as error:
        return replace(report, code=MALFORMED, malformed=f"cannot be run again: {error}")
    return replace(report, code=FALSE if problems else 0, problems=tuple(problems), notes=(*report.notes, *notes))


def _task(spec: str | None) -> Any:
    """A task named by the caller may be in the current folder, of which nothing else is imported; one that evidence
    names may not."""
    if spec is None:
        return None
    from ucsearch.verify import NoTask, find_task

    try:
        return find_task(spec)
    except NoTask as error:
        typer.echo(f"Error: --task: {_plain(error)}", err=True)
        raise typer.Exit(MALFORMED) from error


def _worst(reports: list[Report]) -> int:
    codes = {report.code for report in reports}
    return MALFORMED if MALFORMED in codes else FALSE if FALSE in codes else 0


def _outcome(report: Report) -> str:
    name = _plain(report.folder)
    if report.ok and report.evidence is not None:
        verdict = report.evidence.predicate["verdict"]
        return f"valid: {name}: {_plain(verdict['class'])}, {_plain(verdict['endpoint'])}"
    false = "".join(f"\n  {_plain(problem)}" for problem in report.problems)
    if report.code == MALFORMED:
        return f"malformed: {name}: {_plain(report.malformed)}{false}"
    count = len(report.problems)
    rest = f"\n  nothing more could be derived: {_plain(report.malformed)}" if report.malformed else ""
    return f"FALSE: {name}: {count} claim{'' if count == 1 else 's'} not borne out{false}{rest}"


def _as_json(report: Report) -> dict[str, Any]:
    verdict = report.evidence.predicate["verdict"] if report.ok and report.evidence is not None else None
    return {
        "folder": report.folder.as_posix(),
        "status": ("valid", "false", "malformed")[report.code],
        "class": None if verdict is None else verdict["class"],
        "problems": [{"where": p.where, "claimed": p.claimed, "derived": p.derived} for p in report.problems],
        "malformed": report.malformed,
        "notes": list(report.notes),
    }


def _print_table(rows: list[dict[str, str]]) -> None:
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A pipe has no width of its own; cut text there would be lost.
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(caption="Certification status under the promotion gate", show_lines=True)
    for name in ("class", "endpoint", "key figures", "value gate", "permitted interpretation"):
        table.add_column(name, no_wrap=name == "class")
    for row in rows:
        endpoint = f"{row['endpoint']} ({row['suite']})"
        table.add_row(
            *(Text(_plain(cell)) for cell in (row["class"], endpoint, row["key"], row["value"], row["interpretation"]))
        )
    console.print(table)


def _plain(value: object) -> str:
    """Evidence may come from anybody, and text can steer a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(value))
