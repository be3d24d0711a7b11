"""What verification may cost: states looked at, and the work done for them. Nothing loops without paying here."""

from __future__ import annotations

WORK_A_NODE = 16  # calls of task functions, or as much work of our own, for every node of the budget
FREE_WORK = 200_000


class OutOfNodes(Exception):
    """The node budget is used up."""


class Meter:
    """Counts states down to nothing; a share of it counts on the whole as well. Work is counted on the whole only."""

    def __init__(self, nodes: int, whole: Meter | None = None) -> None:
        self.left, self.whole = nodes, whole
        self.work = FREE_WORK + WORK_A_NODE * nodes

    def spend(self, states: int) -> None:
        self.left -= states
        if self.left < 0:
            raise OutOfNodes
        if self.whole is not None:
            self.whole.spend(states)

    def toil(self, units: int) -> None:
        """So many calls of task functions, or as much work of our own."""
        self.work -= units
        if self.work < 0:
            raise OutOfNodes
