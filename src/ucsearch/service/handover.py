"""Whether a batch is committed by the thread that decided it, or handed to the other one so that the next is decided
meanwhile.

Both threads share the interpreter. Handed over, a commit of 0.9 ms took 4.5 beside a batch that was decided, and that
batch took longer too: with 64 clients 1.5 instead of 1.1 ms of processor time a decision. It pays where the disk takes
longer than deciding does. And where more comes than can be worked off: refusals take turns with deciding then, and of
three threads two decide and commit.
"""

from __future__ import annotations

__all__ = ["Handover"]

_SMOOTH = 0.2  # weight of the last commit in the time that one waits
_LOOK = 16  # batches after which one is committed here again, to see whether the disk is still slow


class Handover:
    """The deciding thread's alone."""

    def __init__(self) -> None:
        self._waits_s = 0.0  # that a commit waits for the disk, lately
        self._handed = 0  # batches since one was committed here

    def pays(self, decide_s: float, refused: bool) -> bool:
        """For a batch that took so long to decide, with others waiting; `refused`: others were, meanwhile."""
        if refused:
            return True
        if self._waits_s <= decide_s or self._handed >= _LOOK:
            self._handed = 0
            return False
        self._handed += 1
        return True

    def waited(self, seconds: float) -> None:
        """A commit in the deciding thread took so much longer than the processor worked on it."""
        self._waits_s += _SMOOTH * (max(0.0, seconds) - self._waits_s)
