"""`service init`, `check` and `run`: files of a new service, what is wrong with one, and the server itself."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from ucsearch.errors import InputError, RecordError, UCSearchError
from ucsearch.records.files import whole_file
from ucsearch.records.log import AuditLog
from ucsearch.service.app import make_app
from ucsearch.service.config import FILE, Config, Store, host_of, load_config, port_of
from ucsearch.service.notify import targets
from ucsearch.service.observability import AdminServer
from ucsearch.service.service import Service
from ucsearch.service.storage import confirm, is_there, open_reader
from ucsearch.service.tokens import FILE as TOKENS
from ucsearch.service.tokens import TokenBook, write_tokens
from ucsearch.service.writer.plans import ServicePlan, coarse_forecasts, load_plan

__all__ = [
    "CheckFinding",
    "address_in_use",
    "address_of",
    "check",
    "check_addresses",
    "check_certificate",
    "check_folders",
    "embedded",
    "init",
    "listen",
    "make_server",
    "raise_open_files",
    "ready_plans",
    "run",
]


def check_addresses(config: Config) -> None:
    """Before kernels are compiled and the log is opened: whether the addresses can be listened to."""
    hint = "Stop what listens there, or take another one: server.{0} in service.toml, or --{1} ADDRESS:PORT."
    for field, option in (("bind", "bind"), ("admin_bind", "admin-bind")):
        address = getattr(config.server, field)
        if reason := address_in_use(host_of(address), port_of(address)):
            raise InputError(
                f"server.{field}", f"{address} ({reason})", "an address and port that are free",
                hint=hint.format(field, option),
            )  # fmt: skip


def address_in_use(host: str, port: int) -> str:
    """Why nobody can listen there; "" where one can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            if os.name == "posix":  # as the server itself does
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        return str(error.strerror or error)
    return ""


def raise_open_files() -> None:
    """Raise the limit of open files as far as the system allows: each connection is one, and so is the log."""
    try:
        import resource
    except ImportError:  # not on this system, nor the limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems have another limit that they do not tell
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65_536), hard)
        )


def check_certificate(config: Config, folder: Path) -> None:
    """Whether certificate and key can be read, and belong together."""
    server = config.server
    if not server.tls_cert:
        return
    for field, name in (("server.tls_cert", server.tls_cert), ("server.tls_key", server.tls_key)):
        try:
            (folder / name).read_bytes()
        except OSError as error:
            raise InputError(field, f"{folder / name} ({error.strerror})", "a file that can be read") from error
    try:
        # Somebody who is asked for a password would wait for ever.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            folder / server.tls_cert, folder / server.tls_key, password=""
        )
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        expected = "a certificate and its key in PEM, without a password"
        raise InputError("server.tls_cert", f"{server.tls_cert} and {server.tls_key} ({error})", expected) from error


def check_folders(config: Config, folder: Path) -> str:
    """Raise where the log cannot be written by whoever asks; returns what else cannot, "" where all can."""
    store = config.store
    if not store.is_postgres:
        log = folder / store.log
        for path in (log, *log.parent.glob(f"{log.name}-*"), _existing_parent(log.parent)):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                raise RecordError(f"{path}: it cannot be written, so nothing can be recorded")
    checkpoint_folder = _existing_parent((folder / store.checkpoint).parent)
    return (
        ""
        if os.access(checkpoint_folder, os.W_OK)
        else f"{checkpoint_folder}: it cannot be written, so there will be no checkpoints"
    )


def _existing_parent(folder: Path) -> Path:
    """The folder, or the one in which it would be made."""
    while not os.path.exists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


_IDLE_S = 30  # between two requests of one connection
_DRAIN_S = 10
_HEAD = 64 << 10  # bytes of a request's line and headers
_BACKLOG = 2048  # connections that wait to be accepted
# Between two looks of the collector. Requests leave hardly a cycle; with Python's 700 an eighth of a decision's time
# went into looking.
_NEW_OBJECTS = 20_000


