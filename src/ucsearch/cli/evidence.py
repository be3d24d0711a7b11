"""`ucsearch evidence run | list | verify | page`: run suites, and say what their evidence permits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucsearch.cli.terminal import UNUSABLE, one_line, print_table, printable

if TYPE_CHECKING:
    from ucsearch.lab.suites.recheck.verify import EvidenceReport

__all__ = ["evidence_app"]

FALSE = 1
MALFORMED = 2

evidence_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run evaluation suites; check and show their evidence.",
)
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="An evidence folder, or one that holds several.")]
LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", help="The ledger of looks; default: looks.jsonl beside the evidence folder.")
]
FamilyOption = Annotated[
    list[str] | None,
    typer.Option("--family", metavar="NAME=PATH", help="Take a family's series from other files of the same form."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]


@evidence_app.command("run")
def run_suites(
    name: Annotated[list[str], typer.Argument(metavar="NAME...", help="Suites (`evidence list`), or TOML files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Evidence goes to OUT/<suite>.")] = Path("evidence"),
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Worker threads; default: all cores.")] = None,
    family: FamilyOption = None,
    underpowered: Annotated[
        bool, typer.Option("--underpowered", help="Open the test split although the value gate is unlikely to pass.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Stop before the look: print what validation chose and the power.")
    ] = False,
) -> None:
    """Run suites and write evidence.

    Each chooses on validation, looks at the test once, and classifies its evidence.

    A killed run goes on where it was. Every opening of a test split goes to the ledger OUT/looks.jsonl; running the
    same choice again is written down as a repeat, another choice as a second look, which costs the certificate.

    Exit codes: 0 evidence written, whatever its class; 2 no such suite, or data that is missing.
    """
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from ucsearch.lab.suites.job import RunOptions
    from ucsearch.lab.suites.report import write_reports
    from ucsearch.lab.suites.run import evaluate, rehearse
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

            options: RunOptions = {
                "threads": threads, "progress": progress, "underpowered": underpowered,
                "families": families, "say": bar.console.print,
            }  # fmt: skip
            if dry_run:
                selection, opens = rehearse(suite, out, **options)
            else:
                evidence = evaluate(suite, out, **options)
        if dry_run:
            typer.echo(f"{suite.name}: {selection['reason']}")
            typer.echo(f"  the test {'would be opened' if opens else 'stays closed'}; it was not opened")
            continue
        verdict = evidence.verdict
        typer.echo(f"{suite.name}: {verdict['class']}: {verdict['interpretation']}")
        for reason in verdict["reasons"][:5]:
            typer.echo(f"  {reason}")
        if verdict["value"]["class"] != "not asked":
            typer.echo(f"  value gate {verdict['value']['class']}: {verdict['value']['reasons'][0]}")
        if len(verdict["reasons"]) > 5:
            typer.echo(f"  and {len(verdict['reasons']) - 5} more")
        looks = evidence.statement["predicate"]["looks"]
        if looks > 1:
            typer.echo(f"  this was look {looks} at the test of {suite.name}: it shows nothing; fresh series would")
        typer.echo(f"  {write_reports(evidence.folder)[0]}")


@evidence_app.command("list")
def list_evidence(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder of evidence; the suites there are when not given.")
    ] = None,
    ledger: LedgerOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the suites, or what the evidence supports.

    Of all evidence below DIR: class, endpoint, key figures and what may be said. Classes are derived from the rows
    again before they are printed; evidence that does not agree with its own rows is named on stderr and left out.
    Sampled decisions are not verified here; `evidence verify` does that.

    Exit codes: 0 printed, 1 some evidence claims what is false, 2 some is malformed, or there is none.
    """
    if folder is not None:
        _claims(folder, ledger, as_json)
        return
    from ucsearch.lab.suites.suite import load_suite, suite_names

    names = suite_names()
    width = max(map(len, names))
    for name in names:
        typer.echo(f"{name:<{width}}  {load_suite(name).title}")


