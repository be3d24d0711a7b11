"""`ucsearch service demo`: a service with something to look at, on simulated shelves.

Ten products, decided every quarter of an hour. One of them sells far more than its forecasts say from some time on,
until its monitor trips; another one has an open order that its rules leave no answer to, so that a person must decide.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from ucsearch.client import Answer, Client, Forecast, Item, Outcome, Retry
from ucsearch.errors import InputError, UCSearchError
from ucsearch.service.config import FILE, load_config
from ucsearch.service.run import address_in_use, address_of, listen, make_server, ready_plans
from ucsearch.service.service import Service
from ucsearch.service.tokens import FILE as TOKENS
from ucsearch.service.tokens import TokenBook, write_tokens

__all__ = ["PEOPLE", "ShelfStream", "run_demo", "set_up"]

PERIOD = timedelta(minutes=15)
PRODUCTS = tuple(f"SKU-{i:03d}" for i in range(1, 11))
DRIFTS, HOLDS = PRODUCTS[6], PRODUCTS[2]
PEOPLE = {"demo admin": "admin", "demo operator": "operator", "demo viewer": "viewer"}
PAST = 60  # periods that are sent at once, so that there is something to see
_TICK_S = 2.0  # of real time for a simulated period
_MEMBERS, _STEPS = 60, 3
_DRIFT_FROM = 15

CONFIG = """\
[server]
bind = "{bind}"
admin_bind = "127.0.0.1:0"

[store]
log = "log/decisions.db"
checkpoint = "checkpoint/decisions.json"
checkpoint_every = 100
least_free_bytes = 0

[[plan]]
name = "shelves"
settings = "shelves.toml"
valid_for_s = 86400.0

[plan.monitor]
max_undercoverage = 0.035
grace_s = 604800.0
"""

PLAN = """\
# Orders for a shelf, every quarter of an hour, without compiled kernels so that the demonstration starts at once.
units = "pieces"
currency = "EUR"
period = "15min"

[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 10.0, 20.0, 30.0, 40.0]
holding = 0.1
shortage = 2.0
ramp = 20.0

[policy]
name = "exact"
depth = 2

[gate]
certificate = true

