"""`ucsearch service demo`: a running service with something to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Keep everything there; else all is thrown away at the end.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1; 0 takes any.")] = 8411,
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
        raise InputError("DIR", str(folder), "a new or empty folder")
    # A server has handlers of its own while it runs; before, a SIGTERM would leave the folder behind.
    signal.signal(signal.SIGTERM, _stop)
    try:
        if folder is not None:
            sent = run_demo(folder, port=port, once=once, say=_say)
        else:
            with tempfile.TemporaryDirectory(prefix="ucsearch-service-") as temporary:
                sent = run_demo(Path(temporary), port=port, once=once, say=_say)
    except KeyboardInterrupt:
        _say("Stopped before it was ready.")
        return
    if not sent:
        raise typer.Exit(1)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _say(text: str) -> None:
    typer.echo(text)
