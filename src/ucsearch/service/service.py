"""The running service: configuration, plans, tokens, log, writer. Endpoints and console are built on this object."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from ucsearch.errors import RecordError
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import AlteredEntry, Request
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.records.overrides import built_in_task
from ucsearch.records.postgres import AnotherService
from ucsearch.service.config import Config
from ucsearch.service.errors import ApiProblem
from ucsearch.service.monitoring import Realised
from ucsearch.service.notify import Notifier, targets
from ucsearch.service.observability import Metrics
from ucsearch.service.queries import Tally, find_row
from ucsearch.service.schemas import Verified
from ucsearch.service.storage import Integrity, confirm, confirm_seen, open_log, open_reader, size_of
from ucsearch.service.tokens import FILE as TOKENS
from ucsearch.service.tokens import Principal, Scope, TokenBook, asker
from ucsearch.service.upkeep import Upkeep
from ucsearch.service.writer.plan_state import PlanStates
from ucsearch.service.writer.plans import ServicePlan, load_plan
from ucsearch.service.writer.writer import Turn, Writer
from ucsearch.task import Task

__all__ = ["Service", "request_of"]

T = TypeVar("T")
_log = logging.getLogger("ucsearch.service")
_READERS = 4
_READS = 2  # of one token at a time: others find a reader free
_READS_WAITING = 32  # of one token; a browser has a few
_VERIFIERS = 8  # who wait while one is at work
_SMALL = 32 << 10  # bytes that are parsed where they are: another thread would take longer to begin
_STANDBY_S = (0.02, 1.0)  # between two looks, from and to


def request_of(principal: Principal, path: str, key: str, raw: bytes) -> Request:
    """The request that an idempotency key names: something else for another caller and another path."""
    named = hashlib.sha256()
    for part in (principal.name, path, key):
        data = part.encode("utf-8")
        named.update(len(data).to_bytes(8, "big") + data)
    return Request(named.hexdigest(), body=hashlib.sha256(raw).hexdigest(), by=principal.name)


class _Reads:
    """Read queries of one token."""

    def __init__(self) -> None:
        self.turn = asyncio.Semaphore(_READS)
        self.count = 0  # waiting and at work


class Service:
    """Made by `Service.open`, started by `start`, ended by `stop`."""

    def __init__(
        self, config: Config, folder: Path, plans: Mapping[str, ServicePlan], tokens: TokenBook,
        clock: Callable[[], datetime] | None = None,
    ) -> None:  # fmt: skip
        self.config, self.folder, self.plans, self.tokens = config, folder, dict(plans), tokens
        self.clock = clock or (lambda: datetime.now(UTC))
        self.metrics = Metrics()
        self.notifier = Notifier(targets(config.webhook, folder), self.metrics, self.clock)
        self.integrity = Integrity(self.metrics, lambda fault: self.notifier.tell("log_altered", message=fault))
        self.plan_states = PlanStates(self.plans)
        self.upkeep = Upkeep(config, folder, self.clock, self.notifier)
        self.started, self.is_standby = False, False
        self.beat_at = 0.0  # time.monotonic() at which the event loop last went round; 0 before it does
        self._generation = 0
        self._in_flight: dict[str, tuple[str, asyncio.Future[Any]]] = {}
        self._readers = ThreadPoolExecutor(_READERS, "ucsearch-read")
        self._parser = ThreadPoolExecutor(1, "ucsearch-parse")  # one: each would keep the memory of its largest body
        self._reads: dict[str, _Reads] = {}  # by token, of those who read now
        self._local = threading.local()
        self.verifying, self._verifiers = asyncio.Semaphore(1), 0
        self.tally = Tally()
        self.realised = Realised(self.task_of)
        self.writer = Writer(
            self._open_log, self._open_reader, self._confirm_seen, self.plan_states, self.clock, self.metrics,
            config.limits, self.integrity, self.upkeep, self.notifier,
        )  # fmt: skip

    @classmethod
    def open(cls, config: Config, folder: Path, clock: Callable[[], datetime] | None = None) -> Service:
        """Read plans and tokens; nothing is listened to yet."""
        plans = {table.name: load_plan(table, folder) for table in config.plan}
        return cls(config, folder, plans, TokenBook(folder / TOKENS, clock), clock)

    def start(self) -> None:
        """Confirm checkpoint and digests and begin to work; raises where the log is not the one it was. Waits while
        another service holds the log."""
        pause_s = _STANDBY_S[0]
        while True:
            confirm(self.config.store, self.folder)
            try:
                self.writer.start()
                break
            except AnotherService:
                if not self.is_standby:
                    _log.info("standby: another service holds the log")
                self.is_standby = True
                time.sleep(pause_s)  # short at first: whoever was killed a moment ago is gone in the next
                pause_s = min(2.0 * pause_s, _STANDBY_S[1])
        self.is_standby = False
        try:
            self.integrity.start(self._open_reader)
        except RecordError:
            self.writer.stop()
            raise
        with self._open_reader() as reader:
            self.metrics.entries.set(reader.count())
        self.upkeep.start()
        self.started = True

    def stop(self) -> None:
        self.started = False
        self.upkeep.stop()
        self.integrity.stop()
        self.writer.stop()
        self._readers.shutdown(wait=True)
        self._parser.shutdown(wait=True)
        try:
            with self._open_reader() as reader:
                self.upkeep.write_checkpoint(reader.checkpoint())
        except (RecordError, OSError) as error:
            _log.error("no checkpoint at the end: %s", error)
        self.notifier.stop()

    def _open_log(self) -> AuditLog:
        self._generation += 1  # readers of the file before are opened anew
        return open_log(self.config.store, self.folder, self.clock)

    def _confirm_seen(self, checkpoint: Checkpoint) -> None:
        confirm_seen(self.config.store, self.folder, checkpoint, "what this service recorded, the last of it")

    def _open_reader(self) -> AuditReader:
        return open_reader(self.config.store, self.folder)

    # For endpoints

    def plan(self, name: str) -> ServicePlan:
        if (plan := self.plans.get(name)) is None:
            raise ApiProblem("not_found", "there is no such plan")
        return plan

    def plans_of(self, scope: Scope) -> dict[str, ServicePlan]:
        """Those that somebody may look at."""
        return {name: plan for name, plan in self.plans.items() if scope.has_plan(name)}

    async def read(self, run: Callable[..., T], *arguments: Any) -> T:
        """Run a read query with a connection of its own, off the event loop; of one token only so many at a time."""
        reads = self._reads.get(asker.get())
        if reads is not None and reads.count >= _READS_WAITING:
            raise ApiProblem("too_many", f"{reads.count} requests of this token are not answered yet", retry_after=1)
        return await self.read_on(run, *arguments)

    async def read_on(self, run: Callable[..., T], *arguments: Any) -> T:
        """As `read`, for an answer that has begun and can no longer be refused."""
        token = asker.get()
        reads = self._reads.setdefault(token, _Reads())
        reads.count += 1
        try:
            async with reads.turn:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(self._readers, self.read_now, run, *arguments)
        finally:
            reads.count -= 1
            if not reads.count:
                del self._reads[token]

    def read_now(self, run: Callable[..., T], *arguments: Any) -> T:
        """Run a read query with this thread's own connection."""
        reader: AuditReader | None = getattr(self._local, "reader", None)
        try:
            if reader is not None and self._local.generation != self._generation:
                reader.close()
                reader = None
            if reader is None:
                self._local.generation = self._generation
                reader = self._local.reader = self._open_reader()
            return run(reader, *arguments)
        except AlteredEntry as error:
            self.integrity.report(str(error))
            raise ApiProblem("log_altered", str(error), retry_after=60) from error
        except (RecordError, OSError) as error:  # a file that was there a moment ago
            self._local.reader = None
            if reader is not None:
                reader.close()
            raise ApiProblem("audit_unavailable", "the log cannot be read", retry_after=2) from error

    async def parse(self, size: int, read: Callable[[], T]) -> T:
        """Run a function that parses or checks a body of this size; large ones off the event loop, so that others are
        answered."""
        if size <= _SMALL:
            return read()
        return await asyncio.get_running_loop().run_in_executor(self._parser, read)

    def admit(self, request: Request) -> None:
        """Refuse before a body is parsed what would be refused after it; not what only repeats a request at work."""
        if request.key not in self._in_flight:
            self._check_ready()
            self.writer.queue.make_room()

    async def decide(self, plan: ServicePlan, rows: Sequence[Mapping[str, Any]], request: Request) -> bytes:
        """The answer to a request, after its commit; the same for everybody who asks it at the same time."""
        answer: bytes = await self._run_once(request, lambda: self.writer.decide(plan, rows, request))
        return answer

    async def act(self, request: Request, run: Callable[[Turn], T], items: int = 1) -> T:
        """Run something that writes, alone."""
        result: T = await self._run_once(request, lambda: self.writer.call(run, items))
        return result

    async def _run_once(self, request: Request, submit: Callable[[], Future[Any]]) -> Any:
        self._check_ready()
        try:
            async with asyncio.timeout(self.config.limits.request_s):
                while (in_flight := self._in_flight.get(request.key)) is not None:
                    if in_flight[0] == request.body:
                        return await asyncio.shield(in_flight[1])
                    await asyncio.wait((in_flight[1],))  # with another body: which of them was recorded, the log knows
        except TimeoutError:
            raise ApiProblem("in_flight", "a request with the same key is still at work") from None
        return await self._wait_for(self._submit(request, submit))

    def _submit(self, request: Request, submit: Callable[[], Future[T]]) -> asyncio.Future[T]:
        future = asyncio.wrap_future(submit())
        self._in_flight[request.key] = (request.body, future)

        def forget(finished: asyncio.Future[Any]) -> None:
            self._in_flight.pop(request.key, None)
            if not finished.cancelled():
                finished.exception()  # somebody who went away does not want to know

        future.add_done_callback(forget)
        return future

    async def _wait_for(self, future: asyncio.Future[T]) -> T:
        # Not given up with whoever waits: what is recorded for a caller who went away is there when he asks again.
        await asyncio.wait((future,), timeout=self.config.limits.request_s)
        if not future.done():
            raise ApiProblem("not_ready", "it takes longer than expected; ask again with the same key")
        return future.result()

    def _check_ready(self) -> None:
        if not self.started or not self.writer.is_alive:
            raise ApiProblem("not_ready", "the service is starting or stopping", retry_after=5)
        self.integrity.check()
        if self.free_bytes() < self.config.store.least_free_bytes:
            raise ApiProblem("audit_unavailable", "the disk is nearly full", retry_after=60)

    def free_bytes(self) -> int:
        """Of the disk with the log; looked up at most once a second."""
        if self.config.store.is_postgres:
            return 1 << 62
        now = time.monotonic()
        if now - getattr(self, "_free_at", -9.0) > 1.0:
            self._free_at = now
            try:
                self._free = shutil.disk_usage((self.folder / self.config.store.log).parent).free
            except OSError:
                self._free = 0
        return self._free

    async def verify(self, id: str, scope: Scope) -> Verified:
        """Derive a decision again; one at a time, because it takes a processor for seconds. Few wait for it: the
        connections of many who do would be all there are, and nobody could decide."""
        if self._verifiers > _VERIFIERS:
            raise ApiProblem("queue_full", f"{self._verifiers} verifications are not done", retry_after=10)
        self._verifiers += 1
        try:
            try:
                async with asyncio.timeout(self.config.limits.request_s):
                    await self.verifying.acquire()
            except TimeoutError:
                raise ApiProblem("queue_full", "others are still being verified", retry_after=10) from None
            try:
                return await self.read(self._verify_now, id, scope)
            finally:
                self.verifying.release()
        finally:
            self._verifiers -= 1

    def _verify_now(self, reader: AuditReader, id: str, scope: Scope) -> Verified:
        from ucsearch.verify import NoTask, verify_record

        row = find_row(reader, id, scope)
        plan = self.plans.get(str(row.record.get("plan", "")))
        own_task = None if plan is None else plan.own_task
        try:
            verdict = verify_record(row.body, reader.blobs_of(row), own_task)
        except NoTask as error:
            return Verified("no task", "", str(error))
        return Verified(verdict.status, verdict.where, verdict.message)

    def task_of(self, record: Mapping[str, Any]) -> Task | None:
        """The task of a recorded decision: one of this package, or its plan's own."""
        built_in = built_in_task(record.get("task", {}))
        plan = self.plans.get(str(record.get("plan", "")))
        own_task = None if built_in is not None or plan is None else plan.own_task
        if own_task is not None:
            return own_task if own_task.is_recorded_as(record["task"]) else None
        return built_in

    # For whoever watches over it

    def measure(self) -> None:
        """Set the gauges that nobody sets on the way. Called by the admin server's threads."""
        m, now = self.metrics, self.clock()
        m.queue.set(self.writer.queue.waiting)
        m.free.set(self.free_bytes())
        m.checkpoint_age.set(self.upkeep.checkpoint_age_s())
        m.backup_age.set(self.upkeep.backup_age_s())
        for name, plan in self.plans.items():
            m.paused.labels(name).set(self.plan_states.paused(plan, now))
            watched = self.plan_states.journal.plans.get(name)
            if watched is not None and plan.watching is not None:
                m.evidence.labels(name).set(watched.monitor.status().evidence)
                m.limit.labels(name).set(watched.monitor.settings.limit)
                m.tripped.labels(name).set(sum(stream != "" for stream in watched.monitor.tripped()))
                m.overdue.labels(name).set(self.plan_states.overdue(name, now))
        with suppress(ApiProblem):  # a log that cannot be read says so elsewhere
            for name in self.plans if self.started else ():
                m.on_hold.labels(name).set(self.read_now(self.tally.on_hold, name, now))
        if not self.config.store.is_postgres:
            m.log_bytes.set(size_of(self.config.store, self.folder))

    def not_ready(self) -> list[str]:
        """Why nothing can be decided now; empty when it can."""
        why = []
        if self.is_standby:
            why.append("standby: another service holds the log")
        elif not self.started or not self.writer.is_alive:
            why.append("starting or stopping")
        if self.writer.queue.is_crowded:
            why.append("queue nearly full")
        if self.free_bytes() < self.config.store.least_free_bytes:
            why.append("disk nearly full")
        if self.started and self.writer.is_cut_off:
            why.append("log not writable")
        if self.integrity.fault:
            why.append("log altered")
        if self.tokens.problem:
            why.append("tokens.toml cannot be used")
        return why