@evidence_app.command("verify")
def verify(
    folder: FolderArgument,
    decisions: Annotated[int, typer.Option("--decisions", "-n", min=0, help="Sampled decisions to verify.")] = 20,
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
    family: FamilyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Derive every figure of evidence again and compare.

    The drawn sample of its decisions is verified too.
    Rows are tied to the suite file (families, series, windows, decisions, candidates, comparators and their budgets),
    and looks to the ledger. Selection, tables and verdict are derived again by the functions that wrote them; the
    gate's rates and bounds also by a second program. No policy is run. A decision that cannot be verified within the
    budget counts as not right.

    Exit codes: 0 valid, 1 a claim is false (each is named), 2 malformed, or there is no evidence.
    """
    reports = _reports(folder, decisions=decisions, task=_task(task), ledger=ledger, kept=kept)
    if rerun is not None:
        families = dict(_pair(one) for one in family or [])
        reports = [_run_again(report, rerun, families) for report in reports]
    if as_json:
        import json

        typer.echo(json.dumps([_as_json(report) for report in reports], indent=2, ensure_ascii=False))
    else:
        for report in reports:
            typer.echo(_outcome(report), err=not report.ok)
            for note in report.notes:
                typer.echo(f"  note: {printable(note)}")
    raise typer.Exit(_worst(reports))


@evidence_app.command("page")
def page(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="One suite's evidence folder, or a folder that holds several.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write there instead: a file or folder for one suite, a folder for several."),
    ] = None,
) -> None:
    """Write evidence as pages.

    One self-contained HTML file per suite, and for several an index that starts with their status.

    Every figure is derived from the rows again before anything is written; evidence that does not agree with its own
    rows gets no report.

    Exit codes: 0 written, 2 no evidence, or some that is malformed or false.
    """
    from ucsearch.errors import UCSearchError
    from ucsearch.lab.suites.report import write_reports

    try:
        written = write_reports(directory, out)
    except UCSearchError as error:
        typer.echo(f"Error: {one_line(error)}", err=True)
        raise typer.Exit(UNUSABLE) from error
    for path in written:
        typer.echo(f"wrote {path}")


def _claims(folder: Path, ledger: Path | None, as_json: bool) -> None:
    from ucsearch.lab.suites.gates.claims import status_rows

    reports = _reports(folder, decisions=0, task=None, ledger=ledger)
    rows = status_rows([r.evidence.predicate for r in reports if r.ok and r.evidence is not None])
    if as_json:
        import json

        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        _print_claims(rows)
    for report in reports:
        if not report.ok:
            typer.echo(f"Left out: {_outcome(report)}", err=True)
    raise typer.Exit(_worst(reports))


def _reports(
    folder: Path, *, decisions: int, task: Any, ledger: Path | None, kept: str | None = None
) -> list[EvidenceReport]:
    from ucsearch.errors import UCSearchError
    from ucsearch.lab.suites.evidence.manifest import find_evidence
    from ucsearch.lab.suites.recheck.verify import verify_evidence

    try:
        folders = find_evidence(folder)
    except UCSearchError as error:
        typer.echo(f"Error: {printable(error)}", err=True)
        raise typer.Exit(MALFORMED) from error
    if not folders:
        typer.echo(f"Error: {folder}: no evidence (no manifest.json) at or below it", err=True)
        raise typer.Exit(MALFORMED)
    options: dict[str, Any] = dict(decisions=decisions, task=task, ledger=ledger, kept=kept)
    return [verify_evidence(one, **options) for one in folders]


def _run_again(report: EvidenceReport, share: float, families: dict[str, Path]) -> EvidenceReport:
    """The report with what a drawn share shows when it is run again; what is not valid is not run."""
    from dataclasses import replace

    from ucsearch.cli.terminal import told_or_shown
    from ucsearch.errors import UCSearchError
    from ucsearch.lab.suites.recheck.rerun import rerun

    if not report.ok or report.evidence is None:
        return report
    try:
        with told_or_shown() as progress:
            problems, notes = rerun(report.evidence, share, progress=progress, families=families)
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
        typer.echo(f"Error: --task: {printable(error)}", err=True)
        raise typer.Exit(MALFORMED) from error


def _worst(reports: list[EvidenceReport]) -> int:
    codes = {report.code for report in reports}
    return MALFORMED if MALFORMED in codes else FALSE if FALSE in codes else 0


def _outcome(report: EvidenceReport) -> str:
    name = printable(report.folder)
    if report.ok and report.evidence is not None:
        verdict = report.evidence.predicate["verdict"]
        return f"valid: {name}: {printable(verdict['class'])}, {printable(verdict['endpoint'])}"
    false = "".join(f"\n  {printable(problem)}" for problem in report.problems)
    if report.code == MALFORMED:
        return f"malformed: {name}: {printable(report.malformed)}{false}"
    count = len(report.problems)
    rest = f"\n  nothing more could be derived: {printable(report.malformed)}" if report.malformed else ""
    return f"FALSE: {name}: {count} claim{' does' if count == 1 else 's do'} not follow from the rows{false}{rest}"


def _as_json(report: EvidenceReport) -> dict[str, Any]:
    verdict = report.evidence.predicate["verdict"] if report.ok and report.evidence is not None else None
    return {
        "folder": report.folder.as_posix(),
        "status": ("valid", "false", "malformed")[report.code],
        "class": None if verdict is None else verdict["class"],
        "problems": [{"where": p.where, "claimed": p.claimed, "derived": p.derived} for p in report.problems],
        "malformed": report.malformed,
        "notes": list(report.notes),
    }


def _print_claims(rows: list[dict[str, str]]) -> None:
    names = ("class", "endpoint", "key figures", "value gate", "permitted interpretation")
    cells = [(r["class"], f"{r['endpoint']} ({r['suite']})", r["key"], r["value"], r["interpretation"]) for r in rows]
    print_table(names, cells, rules=True)


def _pair(text: str) -> tuple[str, Path]:
    """`name=path`."""
    from ucsearch.errors import InputError

    name, sign, path = text.partition("=")
    if not (name and sign and path):
        raise InputError("--family", repr(text), "NAME=PATH")
    return name, Path(path)
