"""Learned comparators: exact on a small known chain, gradients against differences, resume, masks, saved evidence."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import Stock, stock

pytest.importorskip("gymnasium")
from ucsearch.errors import DataError
from ucsearch.lab.gym import TaskVectorEnv
from ucsearch.lab.learned import (
    ConservativeQ,
    Evidence,
    LearnedPolicy,
    NetworkPolicy,
    QTable,
    Transitions,
    collect,
    forecast_features,
    load_lost_sales,
    load_policy,
    policy_names,
    train_cql,
    train_fqi,
    train_offline,
)
from ucsearch.lab.learned.base import masked_argmax
from ucsearch.lab.learned.cql import _forward, _gradient
from ucsearch.lab.learned.lost_sales import order_mask
from ucsearch.replay.classics import average_cost, load_instance, zipkin_instances
from ucsearch.tasks import DelayedExposure


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
    with pytest.raises(FileNotFoundError):
        ConservativeQ.load(tmp_path / "y.npz")


def test_choices_are_feasible_on_twenty_thousand_cases_and_dead_ends_are_refused() -> None:
    data = play(20)
    rng = np.random.default_rng(6)
    mask = rng.random((20_000, 4)) < 0.3
    dead = ~mask.any(axis=1)
    assert dead.sum() > 1_000
    seen = rng.normal(3, 2, (20_000, 4)).astype(np.float32)
    seen[rng.random(20_000) < 0.01, 0] = np.nan  # then every value is NaN, and the first feasible action is taken
    for policy in (train_fqi(data, actions=4), train_cql(data, actions=4, steps=30, hidden=8), network((4, 8, 4))):
        chosen = policy.act(seen[~dead], mask[~dead])
        assert mask[~dead][np.arange(chosen.size), chosen].all()
        with pytest.raises(uc.InputError, match="no feasible action"):
            policy.act(seen, mask)


# ---------------------------------------------------------------- saved policies


def network(sizes: tuple[int, ...] = (3, 5, 2), activation: str = "tanh", seed: int = 0) -> NetworkPolicy:
    rng = np.random.default_rng(seed)
    weights = [x for a, b in itertools.pairwise(sizes) for x in (rng.normal(size=(a, b)), rng.normal(size=b))]
    weights = [w.astype(np.float32).astype(np.float64) for w in weights]
    evidence = Evidence("test", {"rate": 0.1}, 7, "", 12, math.nan, ("a note",), {"task": "x"}, (1.0, 2.0))
    return NetworkPolicy(tuple(weights), activation, np.ones(sizes[0]), np.full(sizes[0], 2.0), evidence)


def test_a_network_keeps_its_evidence_and_is_refused_when_changed(tmp_path: Path) -> None:
    made = network()
    digest = made.save(tmp_path / "n.npz")
    body = json.loads((tmp_path / "n.json").read_text())
    assert (body["sha256"], body["file"], body["seed"], body["loss"]) == (digest, "n.npz", 7, None)
    loaded = NetworkPolicy.load(tmp_path / "n.npz")
    assert math.isnan(loaded.evidence.loss)
    assert dataclasses.replace(loaded.evidence, loss=0.0) == dataclasses.replace(made.evidence, loss=0.0)
    rows = np.random.default_rng(1).normal(size=(40, 3))
    assert loaded.values(rows).tobytes() == made.values(rows).tobytes()
    content = bytearray((tmp_path / "n.npz").read_bytes())
    content[-30] ^= 1
    (tmp_path / "n.npz").write_bytes(bytes(content))
    with pytest.raises(DataError, match="SHA-256"):
        NetworkPolicy.load(tmp_path / "n.npz")
    (tmp_path / "n.json").unlink()
    with pytest.raises(uc.InputError, match="policy file"):
        NetworkPolicy.load(tmp_path / "n.npz")


@pytest.mark.parametrize("kind", ["table", "network"])
def test_trained_tables_and_networks_are_hashed_too(kind: str, tmp_path: Path) -> None:
    data = play(10)
    made: Any = train_fqi(data, actions=4) if kind == "table" else train_cql(data, actions=4, steps=3, hidden=4)
    made.save(tmp_path / "p.npz")
    assert type(made).load(tmp_path / "p.npz").evidence == made.evidence
    assert made.evidence.versions["numpy"] == np.__version__
    with (tmp_path / "p.npz").open("ab") as file:
        file.write(b" ")
    with pytest.raises(DataError, match="SHA-256"):
        type(made).load(tmp_path / "p.npz")


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_forward_pass_is_the_definition_row_by_row(activation: str) -> None:
    made = network((3, 5, 4, 2), activation)
    rows = np.random.default_rng(1).normal(size=(30, 3))
    w = made.weights
    squash = np.tanh if activation == "tanh" else lambda x: np.maximum(x, 0.0)
    inside = squash(squash(((rows - 1.0) / 2.0) @ w[0] + w[1]) @ w[2] + w[3]) @ w[4] + w[5]
    np.testing.assert_allclose(made.values(rows), inside, rtol=1e-12)
    one_by_one = np.concatenate([made.values(rows[i : i + 1]) for i in range(30)])
    assert one_by_one.tobytes() == made.values(rows).tobytes()
    mask = np.random.default_rng(2).random((30, 2)) < 0.5
    mask[:, 0] |= ~mask[:, 1]
    assert mask[np.arange(30), made(rows, mask)].all()
    free = np.ones((30, 2), bool)
    assert (made(rows, free) == np.argmax(inside, axis=1)).all()


def test_networks_that_do_not_fit_are_refused() -> None:
    made = network()
    with pytest.raises(uc.InputError, match="activation"):
        dataclasses.replace(made, activation="sine")
    with pytest.raises(uc.InputError, match="weights"):
        dataclasses.replace(made, weights=made.weights[:3])
    with pytest.raises(uc.InputError, match="weights"):
        dataclasses.replace(made, centre=np.ones(2))
    broken = (np.full_like(made.weights[0], np.nan), *made.weights[1:])
    with pytest.raises(uc.InputError, match="not finite"):
        dataclasses.replace(made, weights=broken)
    with pytest.raises(uc.InputError, match="observations"):
        made.values(np.ones((4, 2)))
    with pytest.raises(uc.InputError, match="one of"):
        load_policy("nobody")


def test_every_policy_that_comes_along_loads_and_has_evidence() -> None:
    names = policy_names()
    assert {f"lost-sales-ppo-{i.name}" for i in zipkin_instances("poisson")} <= set(names)
    for name in names:
        policy = load_policy(name)
        evidence = policy.evidence
        assert evidence.steps > 0
        assert evidence.returns
        assert evidence.notes
        assert len(evidence.env["digest"]) == 64
        assert {"torch", "stable-baselines3", "numpy"} <= set(evidence.versions)
        assert policy.actions == len(evidence.env["actions"])


@pytest.mark.parametrize("name", ["zipkin-poisson-p4-L1", "zipkin-poisson-p9-L2"])
def test_ppo_costs_what_its_evidence_says_and_not_less_than_the_optimum(name: str) -> None:
    policy = load_lost_sales(name)
    cost = average_cost(policy.model, policy).value
    assert policy.network.evidence.notes == (f"exact long-run cost {cost:.6f} per period",)
    optimum = load_instance(name).published
    assert optimum is not None
    assert optimum - 0.005 <= cost <= 1.05 * optimum


def test_orders_keep_the_levels() -> None:
    levels = (9, 6, 4)
    states = np.array([[0, 0], [5, 3], [9, 0], [0, 5], [20, 0]])
    mask = order_mask(states, levels, 7)
    assert mask.sum(axis=1).tolist() == [5, 2, 1, 2, 1]  # orders 0..4, 0..1, 0, 0..1, 0
    for row, allowed in zip(states.tolist(), mask, strict=True):
        due = [sum(row[i:]) for i in range(2)]
        for order in np.flatnonzero(allowed).tolist()[1:]:
            assert order <= levels[2]
            assert all(v + order <= s for v, s in zip(due, levels, strict=False))


# ---------------------------------------------------------------- for tables of results


def test_features_are_of_the_steps_an_action_can_change() -> None:
    members = np.array([[[9.0, 1.0, 3.0], [9.0, 3.0, 5.0]]])
    assert forecast_features(members, 1).tolist() == [[2.0, 3.0, 1.0]]
    assert forecast_features(members, 2).tolist() == [[4.0, 4.0, 1.0]]
    with pytest.raises(uc.InputError, match="members"):
        forecast_features(members, 3)


@pytest.mark.parametrize("method", ["fqi", "cql"])
def test_offline_training_uses_the_forecast_and_repeats(method: Any) -> None:
    """Returns are known one step ahead: who reads the feature earns, whoever does not, cannot."""
    config = DelayedExposure(cost=0.01)
    rng = np.random.default_rng(4)
    series = [np.sign(rng.normal(size=61)) for _ in range(6)]
    series = [np.repeat(y, 4)[:200] for y in series]
    features = [np.stack([np.roll(y, -1)] * 3, axis=1) for y in series]
    settings: dict[str, Any] = {"bins": 3} if method == "fqi" else {"steps": 800}

    def train(seed: int) -> LearnedPolicy:
        return train_offline(
            method, config.task(), config.state(), series, features, length=30, seed=seed, windows=16, rounds=150,
            engine="python", **settings,
        )  # fmt: skip

    policy = train(3)
    env = TaskVectorEnv(
        config.task(), config.state(), series, num_envs=8, features=features, length=30, engine="python",
        autoreset="same_step",
    )  # fmt: skip
    observation, info = env.reset(seed=3)
    total = 0.0
    for _ in range(29):
        states, known = observation[:, :-3], observation[:, -3:]
        chosen = policy(states, info["action_mask"], known)
        assert info["action_mask"][np.arange(8), chosen].all()
        observation, rewards, _, _, info = env.step(chosen)
        total += float(rewards.sum())
    assert total / (8 * 29) > 0.5  # a fixed position earns about nothing, full knowledge at most 3
    states, known, mask = observation[:, :-3], observation[:, -3:], info["action_mask"]
    assert (train(3)(states, mask, known) == policy(states, mask, known)).all()
    assert train(3).evidence == policy.evidence != train(5).evidence
    assert policy.evidence.env["task"] == "delayed_exposure"
    with pytest.raises(uc.InputError, match="method"):
        train_offline("dqn", config.task(), config.state(), series, features, seed=1)  # type: ignore[arg-type]


def test_an_entry_without_a_limit_is_no_signal() -> None:
    data = play(10)
    wide = np.full((len(data.actions), 1), 1e18, np.float32)
    with_limit = data._replace(
        observations=np.concatenate([data.observations, wide], axis=1),
        following=np.concatenate([data.following, wide], axis=1),
    )
    model = train_cql(with_limit, actions=4, steps=2, hidden=4)
    scaled = (with_limit.observations - model.centre) / model.scale
    assert np.abs(scaled).max() < 20.0
    assert (scaled[:, -1] == 0.0).all()
    double = with_limit.observations.astype(np.float64)
    double[:, -1] = 1e18  # which single precision rounds by more than ten thousand million
    np.testing.assert_allclose(model.values(double), model.values(with_limit.observations), rtol=1e-9)
