"""How a stream's evidence went, in few numbers: a picture of it must not cost a replay of the log."""

from __future__ import annotations

from array import array

__all__ = ["MOST", "Past"]

MOST = 120  # points; a multiple of two, because they are joined in pairs


class Past:
    """Evidence after each outcome. Once there are `MOST` points every two become one, which keeps the larger."""

    __slots__ = ("_free", "points", "width")

    def __init__(self) -> None:
        self.points = array("f")  # most evidence of `width` outcomes each; a picture needs no more digits
        self.width = 1
        self._free = 0  # outcomes that the last point still takes

    def add(self, evidence: float) -> None:
        value = min(evidence, 3e38)
        if self._free:
            self._free -= 1
            if value > self.points[-1]:
                self.points[-1] = value
            return
        if len(self.points) == MOST:
            old = self.points
            self.points = array("f", map(max, old[::2], old[1::2]))
            self.width *= 2
        self.points.append(value)
        self._free = self.width - 1

    def curve(self) -> tuple[tuple[float, float], ...]:
        """(number of the outcome, evidence), oldest first; a point is the most of its outcomes."""
        points, width, free = array("f", self.points), self.width, self._free
        numbers = [float((i + 1) * width) for i in range(len(points))]
        if numbers:
            numbers[-1] -= free
        return tuple(zip(numbers, points, strict=True))
