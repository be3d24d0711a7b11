"""`ucsearch allocate`: shared limits over the decisions of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.planner import SettingsArgument, reported
from ucsearch.cli.terminal import NEEDS_A_PERSON

__all__ = ["allocate"]


def allocate(
    settings: SettingsArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Shares, .csv or .parquet; replaced as a whole.")],
    log: Annotated[
        Path, typer.Option("--log", "-l", envvar="UCSEARCH_LOG", help="The audit log with the decisions.")
    ] = Path("decisions.db"),
    states: Annotated[
        Path | None, typer.Option("--states", "-s", help="File with the columns that [[shared]] names.")
    ] = None,
    prices: Annotated[Path | None, typer.Option("--prices", help="Write use and price of every limit there.")] = None,
    line: Annotated[Path | None, typer.Option("--next", help="Write who would get more first there.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw value against the first limit there.")] = None,
    gap_share: Annotated[float, typer.Option("--gap-share", help="Gap allowed, of what the limits cost.")] = 0.01,
    paths: Annotated[
        int, typer.Option("--paths", min=20, max=10_000, help="Simulated paths, where limits hold at later steps.")
    ] = 24,
    common: Annotated[
        bool, typer.Option("--common-draws", help="On paths all series see outcomes of one rank, such as a price.")
    ] = False,
    best: Annotated[bool, typer.Option("--best", help="Let the allocation leave although its gap is larger.")] = False,
) -> None:
    """Share limits (a truck, a budget) among the newest decisions of all series in the log.

    The limits are the settings' [[shared]] tables. The allocation is recorded in the log, and `verify` checks it.

    Exit codes: 0 allocated; 1 not allocated: no proof within the gap, or a limit that cannot be kept; 2 unusable
    settings or files.
    """
    from datetime import UTC, datetime

    from ucsearch.planner.files.table import check_writable, refuse_overwriting
    from ucsearch.planner.recorded.allocate import run_allocate, write_next, write_prices, write_shares
    from ucsearch.planner.settings import load_settings

    with reported():
        outputs = {"--out": out, "--prices": prices, "--next": line, "--plot": plot}
        refuse_overwriting(outputs, {"SETTINGS": settings, "--states": states, "--log": log})
        for path in filter(None, (out, prices, line)):
            check_writable(path)
        found = run_allocate(
            load_settings(settings), log, states, gap_share=gap_share, serve="best" if best else "fallback",
            paths=paths, draws="common" if common else "independent", clock=lambda: datetime.now(UTC),
        )  # fmt: skip
        write_shares(found, out)
        if prices is not None:
            write_prices(found, prices)
        if line is not None:
            write_next(found, line)
        if plot is not None and found.result is not None and found.result.feasible:
            found.plot().savefig(plot)
    typer.echo(found.explain())
    typer.echo(f"{len(found)} shares in {out}, recorded as {found.record_id[:12]} in {log}")
    if not found.served:
        raise typer.Exit(NEEDS_A_PERSON)
