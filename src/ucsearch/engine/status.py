"""Closed lists shared by both engines: how a search ended, what is known of a first action, what went wrong."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["COMPLETION_CAP", "DP_SWITCH", "ENUMERATE_BELOW", "HIGH", "LOW", "MIDDLE", "Fault", "First", "Status"]

COMPLETION_CAP = 100_000  # nodes spent on telling a dead end from an exhausted search
ENUMERATE_BELOW = 4_096  # paths; below this, plain enumeration beats hashing states
LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9  # levels of the outcomes after which a closed-loop policy is shown
DP_SWITCH = 20_000  # branch-and-bound nodes after which dynamic programming is tried


class Status(IntEnum):
    """How a search ended. Only FOUND and PROVED carry a path that may be considered for release."""

    FOUND = 0  # a feasible path of full depth, nothing proved
    PROVED = 1  # a feasible path whose first action is proved optimal
    NOT_PROVED = 2  # exact search ran out of its budget; the path is the best seen
    DEAD_END = 3  # no first action has a completion of full depth
    SEARCH_EXHAUSTED = 4  # the search lost all paths although one exists (or none was found within the cap)
    TASK_ERROR = 5  # a task function raised, or gave something unusable
    NO_STRUCTURE = 6  # closed mode, but the forecast does not say what is learned when
    OUT_OF_TIME = 7  # ended by the caller before it was done: nothing is known

    def __str__(self) -> str:
        return self.name


class First:
    """Bits of what is known about a first action."""

    FEASIBLE = 1  # allowed at the root
    GENERATED = 2  # expanded at the root
    RETAINED = 4  # starts a retained path of full depth
    DUPLICATE = 8  # same effect as a smaller action, which stands for it
    EXACT = 16  # its value is exact
    DEAD = 32  # proved to have no completion of full depth


class Fault:
    """What a task function did wrong."""

    NONE = 0
    REWARD = 1
    STATE = 2
    BOUND = 3
    TERMINAL = 4
    VALUE = 5  # finite rewards whose sum is not finite
    CONTINUATION = 6
    RAISED = 7
    END = 8

    TEXT = (
        "",
        "reward is not a finite number",
        "step returned a state that is not finite",
        "bound returned NaN",
        "terminal is not a finite number",
        "the sum of rewards along a path is not finite",
        "a continuation returned an action that is not a finite number",
        "feasible raised an exception or gave neither True nor False",
        "allowed_end raised an exception or gave neither True nor False",
    )
    ROLE = ("", "reward", "step", "prepare or bound", "terminal", "", "a continuation", "feasible", "allowed_end")
