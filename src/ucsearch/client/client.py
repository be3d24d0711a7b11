"""The client that waits for answers. Written by scripts/unasync.py from async_client.py."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

from ucsearch.client import exchanges
from ucsearch.client.exchanges import Exchange
from ucsearch.client.frames import items_of, outcomes_of
from ucsearch.client.transport import Base, Retry, httpx_module
from ucsearch.client.types import Answer, Item, Outcome, Page, Receipt

__all__ = ["Client"]

T = TypeVar("T")


class Client(Base):
    """Of one service, with one token. `transport` is httpx's, `sleep` waits between tries."""

    def __init__(
        self, url: str, token: str, *, retry: Retry | None = None, timeout_s: float = 60.0, transport: Any = None,
        sleep: Callable[[float], None] = time.sleep, now: Callable[[], datetime] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(url, token, retry, now)
        self._sleep = sleep
        self._http = httpx_module().Client(timeout=timeout_s, transport=transport, **self._wire)

    def close(self) -> None:
        """Give the connections back; `with` does it."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, exchange: Exchange[T]) -> T:
        """Send a request until it is answered for good, or patience ends; the methods below make them."""
        unreachable = httpx_module().RequestError  # no answer, or one that cannot be unpacked
        for tried in itertools.count(1):
            try:
                result, wait = self._judge(exchange, self._http.request(**exchange.request()), tried)
            except unreachable as error:
                result, wait = None, self._patience(exchange, error, tried)
            if wait is None:
                break
            self._sleep(wait)
        return result  # type: ignore[return-value]  # None only beside a wait

    def decide(self, plan: str, items: Sequence[Item], *, key: str | None = None) -> tuple[Answer, ...]:
        """Answers in the order of the items. More than a request holds are sent as several, under keys made of `key`:
        each is recorded as a whole or not at all."""
        key = self.new_key() if key is None else key
        out: list[Answer] = []
        for exchange in exchanges.decisions_of(plan, items, key):
            answers = self.send(exchange)
            out.extend(answers)
        return tuple(out)

    def decide_frame(
        self, plan: str, forecasts: Any, states: Any, *, key: str | None = None, **options: Any
    ) -> tuple[Answer, ...]:
        """Decide every series of the frame `forecasts`, with the row of the same name of `states` (see `items_of`); the
        service is asked for the plan's period and columns first."""
        files = exchanges.files_of(self.schema(plan))
        return self.decide(plan, items_of(forecasts, states, **{**files, **options}), key=key)

    def override(
        self, decision: str, action: exchanges.Action, why: str, *, expects: str | None = None,
        force: bool = False, key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """A person's `action` (a number, several, or a label; None withdraws) in place of the newest decision's of a
        series. `expects` is what you have seen of it (`series(name)["expects"]`); the decision itself by default.
        `force` records what the rules refuse; it is marked as forced."""
        return self.send(exchanges.override(decision, action, why, expects, force, key or self.new_key()))

    def outcomes(self, items: Sequence[Outcome], *, key: str | None = None) -> tuple[Receipt, ...]:
        """Report what came, one receipt per request."""
        key = self.new_key() if key is None else key
        return tuple([self.send(exchange) for exchange in exchanges.reports_of(items, key)])

    def outcomes_frame(
        self, answers: Sequence[Answer], frame: Any, *, observed_at: str | datetime, key: str | None = None,
        **options: Any,
    ) -> tuple[Receipt, ...]:  # fmt: skip
        """Report a frame of realised values for decisions that were answered (see `outcomes_of`)."""
        return self.outcomes(outcomes_of(answers, frame, observed_at=observed_at, **options), key=key)

    def pause(self, plan: str, why: str, *, until: str | None = None, key: str | None = None) -> Receipt:
        """Nothing of the plan is released until it is resumed."""
        return self.send(exchanges.pause(plan, why, until, key or self.new_key()))

    def resume(self, plan: str, why: str, *, key: str | None = None) -> Receipt:
        """End a pause of the plan."""
        return self.send(exchanges.resume(plan, why, key or self.new_key()))

    def rearm(
        self,
        plan: str,
        why: str,
        *,
        streams: Sequence[str] | None = None,
        accept: bool = False,
        key: str | None = None,
    ) -> Receipt:
        """Re-arm tripped streams: these series ("" is all together), or without `streams` all that have tripped.
        The service asks that the forecasts' model has changed since; `accept=True` re-arms the same one, on your
        word."""
        return self.send(exchanges.rearm(plan, why, streams, accept, key or self.new_key()))

    def decisions(self, **query: Any) -> Iterator[Mapping[str, Any]]:
        """Decisions, newest first, page by page; filters: plan, series, outcome, reason, kind, before, limit."""
        page: Page = self.send(exchanges.decisions(**query))
        while True:
            yield from page.items
            if not page.next:
                return
            page = self.send(exchanges.next_page(page.next))

    def decision(self, id: str) -> bytes:
        """The record's canonical bytes."""
        return self.send(exchanges.decision(id))

    def explain(self, id: str) -> Mapping[str, Any]:
        """Why it was decided so: `title`, `text`, and the forecast as a picture, `svg`."""
        return self.send(exchanges.explain(id))

    def verify(self, id: str) -> Mapping[str, Any]:
        """The verdict of the service's own verifier on the record."""
        return self.send(exchanges.verify(id))

    def series(self, name: str, plan: str | None = None) -> Mapping[str, Any]:
        """Newest decision, overrides, the action that counts, outcomes, monitor; of one plan, or the newest of all."""
        return self.send(exchanges.series(name, plan))

    def monitors(self, plan: str | None = None, series: str | None = None) -> Any:
        """Evidence and state of the monitors: of all plans, of one, or of one series."""
        return self.send(exchanges.monitors(plan, series))

    def plans(self) -> Any:
        """The plans of the service: task, policy, pause, and today's decisions by outcome and reason."""
        return self.send(exchanges.plans())

    def schema(self, plan: str) -> Mapping[str, Any]:
        """What a request to the plan may say: names of its state, steps, period of its dates, columns of its files."""
        return self.send(exchanges.schema(plan))

    def checkpoint(self) -> Mapping[str, Any]:
        """Count and head of the log, to be kept elsewhere."""
        return self.send(exchanges.checkpoint())
