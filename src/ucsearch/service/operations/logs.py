"""The text log: JSON lines on stderr without forecasts, states or tokens."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

__all__ = ["JsonLines", "set_up_logging"]


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": at, "level": record.levelname.lower(), "event": record.getMessage()}
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            # Type and place, not the text: a message may quote somebody's numbers.
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
            line["error"], line["where"] = record.exc_info[0].__name__, place
        return json.dumps(line, ensure_ascii=False)


def set_up_logging(level: int = logging.INFO) -> None:
    """The service's own logger, and nothing of uvicorn's but errors, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, at in (("ucsearch", level), ("uvicorn", logging.WARNING), ("uvicorn.access", logging.CRITICAL)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(at)
