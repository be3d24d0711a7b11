"""How many random cases a test tries: a sixth of them in `make test`, all of them in `make test-slow`."""

from __future__ import annotations

import os

__all__ = ["some"]

ALL = os.environ.get("UCSEARCH_CASES") == "all"


def some(count: int) -> int:
    return count if ALL else max(1, count // 6)
