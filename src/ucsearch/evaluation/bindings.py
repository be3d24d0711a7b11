"""How a ready task meets a series: outcomes from values, a starting state, an action grid, the figures of a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.planning.objects import address
from ucsearch.task import Task
from ucsearch.tasks import DelayedExposure, LeadTimeInventory
from ucsearch.trace import Trace

__all__ = ["Binding", "ExposureBinding", "InventoryBinding", "bind"]

Floats = NDArray[np.float64]


class Binding(Protocol):
    """One task on many series. N windows, J members, H steps, m actions."""

    @property
    def task(self) -> Task: ...
    @property
    def where(self) -> str:
        """Under which name a verifier finds the task."""
        ...

    @property
    def form(self) -> str:
        """ "cost" or "reward": how results are compared."""
        ...

    @property
    def delay(self) -> int:
        """Steps from an action to its effect."""
        ...

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        """Outcomes (..., H) of values (..., H) that follow the values `before` (...)."""
        ...

    def start(self, trace: Trace) -> list[Any]:
        """A starting state for every window of its first trace."""
        ...

    def grid(self, trace: Trace) -> tuple[Floats | None, Floats | None]:
        """Actions (N, m) and parameters (N, p) of every window, or None where they are the task's own."""
        ...

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Further metrics (N,) of whole windows from states (N, T, n), actions and outcomes (N, T)."""
        ...


@dataclass(frozen=True)
class InventoryBinding:
    """Orders for demand. The grid follows each forecast, so one definition fits series of any scale."""

    config: LeadTimeInventory
    multiples: tuple[float, ...]  # orders around the forecast at their arrival, in units of its spread
    arrivals: int = 1  # how many of a plan's orders the grid is made for
    form: str = "cost"

    @property
    def task(self) -> Task:
        return self.config.task()

    @property
    def where(self) -> str:
        return address(self.config, own_grid=True)

    @property
    def delay(self) -> int:
        return self.config.lead_time

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        return np.maximum(values, 0.0)

    def start(self, trace: Trace) -> list[Any]:
        """At target: what arrives is the forecast, and what is there covers the critical ratio of its spread."""
        c = self.config
        mean = np.maximum(trace.mean[:, :, 0], 0.0)  # (N, H)
        members = np.maximum(trace.members[:, :, 0, 0], 0.0)
        centre = (members * trace.weights).sum(axis=1)
        spread = np.sqrt((trace.weights * (members - centre[:, None]) ** 2).sum(axis=1))
        cover = NormalDist().inv_cdf(c.shortage / (c.shortage + c.holding))
        lead = c.lead_time
        return [
            c.state(max(cover, 0.0) * float(spread[n]), mean[n, :lead].tolist(), float(mean[n, 0]))
            for n in range(len(mean))
        ]

    def grid(self, trace: Trace) -> tuple[Floats | None, Floats | None]:
        actions, params = self.config.scaled(trace, self.multiples, self.arrivals)
        layout = self.task.params_layout
        if layout is None:
            raise InputError("task", "no params", "params")
        return actions, layout.rows(params, "params")

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Fill rate: share of demand served from stock in its own period."""
        arriving = states[:, :, 1] if self.config.lead_time > 0 else actions
        served = np.minimum(np.maximum(states[:, :, 0] + arriving, 0.0), outcomes).sum(axis=1)
        asked = outcomes.sum(axis=1)
        return {"fill_rate": np.where(asked > 0.0, served / np.where(asked > 0.0, asked, 1.0), 1.0)}


@dataclass(frozen=True)
class ExposureBinding:
    """A delayed position in the changes of a series."""

    config: DelayedExposure
    form: str = "reward"

    @property
    def task(self) -> Task:
        return self.config.task()

    @property
    def where(self) -> str:
        return address(self.config)

    @property
    def delay(self) -> int:
        return self.config.delay

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        return np.diff(values, axis=-1, prepend=np.asarray(before)[..., None])

    def start(self, trace: Trace) -> list[Any]:
        return [self.config.state()] * len(trace.mean)

    def grid(self, trace: Trace) -> tuple[Floats | None, Floats | None]:
        return None, None

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Mean absolute exposure, and turnover."""
        held = np.abs(states[:, :, 0] + states[:, :, 1])
        return {"exposure": held.mean(axis=1), "turnover": np.abs(actions).sum(axis=1)}


def bind(task: dict[str, Any], multiples: Sequence[float] | None, arrivals: int = 1) -> Binding:
    """The binding of a suite's task table."""
    settings = dict(task)
    name = settings.pop("name", None)
    if name == "lead_time_inventory":
        if multiples is None:
            raise InputError("multiples", "nothing", "the order grid, in units of the forecast's spread")
        sizes = tuple(float(i) for i in range(len(multiples) * arrivals))
        config = LeadTimeInventory(order_sizes=sizes, **settings)
        return InventoryBinding(config, tuple(map(float, multiples)), arrivals)
    if name == "delayed_exposure":
        return ExposureBinding(DelayedExposure(**settings))
    raise InputError("task.name", repr(name), "lead_time_inventory or delayed_exposure")