def listen(bind: str) -> socket.socket:
    """A socket that listens on an address and port."""
    host, port = host_of(bind), port_of(bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # Connections inherit it. Else the body of an answer waits up to 40 ms for the client to say that it has the head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def address_of(listening: socket.socket) -> str:
    """Address and port; with port 0 nobody knows before."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def make_server(service: Service) -> uvicorn.Server:
    """A server for a started service, to be run on a socket that listens.

    h11 bounds the bytes of a request's head. Timeouts for headers and limits on connections are the proxy's
    (`deploy/Caddyfile`).
    """
    server = service.config.server
    tls: dict[str, Any] = {}
    if server.tls_cert:
        tls = {
            "ssl_certfile": str(service.folder / server.tls_cert),
            "ssl_keyfile": str(service.folder / server.tls_key),
        }
    return uvicorn.Server(
        uvicorn.Config(
            make_app(service), http="h11", ws="none", lifespan="on", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_DRAIN_S, h11_max_incomplete_event_size=_HEAD, **tls,
        )
    )  # fmt: skip


_log = logging.getLogger("ucsearch.service")

SERVICE = """\
# The decision service. Paths are relative to this folder; unknown keys are refused.

[server]
bind = "127.0.0.1:8411"         # another address needs tls_cert and tls_key, or a proxy
admin_bind = "127.0.0.1:8412"   # health and metrics
# hosts = ["127.0.0.1", "localhost", "[::1]"]

[store]
log = "log/decisions.db"        # or postgresql://user@host/database
checkpoint = "checkpoint/decisions.json"
# checkpoint_every = 1000

# [backup]
# folder = "backups"            # a copy every night; carry it to another machine
# keep = 14

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
# A small ordering plan; `ucsearch tasks --schema` lists every key, `ucsearch new` makes larger ones.
units = "pieces"
currency = "EUR"
period = "day"

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

[forecast]
max_age = 2             # days ago that a forecast may begin by its `cutoff`; older ones are refused
"""


def init(folder: str | Path) -> str:
    """Files of a new service and its log; returns the text of the one admin token, which is kept nowhere."""
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError("DIR", str(place), "a new or empty folder")
    try:
        return _write_files(place)
    except OSError as error:
        raise RecordError(f"{place}: cannot be written ({error.strerror}); choose another folder") from error


def _write_files(place: Path) -> str:
    place.mkdir(parents=True, exist_ok=True)
    for name, text in ((FILE, SERVICE), ("orders.toml", ORDERS)):
        with whole_file(place / name) as file:
            file.write(text.encode("utf-8"))
    write_tokens(place / TOKENS)
    (place / "log").mkdir(mode=0o700)
    (place / "checkpoint").mkdir(mode=0o700)
    AuditLog(place / "log" / "decisions.db").close()
    return TokenBook(place / TOKENS).add("admin", "admin")


class CheckFinding(NamedTuple):
    """One line of `check`: 0 right, 1 a warning, 2 the service would not start."""

    level: int
    text: str


def check(folder: str | Path, *, store: str | None = None) -> Iterator[CheckFinding]:
    """Configuration, kernels, log and checkpoint."""
    try:
        config, place = load_config(folder, store=store)
        yield CheckFinding(0, f"{FILE}: {len(config.plan)} plan{'' if len(config.plan) == 1 else 's'}")
        book = TokenBook(place / TOKENS)
        yield CheckFinding(0 if book.list() else 1, f"{TOKENS}: {len(book.list())} tokens")
        check_certificate(config, place)
        targets(config.webhook, place)
    except UCSearchError as error:
        yield CheckFinding(2, str(error))
        return
    for table in config.plan:
        try:
            plan = load_plan(table, place)
            if text := coarse_forecasts(plan):
                yield CheckFinding(1, text)
            warmed = plan.warm()
            worse = warmed.engine == "python" and plan.settings.run.engine != "python"
            yield CheckFinding((0 if table.allow_plain else 2) if worse else 0, f"plan {table.name!r}: {warmed.note}")
            yield from (CheckFinding(1, f"plan {table.name!r}: {line.strip()}") for line in warmed.states)
        except UCSearchError as error:
            message = str(error)
            yield CheckFinding(2, message if message.startswith("plan ") else f"plan {table.name!r}: {message}")
    try:
        if text := check_folders(config, place):
            yield CheckFinding(1, text)
        confirm(config.store, place)
        yield from _check_log(config.store, place)
    except UCSearchError as error:
        yield CheckFinding(2, str(error))


def _check_log(store: Store, place: Path) -> Iterator[CheckFinding]:
    """Every file of the log, and what links them."""
    if not is_there(store, place):
        yield CheckFinding(1, "log: there is none yet; the first start makes one")
        return
    with open_reader(store, place) as reader:
        report = reader.verify()
        files = f" in {len(reader.files)} files" if len(reader.files) > 1 else ""
        yield CheckFinding(0 if report.ok else 2, f"log: {report}{files if report.ok else ''}")


def ready_plans(plans: dict[str, ServicePlan]) -> None:
    """Kernels compiled, or an error: a first request must not wait a minute."""
    for plan in plans.values():
        warmed = plan.warm()
        if warmed.engine == "python" and plan.settings.run.engine != "python" and not plan.table.allow_plain:
            raise RecordError(f"plan {plan.name!r}: {warmed.note}; plan.allow_plain = true would decide without")
        _log.info("plan", extra={"fields": {"plan": plan.name, "engine": warmed.engine, "note": warmed.note}})
        for line in warmed.states:
            _log.warning("states", extra={"fields": {"plan": plan.name, "note": line.strip()}})


def run(
    folder: str | Path, *, store: str | None = None, bind: str | None = None, admin_bind: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; SIGHUP reads the tokens again. `ready` is told the address once it listens."""
    config, place = load_config(folder, store=store, bind=bind, admin_bind=admin_bind)
    check_addresses(config)
    check_certificate(config, place)
    raise_open_files()
    started = time.monotonic()
    if hasattr(signal, "SIGHUP"):  # which would end it while kernels are made; the tokens are read in any case
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    service = Service.open(config, place)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: _reload(service))
    admin_socket = listen(config.server.admin_bind)
    admin = AdminServer(service, admin_socket)
    _log.info("health and metrics", extra={"fields": {"address": f"http://{address_of(admin_socket)}"}})
    try:
        ready_plans(service.plans)
        service.start()
        _serve(service, ready, started)
    finally:
        admin.stop()


