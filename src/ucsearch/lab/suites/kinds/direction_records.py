"""Where older records find the task of direction suites; addresses are a promise."""

from ucsearch.lab.suites.kinds.direction.certificates import TASK

__all__ = ["TASK"]
