"""How much a test tries: a sixth of its random cases or a smaller size by default, the whole with the slow tests."""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["sizes", "some"]

ALL = os.environ.get("UCSEARCH_CASES") == "all"


def some(count: int) -> int:
    return count if ALL else max(1, count // 6)


def sizes(small: Any, whole: Any) -> list[Any]:
    """For `parametrize`: the small size, and the whole one among the slow tests."""
    return [small, pytest.param(whole, marks=pytest.mark.slow)]
