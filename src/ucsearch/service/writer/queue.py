"""The bounded queue of the writer: what waits, who may wait, what is taken together, and who is refused at once because
those before take too long already."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from ucsearch.records.entries import Request
from ucsearch.records.log import AuditLog
from ucsearch.service.errors import Problem
from ucsearch.service.writer.plans import Plan

__all__ = ["Call", "Job", "Queue", "Turn"]

_FEW = 4  # parts of a batch below which it says nothing about the time that an item takes
_SMOOTH = 0.2  # weight of the last batch in the time that an item takes
_STOPPING_S = 5  # after which somebody may ask again


@dataclass(eq=False)
class Job:
    """One request to decide."""

    plan: Plan
    rows: Sequence[Mapping[str, Any]]
    request: Request  # of its first item
    future: Future[bytes] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def items(self) -> int:
        return len(self.rows)


@dataclass(eq=False)
class Call:
    """Something that runs alone."""

    run: Callable[[Turn], Any]
    items: int = 1
    future: Future[Any] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Turn(NamedTuple):
    """The writer's turn of a call: the log, and the time."""

    log: AuditLog
    now: datetime


class Queue:
    """Put to by any thread, taken from by the deciding one, which also says what is at work."""

    def __init__(self, most: int, longest_s: float, batch: int) -> None:
        """`most` items wait, what is not answered takes `longest_s` or is a `batch`."""
        self._most, self._longest_s, self.batch = most, longest_s, batch
        self.pace_s = 0.0  # that an item takes among others, lately
        self.deciding = 0  # items that are decided and not answered yet
        self.waiting = 0
        self.is_stopping = False
        self._jobs: deque[Job | Call] = deque()
        self._changed = threading.Condition()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def is_crowded(self) -> bool:
        return self.waiting >= 0.9 * self._most

    @property
    def _unanswered(self) -> int:
        return self.waiting + self.deciding

    def _takes_long(self, unanswered: int) -> bool:
        # Whoever waits first goes next, and a batch is worth waiting for; beyond that it is a matter of time.
        return self.waiting > 0 and unanswered >= self.batch and unanswered * self.pace_s > self._longest_s

    def make_room(self, items: int = 1) -> None:
        """Refuse a request to decide where too many wait, or where those before it take too long already: an answer in
        time to some is worth more than a late one to all. A batch may always wait."""
        waiting, unanswered = self.waiting, self._unanswered
        if waiting and waiting + items > self._most:  # one that is larger than the queue waits alone
            raise Problem("queue_full", f"{waiting} items wait, at most {self._most}")
        if self._takes_long(unanswered):
            needed_s = unanswered * self.pace_s
            text = f"{unanswered} items are not answered, which takes {needed_s:.2g} s, at most {self._longest_s:g} s"
            raise Problem("queue_full", text, retry_after=max(1, round(needed_s)))

    def put(self, job: Job | Call) -> None:
        with self._changed:
            if self.is_stopping:
                raise stopping_problem()
            if isinstance(job, Job):
                self.make_room(job.items)
            elif self.waiting > 2 * self._most:  # a person's pause must get through where decisions do not
                raise Problem("queue_full", f"{self.waiting} items wait")
            self._jobs.append(job)
            self.waiting += job.items
            self._changed.notify()

    def take(self, timeout_s: float) -> list[Job] | Call | None:
        """What is next: one call, or jobs up to a batch, without waiting for more of them. Nothing ([]) where nobody
        came in time; None where nobody will."""
        with self._changed:
            while not self._jobs:
                if self.is_stopping:
                    return None
                if not self._changed.wait(timeout_s):
                    return []
            first = self._jobs.popleft()
            self.waiting -= first.items
            if isinstance(first, Call):
                return first
            taken, count = [first], first.items
            while self._jobs and isinstance(head := self._jobs[0], Job) and count + head.items <= self.batch:
                self._jobs.popleft()
                taken.append(head)
                count += head.items
                self.waiting -= head.items
            return taken

    def took(self, items: int, seconds: float) -> None:
        """So long it took to decide so many."""
        if items >= self.batch // _FEW:  # a few take longer each, and nobody is refused for them
            self.pace_s += _SMOOTH * (seconds / items - self.pace_s)

    def stop(self) -> None:
        """Take no more; what waits is still worked off."""
        with self._changed:
            self.is_stopping = True
            self._changed.notify()

    def refuse_all(self) -> None:
        with self._changed:
            left, self._jobs = list(self._jobs), deque()
            self.waiting = 0
        for job in left:
            job.future.set_exception(stopping_problem())


def stopping_problem() -> Problem:
    return Problem("not_ready", "the service is stopping", retry_after=_STOPPING_S)
