"""Learned policies as boundary rows: trained on what comes before the validation windows, judged on test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster
from ucsearch.forecast.streams import series_stream
from ucsearch.lab.learned.boundary import forecast_features, load_learned, train_offline
from ucsearch.replay.choosers import Learned
from ucsearch.replay.panel import Panel
from ucsearch.replay.walk import Walk, walk
from ucsearch.tasks.base import Binding

__all__ = ["NETWORK", "learned_walk", "training_data"]

Floats = NDArray[np.float64]
NETWORK = "ett-inventory"  # DQN and PPO come with the package under this name
_LENGTH = 600  # values of each series that are played
_SEED = 1


def training_data(
    validation: Panel, binding: Binding, forecaster: Forecaster, horizon: int, key: int
) -> tuple[list[Floats], list[Floats]]:
    """Outcomes (T,) and what the forecast says of them (T, 3), of every series before its validation windows."""
    outcomes, features = [], []
    for s in validation.stretches:
        if s.window != 0:
            continue
        least = forecaster.min_history(s.season)
        marks = np.arange(max(least, s.start - _LENGTH - 1), s.start - 1, dtype=np.int64)
        made = forecaster.forecast(
            s.y[: s.start], marks, horizon=horizon, season=s.season,
            stream=series_stream(key, f"{s.family}/{s.series}/fit"),
        )  # fmt: skip
        members = np.asarray(made.expand().members)  # (T, J, H)
        before = s.y[marks]
        future = binding.outcomes(members, np.repeat(before[:, None], members.shape[1], axis=1))
        features.append(forecast_features(future, binding.delay))
        outcomes.append(binding.outcomes(s.y[marks + 1][:, None], before)[:, 0])
    return outcomes, features


def learned_walk(
    name: str, panel: Panel, validation: Panel, binding: Binding, forecaster: Forecaster, horizon: int, key: int
) -> Walk:
    """One learned policy on the windows of a panel."""
    task = binding.task
    if name in ("fqi", "cql"):
        start = binding.start(panel.trace(0))[0]
        outcomes, features = training_data(validation, binding, forecaster, horizon, key)
        policy = train_offline("fqi" if name == "fqi" else "cql", task, start, outcomes, features, seed=_SEED)
    elif name in ("dqn", "ppo"):
        policy = load_learned(f"{NETWORK}-{name}")
    else:
        raise InputError("comparators.learned", repr(name), "fqi, cql, dqn or ppo")
    return walk(panel, Learned(policy, lambda trace: forecast_features(trace.members[..., 0], binding.delay)))