[run]
engine = "python"
"""


def set_up(folder: Path, bind: str) -> dict[str, str]:
    """Files of the service; returns tokens by name, the program's ("demo agent") too."""
    for name in ("log", "checkpoint"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(CONFIG.format(bind=bind), encoding="utf-8")
    (folder / "shelves.toml").write_text(PLAN, encoding="utf-8")
    write_tokens(folder / TOKENS)
    book = TokenBook(folder / TOKENS)
    return {name: book.add(name, role) for name, role in {**PEOPLE, "demo agent": "agent"}.items()}


class ShelfStream:
    """Forecasts and outcomes of made-up shelves: a pure function of the seed, but for the time it starts at."""

    def __init__(self, client: Client, start: datetime, seed: int = 5) -> None:
        self._client, self._time = client, start
        self._rng = np.random.default_rng(seed)
        self._level = self._rng.uniform(8.0, 25.0, len(PRODUCTS))
        self._stock = np.round(2.0 * self._level)
        self._order = np.full(len(PRODUCTS), 20.0)
        self._last: tuple[Answer, ...] = ()
        self.periods = 0

    @property
    def due(self) -> datetime:
        """When the next period is over."""
        return self._time + PERIOD

    def step(self) -> None:
        """Report what came of the last decisions, then decide again."""
        self._time += PERIOD
        if self._last:
            self._report()
        self._last = self._client.decide("shelves", self._items(), key=f"demo-{self._time.isoformat()}")
        self.periods += 1

    def _report(self) -> None:
        level = self._level.copy()
        if self.periods >= _DRIFT_FROM:
            level[PRODUCTS.index(DRIFTS)] *= 1.7
        sold = np.maximum(np.round(self._rng.normal(level, 0.25 * self._level)), 0.0)
        items = [
            Outcome(a.id, float(x), self._time, taken=None if np.isnan(a.action) else a.action)
            for a, x in zip(self._last, sold, strict=True)
        ]
        self._client.outcomes(items, key=f"demo-{self._time.isoformat()}")
        self._stock = np.maximum(self._stock + self._order - sold, 0.0)
        actions = np.array([0.0 if np.isnan(a.action) else a.action for a in self._last])
        self._order = np.where(np.isnan(actions), 0.0, actions)

    def _items(self) -> list[Item]:
        out = []
        for i, name in enumerate(PRODUCTS):
            paths = self._rng.normal(self._level[i], 0.25 * self._level[i], (_MEMBERS, _STEPS))
            forecast = Forecast(
                members=np.maximum(np.round(paths), 0.0).tolist(), cutoff=self._time, issued=self._time,
                model="simulated",
            )  # fmt: skip
            # An order of 95 pieces that somebody placed by hand: no order of the grid is within the ramp of it.
            order = 95.0 if name == HOLDS else float(self._order[i])
            out.append(Item(name, {"on_hand": float(self._stock[i]), "open_orders": [order]}, forecast))
        return out


def run_demo(
    folder: Path, *, port: int = 8411, seconds: float | None = None, once: bool = False,
    say: Callable[[str], None] = print,
) -> int:  # fmt: skip
    """Serve until Ctrl-C, for so many seconds, or until the past was sent (`once`); returns the periods sent."""
    if reason := address_in_use("127.0.0.1", port):  # before there are files that the next try would stumble over
        raise InputError("--port", f"{port} ({reason})", "a port that is free; 0 takes any")
    tokens = set_up(folder, f"127.0.0.1:{port}")
    config, place = load_config(folder)
    service = Service.open(config, place)
    ready_plans(service.plans)
    service.start()
    stop, sent = threading.Event(), [0]

    def feed(url: str) -> None:
        try:
            _feed(url)
        except UCSearchError as error:
            if not stop.is_set() and not server.should_exit:
                say(f"The stream ended: {error}")
        if once:
            server.should_exit = True

    def _feed(url: str) -> None:
        ends = datetime.now(UTC).replace(second=0, microsecond=0)
        with Client(url, tokens["demo agent"], retry=Retry(tries=2)) as client:
            stream = ShelfStream(client, ends - (PAST + 400) * PERIOD)
            while not stop.is_set():
                # Nothing of the future can be reported: from then on it goes on in real time.
                if stream.due > datetime.now(UTC) and stop.wait((stream.due - datetime.now(UTC)).total_seconds()):
                    return
                stream.step()
                sent[0] = stream.periods
                if stream.periods == PAST:
                    _tell(say, url, tokens, folder)
                    if once:
                        return
                if stream.periods >= PAST and stop.wait(_TICK_S):
                    return

    server, listening = make_server(service), listen(f"127.0.0.1:{port}")
    url = f"http://{address_of(listening)}"
    timer = None if seconds is None else threading.Timer(seconds, lambda: setattr(server, "should_exit", True))
    say(f"Starting in {folder}; {PAST} quarters of an hour of {len(PRODUCTS)} products come first ...")
    try:
        if timer is not None:
            timer.daemon = True
            timer.start()
        threading.Thread(target=feed, args=(url,), name="demo-stream", daemon=True).start()
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn has ended well, and says so in this way
        pass
    finally:
        stop.set()
        if timer is not None:
            timer.cancel()
    say(f"Stopped. {sent[0]} periods were decided; the log is complete.")
    return sent[0]


def _tell(say: Callable[[str], None], url: str, tokens: dict[str, str], folder: Path) -> None:
    say(f"\nConsole:  {url}/console")
    for name, role in PEOPLE.items():
        say(f"  {role:<9} {tokens[name]}")
    say(f"{HOLDS} is on HOLD and waits for a person; the monitor of {DRIFTS} has tripped.")
    say(f"Log:      ucsearch log list --log {folder / 'log' / 'decisions.db'}")
    say("Stop with Ctrl-C.")
