"""The running service: configuration, plans, tokens, log, writer. Endpoints and console are built on this object."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from ucsearch.errors import RecordError
from ucsearch.records.audit import AuditLog
from ucsearch.records.chain import Checkpoint
from ucsearch.records.inputs import built_in_task
from ucsearch.records.postgres import AnotherService
from ucsearch.records.reader import AuditReader
from ucsearch.records.requests import Request
from ucsearch.service.chores import Chores
from ucsearch.service.config import Config
from ucsearch.service.metrics import Metrics
from ucsearch.service.plans import Plan, load_plan
from ucsearch.service.problems import Refusal
from ucsearch.service.reads import Verified, find_row
from ucsearch.service.realised import Realised
from ucsearch.service.standing import Standing
from ucsearch.service.store import confirm, confirm_seen, open_earlier, open_log, open_reader, size_of
from ucsearch.service.tally import Tally
from ucsearch.service.tokens import FILE as TOKENS
from ucsearch.service.tokens import Principal, TokenBook
from ucsearch.service.writer import Desk, Writer
from ucsearch.task import Task

__all__ = ["Service", "digest_of", "name_of", "request_of", "takes_long"]

T = TypeVar("T")
_log = logging.getLogger("ucsearch.service")
_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_READERS = 4
_VERIFIERS = 8  # who wait while one is at work
_STANDBY_S = (0.02, 1.0)  # between two looks, from and to


def request_of(principal: Principal, route: str, key: str | None, raw: bytes) -> Request:
    """The request that an idempotency key names."""
    return Request(name_of(principal, route, key), body=digest_of(raw), by=principal.name)


def digest_of(raw: bytes) -> str:
    """SHA-256 of a body."""
    return hashlib.sha256(raw).hexdigest()


def name_of(principal: Principal, route: str, key: str | None) -> str:
    """What an idempotency key stands for: something else for another caller and another route."""
    if key is None or _KEY.fullmatch(key) is None:
        raise Refusal("no_idempotency_key", "expected Idempotency-Key with 1 to 128 visible ASCII characters")
    named = hashlib.sha256()
    for part in (principal.name, route, key):
        data = part.encode("utf-8")
        named.update(len(data).to_bytes(8, "big") + data)
    return named.hexdigest()


def takes_long() -> Refusal:
    return Refusal("not_ready", "it takes longer than expected; ask again with the same key")


class Service:
    """Made by `Service.open`, started by `start`, ended by `stop`."""

    def __init__(
        self, config: Config, folder: Path, plans: Mapping[str, Plan], tokens: TokenBook,
        clock: Callable[[], datetime] | None = None,
    ) -> None:  # fmt: skip
        self.config, self.folder, self.plans, self.tokens = config, folder, dict(plans), tokens
        self.clock = clock or (lambda: datetime.now(UTC))
        self.metrics = Metrics()
        self.standing = Standing(self.plans)
        self.standing.earlier = self.earlier_files
        store = config.store
        pages = 0 if store.is_postgres else store.wal_autocheckpoint
        self.chores = Chores(folder / store.checkpoint, store.checkpoint_every, pages)
        self.started = False
        self._generation = 0
        self._in_flight: dict[str, tuple[str, asyncio.Future[Any]]] = {}
        self._readers = ThreadPoolExecutor(_READERS, "ucsearch-read")
        self._local = threading.local()
        self.verifying, self._verifiers = asyncio.Semaphore(1), 0
        self.tally = Tally()
        self.realised = Realised(self.task_of, self.earlier_files)
        self.writer = Writer(
            self._open_log, self._open_reader, self.standing, self.clock, self.metrics,
            queue_items=config.limits.queue_items, queue_s=config.limits.queue_s,
            batch_items=config.limits.batch_items, after=self.chores.after, open_earlier=self.earlier_files,
            confirm=self._confirm_seen,
        )  # fmt: skip

    @classmethod
    def open(cls, config: Config, folder: Path, clock: Callable[[], datetime] | None = None) -> Service:
        """Read plans and tokens; nothing is listened to yet."""
        plans = {table.name: load_plan(table, folder) for table in config.plan}
        return cls(config, folder, plans, TokenBook(folder / TOKENS, clock), clock)

    def start(self) -> None:
        """Confirm the checkpoint and begin to work; raises where the log is not the one it was."""
        standing_by, pause_s = False, _STANDBY_S[0]
        while True:
            confirm(self.config.store, self.folder)
            try:
                self.writer.start()
                break
            except AnotherService:
                if not standing_by:
                    _log.info("standby: another service holds the log")
                standing_by = True
                time.sleep(pause_s)  # short at first: whoever was killed a moment ago is gone in the next
                pause_s = min(2.0 * pause_s, _STANDBY_S[1])
        with self._open_reader() as reader:
            self.metrics.entries.set(reader.count())
        self.started = True

    def stop(self) -> None:
        self.started = False
        self.writer.stop()
        self._readers.shutdown(wait=True)
        self.chores.stop()
        try:
            with self._open_reader() as reader:
                self.chores.write(reader.checkpoint())
        except (RecordError, OSError) as error:
            _log.error("no checkpoint at the end: %s", error)

    def _open_log(self) -> AuditLog:
        self._generation += 1  # readers of the file before are opened anew
        return open_log(self.config.store, self.folder, self.clock)

    def _confirm_seen(self, seen: Checkpoint) -> None:
        confirm_seen(self.config.store, self.folder, seen, "what this service recorded, the last of it")

    def _open_reader(self) -> AuditReader:
        return open_reader(self.config.store, self.folder)

    def earlier_files(self) -> list[AuditReader]:
        return open_earlier(self.config.store, self.folder)

    # For endpoints

    def plan(self, name: str) -> Plan:
        if (found := self.plans.get(name)) is None:
            raise Refusal("not_found", "there is no such plan")
        return found

    async def read(self, run: Callable[..., T], *arguments: Any) -> T:
        """Run a read query with a connection of its own, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._with_reader, run, *arguments)

    async def read_one(self, run: Callable[..., T], id: str, *arguments: Any) -> T:
        """As `read`, for one decision, which may be in an earlier file of the log."""
        try:
            return await self.read(run, id, *arguments)
        except Refusal as problem:
            if problem.code != "not_found":
                raise
            return await asyncio.get_running_loop().run_in_executor(
                self._readers, self._earlier_one, problem, run, id, *arguments
            )

    def _earlier_one(self, problem: Refusal, run: Callable[..., T], id: str, *arguments: Any) -> T:
        with ExitStack() as stack:
            for reader in [stack.enter_context(r) for r in self.earlier_files()]:
                try:
                    return run(reader, id, *arguments)
                except Refusal as other:
                    if other.code != "not_found":
                        raise
        raise problem

    def _with_reader(self, run: Callable[..., T], *arguments: Any) -> T:
        reader: AuditReader | None = getattr(self._local, "reader", None)
        try:
            if reader is not None and self._local.generation != self._generation:
                reader.close()
                reader = None
            if reader is None:
                self._local.generation = self._generation
                reader = self._local.reader = self._open_reader()
            return run(reader, *arguments)
        except (RecordError, OSError) as error:  # a file that was there a moment ago
            self._local.reader = None
            if reader is not None:
                reader.close()
            raise Refusal("audit_unavailable", "the log cannot be read", retry_after=2) from error

    def admit(self, request: Request) -> None:
        """Refuse before a body is read what would be refused after it; not what only repeats a request at work."""
        if not self.is_at_work(request.key):
            self._check_ready()
            self.writer.queue.make_room()

    def is_at_work(self, key: str) -> bool:
        """Whether a request of that name waits for its answer."""
        return key in self._in_flight

    async def decide(self, plan: Plan, rows: Sequence[Mapping[str, Any]], request: Request) -> bytes:
        """The answer to a request, after its commit; the same for everybody who asks it at the same time."""
        made: bytes = await self._once(request, lambda: self.writer.decide(plan, rows, request))
        return made

    async def act(self, request: Request | None, run: Callable[[Desk], T], items: int = 1) -> T:
        """Run something that writes, alone."""
        if request is None:
            return await self._finished(asyncio.wrap_future(self.writer.call(run, items)))
        made: T = await self._once(request, lambda: self.writer.call(run, items))
        return made

    async def _once(self, request: Request, submit: Callable[[], Future[Any]]) -> Any:
        self._check_ready()
        try:
            async with asyncio.timeout(self.config.limits.request_s):
                while (known := self._in_flight.get(request.key)) is not None:
                    if known[0] == request.body:
                        return await asyncio.shield(known[1])
                    await asyncio.wait((known[1],))  # with another body: which of them was recorded, the log knows
        except TimeoutError:
            raise Refusal("in_flight", "a request with the same key is still at work") from None
        return await self._finished(self._begun(request, submit))

    def _begun(self, request: Request, submit: Callable[[], Future[T]]) -> asyncio.Future[T]:
        future = asyncio.wrap_future(submit())
        self._in_flight[request.key] = (request.body, future)

        def forget(done: asyncio.Future[Any]) -> None:
            self._in_flight.pop(request.key, None)
            if not done.cancelled():
                done.exception()  # somebody who went away does not want to know

        future.add_done_callback(forget)
        return future

    async def _finished(self, future: asyncio.Future[T]) -> T:
        # Not given up with whoever waits: what is recorded for a caller who went away is there when he asks again.
        await asyncio.wait((future,), timeout=self.config.limits.request_s)
        if not future.done():
            raise takes_long()
        return future.result()

    def _check_ready(self) -> None:
        if not self.started or not self.writer.is_alive:
            raise Refusal("not_ready", "the service is starting or stopping", retry_after=5)
        if self.free_bytes() < self.config.store.least_free_bytes:
            raise Refusal("audit_unavailable", "the disk is nearly full", retry_after=60)

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

    async def verify(self, id: str) -> Verified:
        """Derive a decision again; one at a time, because it takes a processor for seconds. Few wait for it: the
        connections of many who do would be all there are, and nobody could decide."""
        if self._verifiers > _VERIFIERS:
            raise Refusal("queue_full", f"{self._verifiers} verifications are not done", retry_after=10)
        self._verifiers += 1
        try:
            try:
                async with asyncio.timeout(self.config.limits.request_s):
                    await self.verifying.acquire()
            except TimeoutError:
                raise Refusal("queue_full", "others are still being verified", retry_after=10) from None
            try:
                return await self.read_one(self._verified, id)
            finally:
                self.verifying.release()
        finally:
            self._verifiers -= 1

    def _verified(self, reader: AuditReader, id: str) -> Verified:
        from ucsearch.verify import NoTask, verify_record

        row = find_row(reader, id)
        plan = self.plans.get(str(row.record.get("plan", "")))
        own = None if plan is None else plan.own_task
        try:
            found = verify_record(row.body, reader.blobs_of(row), own)
        except NoTask as error:
            return Verified("no task", "", str(error))
        return Verified(found.status, found.where, found.message)

    def task_of(self, record: Mapping[str, Any]) -> Task | None:
        """The task of a recorded decision: one of this package, or its plan's own."""
        found = built_in_task(record.get("task", {}))
        plan = self.plans.get(str(record.get("plan", "")))
        own = None if found is not None or plan is None else plan.own_task
        if own is not None:
            return own if own.is_recorded_as(record["task"]) else None
        return found

    def checkpoint_state(self) -> tuple[int | None, float | None]:
        """Count of the last checkpoint that was written, and its age in seconds."""
        if not self.chores.written_at:
            return None, None
        return self.chores.count, time.monotonic() - self.chores.written_at

    def measure(self) -> None:
        """Set the gauges that nobody sets on the way."""
        m = self.metrics
        m.queue.set(self.writer.queue.waiting)
        m.free.set(self.free_bytes())
        m.checkpoint_age.set(self.chores.age_s())
        for name, watched in list(self.standing.journal.plans.items()):
            if name in self.plans and self.plans[name].watching is not None:
                pool, *rest = watched.monitor.statuses()
                m.evidence.labels(name).set(pool.evidence)
                m.limit.labels(name).set(watched.monitor.settings.limit)
                m.tripped.labels(name).set(sum(status.tripped for status in rest))
                m.overdue.labels(name).set(self.standing.overdue(name, self.clock()))
        if not self.config.store.is_postgres:
            m.log_bytes.set(size_of(self.config.store, self.folder))

    def not_ready(self) -> list[str]:
        """Why nothing can be decided now; empty when it can."""
        why = []
        if not self.started or not self.writer.is_alive:
            why.append("starting or stopping")
        if self.writer.queue.is_crowded:
            why.append("queue nearly full")
        if self.free_bytes() < self.config.store.least_free_bytes:
            why.append("disk nearly full")
        if self.writer.is_cut_off:
            why.append("log not writable")
        return why
