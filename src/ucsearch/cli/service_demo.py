"""`ucsearch service demo`: a running service with something to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Keep everything there; without it all is thrown away at the end.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1; 0 takes any.")] = 8411,
    seconds: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.0, help="Stop by itself after so long.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when the first periods were decided.")] = False,
) -> None:
    """Start a demonstration on this machine.

    A service with a plan and a simulated stream of forecasts and outcomes.

    Prints the console's address and a login for every role; stops cleanly with Ctrl-C.

    Exit codes: 0 stopped, 1 it could not start, or nothing was decided.
    """
    import signal
    import tempfile

    from ucsearch.errors import InputError
    from ucsearch.service.demo import run_demo

    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("--folder", str(folder), "a new or empty folder")
    # A server has handlers of its own while it runs; before, a SIGTERM would leave the folder behind.
    signal.signal(signal.SIGTERM, _stop)
    try:
        if folder is not None:
            sent = run_demo(folder, port=port, seconds=seconds, once=once, say=_say)
        else:
            with tempfile.TemporaryDirectory(prefix="ucsearch-service-") as temporary:
                sent = run_demo(Path(temporary), port=port, seconds=seconds, once=once, say=_say)
    except KeyboardInterrupt:
        _say("Stopped before it was ready.")
        return
    if not sent:
        raise typer.Exit(1)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    typer.echo(text)
