"""Times that requests name: only such as the verifier takes, which wants them to exist in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["moment_of"]


def moment_of(text: str) -> datetime | None:
    """A time with its offset from UTC; None where it has none, or is none. Near both ends of the calendar there are
    times that no other zone has, and nothing can be counted from them."""
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.utcoffset() is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
