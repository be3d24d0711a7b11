"""The `ucsearch` command."""

from ucsearch.cli.main import app, main

__all__ = ["app", "main"]
