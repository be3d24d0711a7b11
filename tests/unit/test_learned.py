"""Learned comparators: exact on a small known chain, gradients against differences, resume, masks, saved evidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import Stock, stock

pytest.importorskip("gymnasium")
from ucsearch.gym import TaskVectorEnv
from ucsearch.learned import ConservativeQ, QTable, Transitions, collect, train_cql, train_fqi
from ucsearch.learned.base import masked_argmax
from ucsearch.learned.cql import _forward, _gradient


def chain() -> Transitions:
    """States 0, 1, 2 on a line; action 1 moves right, 0 stays; reward 1 for arriving at 2, which ends it."""
    rows = [(s, a, 1.0 if s + a == 2 else 0.0, s + a, s + a == 2) for s in (0, 1) for a in (0, 1)] * 5
    s, a, r, n, done = (np.array(x) for x in zip(*rows, strict=True))
    masks = np.ones((len(rows), 2), bool)
    return Transitions(s[:, None].astype(np.float32), a, r, n[:, None].astype(np.float32), masks, done)


def play(steps: int = 60) -> Transitions:
    rng = np.random.default_rng(0)
    series = [rng.poisson(3.0, 80).astype(float) for _ in range(4)]
    env = TaskVectorEnv(stock, Stock(4.0, (2.0, 2.0), 2.0), series, num_envs=32, length=40, engine="python")
    return collect(env, steps, np.random.default_rng(1))


def test_fqi_finds_the_values_of_a_known_chain() -> None:
    table = train_fqi(chain(), actions=2, bins=4, sweeps=400, discount=0.5)
    values = table.values[table.rows(np.array([[0.0], [1.0]]))]
    np.testing.assert_allclose(values, [[0.25, 0.5], [0.5, 1.0]], atol=1e-9)


def test_play_is_feasible_and_repeatable() -> None:
    data = play()
    again = play()
    assert data.digest() == again.digest()
    for row, action in zip(data.observations[:200], data.actions[:200], strict=True):
        state = Stock(float(row[0]), (float(row[1]), float(row[2])), float(row[3]))
        assert stock.feasible(state, stock.actions[int(action)], stock.params)


def test_the_gradient_is_the_derivative_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    shapes = ((3, 5), (5,), (5, 5), (5,), (5, 2), (2,))
    weights = tuple(rng.normal(0, 1, s) for s in shapes)
    inputs, actions, aim = rng.normal(0, 1, (7, 3)), rng.integers(0, 2, 7), rng.normal(0, 1, 7)
    _, gradient = _gradient(weights, inputs, actions, aim, 0.7)
    for i, shape in enumerate(shapes):
        place = tuple(int(rng.integers(n)) for n in shape)
        sides = []
        for sign in (1.0, -1.0):
            moved = [w.copy() for w in weights]
            moved[i][place] += sign * 1e-6
            sides.append(_gradient(tuple(moved), inputs, actions, aim, 0.7)[0])
        assert gradient[i][place] == pytest.approx((sides[0] - sides[1]) / 2e-6, abs=1e-5)
    assert _forward(weights, inputs)[-1].shape == (7, 2)


def test_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    data = play(20)
    whole = train_cql(data, actions=4, steps=60, hidden=8, sync=16, seed=3)
    half = train_cql(data, actions=4, steps=25, hidden=8, sync=16, seed=3)
    half.save(tmp_path / "half.npz")
    resumed = train_cql(
        data, actions=4, steps=35, hidden=8, sync=16, seed=3, start=ConservativeQ.load(tmp_path / "half.npz")
    )
    assert all(a.tobytes() == b.tobytes() for a, b in zip(whole.weights, resumed.weights, strict=True))
    assert resumed.evidence == whole.evidence
    other = train_cql(data, actions=4, steps=60, hidden=8, sync=16, seed=4)
    assert other.weights[0].tobytes() != whole.weights[0].tobytes()


def test_choices_stay_inside_the_mask_and_nan_never_wins(tmp_path: Path) -> None:
    data = play(20)
    table = train_fqi(data, actions=4)
    table.save(tmp_path / "table.npz")
    loaded = QTable.load(tmp_path / "table.npz")
    assert loaded.evidence == table.evidence
    rng = np.random.default_rng(2)
    mask = rng.random((500, 4)) < 0.4
    mask[~mask.any(axis=1), 0] = True
    seen = rng.normal(3, 2, (500, 4))
    chosen = table.act(seen, mask)
    assert mask[np.arange(500), chosen].all()
    assert (chosen == loaded.act(seen, mask)).all()
    values = np.array([[np.nan, 1.0, 5.0]])
    assert masked_argmax(values, np.array([[True, True, False]])).tolist() == [1]
    with pytest.raises(uc.InputError, match="no feasible action"):
        masked_argmax(values, np.zeros((1, 3), bool))


def test_a_file_that_is_no_policy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(uc.InputError, match="policy file"):
        ConservativeQ.load(tmp_path / "x.npz")
