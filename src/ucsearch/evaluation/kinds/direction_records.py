"""Where older records find the task of direction suites; addresses are a promise."""

from ucsearch.evaluation.kinds.direction.records import TASK

__all__ = ["TASK"]