def _serve(service: Service, ready: Callable[[str], None] | None, started: float) -> None:
    server, listening = make_server(service), listen(service.config.server.bind)
    gc.collect()
    gc.freeze()  # what was loaded stays: the collector need not look through it again
    gc.set_threshold(_NEW_OBJECTS, 10, 10)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn hands them on after it has stopped: a stop is no failure
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    scheme = "https" if service.config.server.tls_cert else "http"
    fields = {"address": f"{scheme}://{address_of(listening)}", "pid": os.getpid()}
    _log.info("start", extra={"fields": {**fields, "after_s": round(time.monotonic() - started, 2)}})
    if ready is not None:  # whoever connects now waits a moment
        ready(address_of(listening))
    server.run(sockets=[listening])
    _log.info("stop", extra={"fields": fields})


def _reload(service: Service) -> None:
    try:
        service.tokens.reload()
        _log.info("tokens read again")
    except RecordError as error:
        _log.error("tokens not read again: %s", error)


_JOIN_S = 30.0


@contextmanager
def embedded(service: Service) -> Iterator[str]:
    """A service inside another program (examples, tests, a trial), served in a thread of its own and without a port for
    health; yields the address. `server.bind` with port 0 takes any that is free."""
    ready_plans(service.plans)
    service.start()
    listening = listen(service.config.server.bind)
    server = make_server(service)
    thread = threading.Thread(target=server.run, args=([listening],), name="ucsearch-serve", daemon=True)
    thread.start()
    try:
        yield f"http://{address_of(listening)}"
    finally:
        server.should_exit = True
        thread.join(_JOIN_S)
