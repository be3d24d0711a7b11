"""`service init`, `check` and `run`: files of a new service, what is wrong with one, and the server itself."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import InputError, RecordError, UCSearchError
from ucsearch.records.audit import AuditLog
from ucsearch.records.files import whole_file
from ucsearch.records.rotation import check_files
from ucsearch.service.config import FILE, Config, Store, load_config
from ucsearch.service.core import Service
from ucsearch.service.ground import check_address, check_certificate, check_folders, raise_open_files
from ucsearch.service.plans import Plan, coarse, load_plan
from ucsearch.service.store import confirm, is_there, open_earlier, open_reader
from ucsearch.service.tokens import FILE as TOKENS
from ucsearch.service.tokens import TokenBook, write_tokens

__all__ = ["Finding", "check", "init", "run"]

_log = logging.getLogger("ucsearch.service")

SERVICE = """\
# The decision service. Paths are relative to this folder; unknown keys are refused.

[server]
bind = "127.0.0.1:8411"         # another address needs tls_cert and tls_key, or a proxy
# hosts = ["127.0.0.1", "localhost", "[::1]"]

[store]
log = "log/decisions.db"        # or postgresql://user@host/database
checkpoint = "checkpoint/decisions.json"
# checkpoint_every = 1000

[limits]
# queue_items = 512

[[plan]]
name = "orders"
settings = "orders.toml"
valid_for_s = 86400.0

# [plan.monitor]                # stops releases when forecasts drift; outcomes must be reported
# max_undercoverage = 0.035
"""

ORDERS = """\
# A small ordering plan; `ucsearch schema` lists every key, `ucsearch new` makes larger ones.
units = "pieces"
currency = "EUR"

[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 5.0, 10.0, 15.0, 20.0]
holding = 1.0
shortage = 9.0

[policy]
name = "certified_beam"
depth = 4
width = 16

[gate]
certificate = true
"""


def init(folder: str | Path) -> str:
    """Files of a new service and its log; returns the text of the one admin token, which is kept nowhere."""
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError("DIR", str(place), "a new or empty folder")
    try:
        return _made(place)
    except OSError as error:
        raise RecordError(f"{place}: cannot be written ({error.strerror}); choose another folder") from error


def _made(place: Path) -> str:
    place.mkdir(parents=True, exist_ok=True)
    for name, text in ((FILE, SERVICE), ("orders.toml", ORDERS)):
        with whole_file(place / name) as file:
            file.write(text.encode("utf-8"))
    write_tokens(place / TOKENS)
    (place / "log").mkdir(mode=0o700)
    (place / "checkpoint").mkdir(mode=0o700)
    AuditLog(place / "log" / "decisions.db").close()
    return TokenBook(place / TOKENS).add("admin", "admin")


class Finding(NamedTuple):
    """One line of `check`: 0 right, 1 a warning, 2 the service would not start."""

    level: int
    text: str


def check(folder: str | Path, *, store: str | None = None) -> Iterator[Finding]:
    """Configuration, kernels, log and checkpoint."""
    try:
        config, place = load_config(folder, store=store)
        yield Finding(0, f"{FILE}: {len(config.plan)} plan{'' if len(config.plan) == 1 else 's'}")
        book = TokenBook(place / TOKENS)
        yield Finding(0 if book.list() else 1, f"{TOKENS}: {len(book.list())} tokens")
        check_certificate(config, place)
    except UCSearchError as error:
        yield Finding(2, str(error))
        return
    for table in config.plan:
        try:
            plan = load_plan(table, place)
            if text := coarse(plan):
                yield Finding(1, text)
            warmed = plan.warm()
            worse = warmed.engine == "python" and plan.settings.run.engine != "python"
            yield Finding((0 if table.allow_plain else 2) if worse else 0, f"plan {table.name!r}: {warmed.note}")
        except UCSearchError as error:
            yield Finding(2, f"plan {table.name!r}: {error}")
    try:
        if text := check_folders(config, place):
            yield Finding(1, text)
        confirm(config.store, place)
        yield from _verified(config.store, place)
    except UCSearchError as error:
        yield Finding(2, str(error))


def _verified(store: Store, place: Path) -> Iterator[Finding]:
    """Every file of the log, and what links them."""
    if not is_there(store, place):
        yield Finding(1, "log: there is none yet; the first start makes one")
        return
    with ExitStack() as stack:
        readers = [stack.enter_context(reader) for reader in reversed(open_earlier(store, place))]
        readers.append(stack.enter_context(open_reader(store, place)))
        for reader in readers:
            report = reader.verify()
            name = f"log, {reader.path.name}" if len(readers) > 1 else "log"
            yield Finding(0 if report.ok else 2, f"{name}: {report}")
    if len(readers) > 1 and (wrong := check_files(place / store.log)):
        yield Finding(2, f"log: {wrong}")


def ready_plans(plans: dict[str, Plan]) -> None:
    """Kernels compiled, or an error: a first request must not wait a minute."""
    for plan in plans.values():
        warmed = plan.warm()
        if warmed.engine == "python" and plan.settings.run.engine != "python" and not plan.table.allow_plain:
            raise RecordError(f"plan {plan.name!r}: {warmed.note}; plan.allow_plain = true would decide without")
        _log.info("plan", extra={"fields": {"plan": plan.name, "engine": warmed.engine, "note": warmed.note}})


def run(
    folder: str | Path, *, store: str | None = None, bind: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; SIGHUP reads the tokens again."""
    from ucsearch.service.server import make_server

    config, place = load_config(folder, store=store)
    if bind is not None:
        content: dict[str, Any] = json.loads(config.model_dump_json())
        content["server"]["bind"] = bind
        config = Config.model_validate_json(json.dumps(content), strict=True)
    check_address(config)
    check_certificate(config, place)
    raise_open_files()
    started = time.monotonic()
    if hasattr(signal, "SIGHUP"):  # which would end it while kernels are made; the tokens are read in any case
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    service = Service.open(config, place)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: _reload(service))
    ready_plans(service.plans)
    service.start()
    server = make_server(service, ready)
    gc.collect()
    gc.freeze()  # what was loaded stays: the collector need not look through it again
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn hands them on after it has stopped: a stop is no failure
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    scheme = "https" if config.server.tls_cert else "http"
    fields = {"address": f"{scheme}://{config.server.bind}", "pid": os.getpid()}
    _log.info("start", extra={"fields": {**fields, "after_s": round(time.monotonic() - started, 2)}})
    server.run()
    _log.info("stop", extra={"fields": fields})


def _reload(service: Service) -> None:
    try:
        service.tokens.reload()
        _log.info("tokens read again")
    except RecordError as error:
        _log.error("tokens not read again: %s", error)
