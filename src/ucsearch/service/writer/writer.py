"""One thread decides and commits, in the order in which requests came; nothing is answered before its commit.

Requests wait in a bounded queue, and are refused at once where those before them take too long already. The thread
takes what is there, up to a batch, without waiting for more. Whatever must see the log as it is (an override, outcomes,
a pause) runs alone between two batches."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ucsearch.decision.decision import Outcome
from ucsearch.errors import RecordError
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import GENESIS, AlteredEntry, Entry, Request, Row, Sealed
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.service.config import Limits
from ucsearch.service.errors import ApiProblem
from ucsearch.service.notify import Notifier
from ucsearch.service.observability import Metrics
from ucsearch.service.storage import Integrity
from ucsearch.service.upkeep import Upkeep
from ucsearch.service.writer.answers import answers
from ucsearch.service.writer.plan_state import PlanStates
from ucsearch.service.writer.plans import Item, ServicePlan

__all__ = ["DecideJob", "LoneCall", "Queue", "Turn", "Writer"]

_FEW = 4  # parts of a batch below which it says nothing about the time that an item takes
_SMOOTH = 0.2  # weight of the last batch in the time that an item takes
_STOPPING_S = 5  # after which somebody may ask again


@dataclass(eq=False)
class DecideJob:
    """One request to decide."""

    plan: ServicePlan
    rows: Sequence[Mapping[str, Any]]
    request: Request  # of its first item
    future: Future[bytes] = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)

    @property
    def items(self) -> int:
        return len(self.rows)


@dataclass(eq=False)
class LoneCall:
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
        self._jobs: deque[DecideJob | LoneCall] = deque()
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
            raise ApiProblem("queue_full", f"{waiting} items wait, at most {self._most}")
        if self._takes_long(unanswered):
            needed_s = unanswered * self.pace_s
            text = f"{unanswered} items are not answered, which takes {needed_s:.2g} s, at most {self._longest_s:g} s"
            raise ApiProblem("queue_full", text, retry_after=max(1, round(needed_s)))

    def put(self, job: DecideJob | LoneCall) -> None:
        with self._changed:
            if self.is_stopping:
                raise stopping_problem()
            if isinstance(job, DecideJob):
                self.make_room(job.items)
            elif self.waiting > 2 * self._most:  # a person's pause must get through where decisions do not
                raise ApiProblem("queue_full", f"{self.waiting} items wait")
            self._jobs.append(job)
            self.waiting += job.items
            self._changed.notify()

    def take(self, timeout_s: float) -> list[DecideJob] | LoneCall | None:
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
            if isinstance(first, LoneCall):
                return first
            jobs, count = [first], first.items
            while self._jobs and isinstance(head := self._jobs[0], DecideJob) and count + head.items <= self.batch:
                self._jobs.popleft()
                jobs.append(head)
                count += head.items
                self.waiting -= head.items
            return jobs

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
            jobs, self._jobs = list(self._jobs), deque()
            self.waiting = 0
        for job in jobs:
            job.future.set_exception(stopping_problem())


def stopping_problem() -> ApiProblem:
    return ApiProblem("not_ready", "the service is stopping", retry_after=_STOPPING_S)


_log = logging.getLogger("ucsearch.service")
_AGAIN_S = 1.0  # between tries to open a log that failed


DecidedJobs = list[tuple[DecideJob, list[Sealed]]]  # requests with their records


class Writer:
    """The queue and its thread."""

    def __init__(
        self, open_log: Callable[[], AuditLog], open_reader: Callable[[], AuditReader],
        confirm: Callable[[Checkpoint], None], states: PlanStates, clock: Callable[[], datetime], metrics: Metrics,
        limits: Limits, integrity: Integrity, upkeep: Upkeep, notifier: Notifier,
    ) -> None:  # fmt: skip
        """`confirm` raises where the log does not hold what was seen of it."""
        self._open_log, self._open_reader, self._confirm = open_log, open_reader, confirm
        self._states, self._clock, self._metrics = states, clock, metrics
        self._integrity, self._upkeep, self._notifier = integrity, upkeep, notifier
        self.queue = Queue(limits.queue_items, limits.queue_s, limits.batch_items)
        self._log: AuditLog | None = None
        self._reader: AuditReader | None = None  # deciding must not wait for the commit's connection
        self._last_seen = Checkpoint(0, GENESIS)
        self._stale = False  # the log was reopened, or a call failed half-way: what is known comes from the log again
        self._thread = threading.Thread(target=self._work, name="ucsearch-decide", daemon=True)

    # From any thread

    def start(self) -> None:
        """Open the log, learn what it says, begin to work."""
        self._open()
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self.queue.is_stopping

    @property
    def is_cut_off(self) -> bool:
        """The log failed at the last try."""
        return self._log is None

    def decide(self, plan: ServicePlan, rows: Sequence[Mapping[str, Any]], request: Request) -> Future[bytes]:
        """Queue a request; its future holds the bytes of the answer once they are true."""
        job = DecideJob(plan, rows, request)
        self.queue.put(job)
        return job.future

    def call(self, run: Callable[[Turn], Any], items: int = 1) -> Future[Any]:
        """Queue something that runs alone."""
        call = LoneCall(run, items)
        self.queue.put(call)
        return call.future

    def forget(self) -> None:
        """What is known besides the log is wrong: it is made again before the next batch."""
        self._stale = True

    def stop(self, timeout_s: float = 10.0) -> None:
        """Work off what waits, then close the log."""
        self.queue.stop()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        self.queue.refuse_all()
        for book in (self._log, self._reader):
            if book is not None:
                book.close()

    # The deciding thread

    def _work(self) -> None:
        # A log that failed is tried again, although nobody asks while the service says that it is not ready.
        while (batch := self.queue.take(_AGAIN_S)) is not None:
            try:
                if not batch:
                    self._reopen()
                elif isinstance(batch, LoneCall):
                    self._run_call(batch)
                else:
                    self._run_batch(batch)
            except BaseException as error:  # a bug: whoever waits is told, the thread goes on
                _log.exception("the writer failed")
                jobs = [batch] if isinstance(batch, LoneCall) else batch
                for job in jobs:
                    if not job.future.done():
                        job.future.set_exception(error)
                self._stale = True
            del batch  # a large request would be kept until the next one

    def _reopen(self) -> None:
        with contextlib.suppress(RecordError):
            self._open()

    def _open(self) -> AuditLog:
        if self._log is not None:
            try:
                self._log.check_place()
            except RecordError as error:
                _log.error("the log is given up: %s", error)
                self._give_up()
        if self._log is None:
            # However it came back (a folder put in its place, a server that took over): what was answered is in it.
            self._confirm(self._last_seen)
            self._log = self._open_log()
            self._last_seen = self._log.checkpoint(max_marks=0)
            self._stale = True
        if self._stale:
            self._forget_reader()
            self._states.rebuild(self._log)
            self._states.arm(self._log, self._clock())
            self._stale = False
        return self._log

    def _forget_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _give_up(self) -> None:
        """The log failed: it is opened again before it is used again."""
        log, self._log = self._log, None
        if log is not None:
            if log.last is not None:
                self._last_seen = Checkpoint(log.last.seq, log.last.head)
            try:
                log.close()
            except Exception:  # it is given up in any case
                _log.warning("the log could not be closed", exc_info=True)

    def _run_call(self, call: LoneCall) -> None:
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            call.future.set_result(call.run(Turn(self._open(), self._clock())))
        except RecordError as error:
            call.future.set_exception(self._log_problem(error))
        except BaseException as error:
            call.future.set_exception(error)

    def _log_problem(self, error: RecordError) -> ApiProblem:
        if isinstance(error, AlteredEntry):
            self._integrity.report(str(error))
            return ApiProblem("log_altered", str(error), retry_after=60)
        _log.error("the log cannot be written: %s", error)
        self._give_up()
        return ApiProblem("audit_unavailable", "the log cannot be written", retry_after=2)

    def _run_batch(self, batch: list[DecideJob]) -> None:
        started = time.monotonic()
        batch = [job for job in batch if job.future.set_running_or_notify_cancel()]
        if not batch:
            return
        self.queue.deciding = sum(job.items for job in batch)
        try:
            self._decide_jobs(batch, started)
        finally:
            self.queue.deciding = 0

    def _decide_jobs(self, batch: list[DecideJob], started: float) -> None:
        items = self.queue.deciding
        try:
            self._open()
            fresh = self._answer_repeats(batch)
        except RecordError as error:
            self._forget_reader()
            problem = self._log_problem(error)
            for job in batch:
                job.future.set_exception(problem)
            return
        try:
            self._integrity.check()
        except ApiProblem as problem:
            for job in fresh:
                job.future.set_exception(problem)
            return
        decided = self._decide(fresh)
        self._metrics.batch(items, started - batch[0].since, time.monotonic() - started)
        self.queue.deciding = sum(len(bodies) for _, bodies in decided)
        if decided:
            self._commit(decided)
        self.queue.took(items, time.monotonic() - started)

    def _answer_repeats(self, batch: list[DecideJob]) -> list[DecideJob]:
        """Answer what the log has already; returns the rest."""
        if self._reader is None:
            self._reader = self._open_reader()
        keys = [job.request.key for job in batch]
        recorded = self._reader.find_requests(keys)
        fresh = []
        for job in batch:
            rows = recorded.get(job.request.key)
            if rows is None:
                fresh.append(job)
            elif rows[0].record["request"].get("body") != job.request.body:
                job.future.set_exception(ApiProblem("key_reused", "the key was used with another body"))
            else:
                job.future.set_result(answers(rows))
        return fresh

    def _decide(self, jobs: Sequence[DecideJob]) -> DecidedJobs:
        """Jobs of one plan and one shape together, as long as no series comes twice."""
        now = self._clock()
        rounds: dict[tuple[Any, ...], list[tuple[list[DecideJob], set[str]]]] = {}
        for job in jobs:
            names = {str(row["series"]) for row in job.rows}
            groups_of_shape = rounds.setdefault((job.plan.name, _shape(job)), [])
            for group, series in groups_of_shape:
                if series.isdisjoint(names):
                    group.append(job)
                    series |= names
                    break
            else:
                groups_of_shape.append(([job], names))
        bodies: dict[int, list[Sealed]] = {}
        for groups in rounds.values():
            for group, _ in groups:
                bodies |= self._decide_group(group, now)
        return [(job, bodies[id(job)]) for job in jobs if id(job) in bodies]

    def _decide_group(self, group: Sequence[DecideJob], now: datetime) -> dict[int, list[Sealed]]:
        plan = group[0].plan
        items = [Item(row, job.request.at(i)) for job in group for i, row in enumerate(job.rows)]
        try:
            calibrations = self._states.calibrations(plan, [item.series for item in items], now)
            bodies = plan.decide(items, now, calibrations, self._states.paused(plan, now))
        except ApiProblem as problem:
            if len(group) > 1:  # one of them is to blame, the others are not
                return {k: v for job in group for k, v in self._decide_group([job], now).items()}
            group[0].future.set_exception(problem)
            return {}
        except Exception as error:
            if len(group) > 1:
                return {k: v for job in group for k, v in self._decide_group([job], now).items()}
            _log.exception("deciding failed")
            group[0].future.set_exception(error)
            return {}
        out, at = {}, 0
        for job in group:
            out[id(job)] = bodies[at : at + job.items]
            at += job.items
        return out

    def _commit(self, decided: DecidedJobs) -> None:
        started = time.monotonic()
        bodies = [body for _, own_bodies in decided for body in own_bodies]
        try:
            if self._log is None:
                raise RecordError("the log is closed")
            entries = self._log.append_sealed(bodies)
        except BaseException as error:
            problem: BaseException = error
            if isinstance(error, RecordError):
                problem = self._log_problem(error)
            for job, _ in decided:
                job.future.set_exception(problem)
            return
        self._metrics.committed(time.monotonic() - started, entries[-1].seq)
        at = 0
        for job, own_bodies in decided:
            rows = [_row(e, b) for e, b in zip(entries[at : at + len(own_bodies)], own_bodies, strict=True)]
            at += len(own_bodies)
            self.queue.deciding -= len(own_bodies)  # whoever is answered may ask again before the others are
            try:
                job.future.set_result(answers(rows, partial(self._record_of, job.plan)))
            except BaseException as error:  # recorded all the same; a repeat finds it
                self._stale = True
                job.future.set_exception(error)
            self._metrics.decided(job.plan.name, own_bodies)
            self._tell_holds(job, own_bodies)
        self._upkeep.after(entries[-1])

    def _tell_holds(self, job: DecideJob, bodies: Sequence[Sealed]) -> None:
        outcomes = [body.decision.outcome for body in bodies]
        on_hold = [str(row["series"]) for row, o in zip(job.rows, outcomes, strict=True) if o is Outcome.HOLD]
        if on_hold:
            self._notifier.tell("hold", job.plan.name, on_hold)

    def _record_of(self, plan: ServicePlan, row: Row) -> Mapping[str, Any]:
        """The record of an entry just written, as answers and monitors need it: our own bytes, canonical."""
        record: Mapping[str, Any] = json.loads(row.body)
        if plan.watching is not None:
            self._states.expect(plan, record)
        return record


def _row(entry: Entry, body: Sealed) -> Row:
    return Row(entry.seq, entry.id, entry.digest, entry.head, None, body.body)


def _shape(job: DecideJob) -> tuple[Any, ...]:
    """What makes rows one panel: names of the state, and kind and number of the forecast's columns."""
    row = job.rows[0]
    forecast = row["forecast"]
    members = forecast.get("members")
    return (tuple(sorted(row)), tuple(sorted(forecast)), len(members) if members is not None else 0)
