"""An option that takes one value, given twice: of the two files of `--forecasts a --forecasts b` the parser would take
the last one without a word, and half a job would look like the whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer

__all__ = ["each_once"]


def each_once(command: Any) -> Any:
    """A made command (or group) that refuses an option of one value that is given twice."""
    for one in getattr(command, "commands", {}).values():
        each_once(one)
    make_parser = command.make_parser

    def strict(context: Any) -> Any:
        parser = make_parser(context)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            options, left, order = parse(args=args)
            for option, times in Counter(order).items():
                if times > 1 and _is_single(option):
                    raise typer.BadParameter(f"given {times} times; it takes one value", ctx=context, param=option)
            return options, left, order

        parser.parse_args = parse_args
        return parser

    command.make_parser = strict
    return command


def _is_single(option: Any) -> bool:
    return option.param_type_name == "option" and not (option.multiple or option.is_flag or option.count)
