"""One table of spreads: what is in it works everywhere, what is not is refused everywhere; cvar in members mode."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.kernels.common import spreads
from ucsearch.engine.kernels.common.jit import Plain
from ucsearch.engine.plain.window import mean_and_spread
from ucsearch.errors import InputError
from ucsearch.policies import resolve
from ucsearch.records.canonical import seal
from ucsearch.records.record import decision_record
from ucsearch.spreads import NUMBERS, SPREADS, spread_of, tail_mean
from ucsearch.tasks import LeadTimeInventory, Storage
from ucsearch.verify import verify_record

INVENTORY = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 3.0, 6.0), capacity=20.0)
TASK, STATE = INVENTORY.task(), INVENTORY.state(3.0, (2.0,))
TRACE = uc.Trace.from_members(np.random.default_rng(3).poisson(4.0, (9, 3)).astype(float))


def test_tail_mean_is_the_mean_of_the_worst_share():
    r = np.random.default_rng(0)
    for _ in range(500):
        size = int(r.integers(1, 9))
        values = np.round(r.normal(0.0, 3.0, size), int(r.integers(0, 3)))
        weights = r.random(size) + 0.01
        weights /= weights.sum()
        tail = float(r.choice([0.05, 0.2, 0.5, 1.0]))
        order = np.argsort(values)
        taken = np.clip(tail - (np.cumsum(weights[order]) - weights[order]), 0.0, weights[order])
        expected = (taken * values[order]).sum() / taken.sum()
        assert tail_mean(values.tolist(), weights.tolist(), tail) == pytest.approx(expected, abs=1e-12)
    assert tail_mean([0.1] * 7, [1 / 7] * 7, 0.2) == 0.1
    assert mean_and_spread([0.1] * 7, [1 / 7] * 7, NUMBERS["cvar"], 0.2) == (0.1, 0.0)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=[pytest.mark.compiled, pytest.mark.slow])])
def test_both_engines_and_the_verifier_agree_on_cvar(compiled):
    for policy in (
        uc.UCBeam(depth=3, width=6, mode="members", spread="cvar", risk=0.7, tail=0.3),
        uc.UCBeam(depth=2, width=9, mode="members", spread="cvar", risk=1.0),
    ):
        plain, fast = (uc.search(TASK, STATE, TRACE, policy, engine=e) for e in ("python", "compiled"))
        for one, other in zip(plain.outputs, fast.outputs, strict=True):
            assert one.tobytes() == other.tobytes()
        record, blobs = decision_record(uc.decide(TASK, STATE, TRACE, policy, run=uc.Run(engine="python")))
        assert verify_record(record, blobs, TASK).status == "valid"
        forged = {**record, "settings": {**record["settings"], "tail": 0.9}}
        forged.pop("id")
        assert verify_record(seal(forged), blobs, TASK).status == "invalid"


def test_cvar_prefers_what_is_better_for_every_member():
    r = np.random.default_rng(5)
    weights = [1 / 6] * 6
    for _ in range(300):
        worse = r.normal(0.0, 4.0, 6)
        better = worse + r.random(6)
        scores = []
        for returns in (worse, better):
            mean, spread = mean_and_spread(returns.tolist(), weights, NUMBERS["cvar"], 0.3)
            scores.append(mean - 1.0 * spread)
        assert scores[1] > scores[0]


def test_a_number_that_is_not_in_the_table_is_refused_everywhere():
    new = max(NUMBERS.values()) + 1
    with pytest.raises(ValueError, match="no spread"):
        spread_of(new)
    with pytest.raises(ValueError, match="no spread"):
        mean_and_spread([1.0, 2.0], [0.5, 0.5], new)
    with pytest.raises(InputError, match="spread"):
        uc.Exact(depth=2, spread="entropic")
    values, weights, found = np.array([[1.0, 2.0]]), np.array([[0.5, 0.5]]), np.zeros(1)
    kernels = spreads.build(Plain())
    assert math.isnan(kernels.one(values, 0, weights, 0, (new, 0.0))[1])
    kernels.several(values, 0, 1, weights, 0, (new, 0.0), np.zeros(1), found)
    assert math.isnan(found[0])
    policy = uc.UCBeam(depth=2, width=4, mode="members", risk=0.5)
    record, blobs = decision_record(uc.decide(TASK, STATE, TRACE, policy, run=uc.Run(engine="python")))
    forged = {**record, "settings": {**record["settings"], "spread": new}}
    forged.pop("id")
    assert verify_record(seal(forged), blobs, TASK).status == "malformed"


def test_a_bound_is_used_only_with_the_spreads_it_declares():
    storage = Storage().task()
    trace = uc.Trace.from_members(np.random.default_rng(1).normal(30.0, 5.0, (5, 4)))
    m = len(storage.actions)
    assert storage.risk_aware_bound
    assert "cvar" not in storage.bound_spreads
    assert resolve(uc.Exact(depth=3, mode="members", risk=0.5), storage, trace, m).use_bound
    assert not resolve(uc.Exact(depth=3, mode="members", risk=0.5, spread="cvar"), storage, trace, m).use_bound


def test_cvar_is_refused_where_it_has_no_meaning():
    with pytest.raises(InputError, match="another spread in mean mode"):
        uc.Exact(depth=2, spread="cvar")
    with pytest.raises(InputError, match="at most 1"):
        uc.Exact(depth=2, mode="members", spread="cvar", risk=1.2)
    for tail in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(InputError, match="tail"):
            uc.Exact(depth=2, mode="members", spread="cvar", tail=tail)
    assert {s.name for s in SPREADS.values()} == set(NUMBERS)
