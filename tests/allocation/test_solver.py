"""The interval is right, the limits are kept, and both against a second solver and by brute force."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.allocation.kit import optimum, random_problem
from ucsearch.allocation.problem import Problem, Resource
from ucsearch.allocation.result import Result, evaluate, proved
from ucsearch.errors import InputError


def brute(problem: Problem) -> float:
    best = -math.inf
    for choice in itertools.product(range(problem.lower.shape[1]), repeat=len(problem.series)):
        picked = np.array(choice)
        value = problem.picked(problem.lower, picked)
        if not np.isnan(value).any() and problem.fits(picked):
            best = max(best, math.fsum(value.tolist()))
    return best


def check_figures(result: Result) -> None:
    """The identity of the specification, and every limit by exact sums."""
    assert result.problem.fits(result.choice)
    rent = [float(p @ s) for p, s in zip(result.prices, result.slack, strict=True)]
    whole = math.fsum([*result.loss.tolist(), *rent])
    assert whole == pytest.approx(result.root - result.lower, abs=1e-9 * (abs(result.upper) + abs(result.lower)))
    assert result.lower <= result.upper <= result.root + 1e-9 * abs(result.root)
    assert (result.loss >= 0.0).all()
    assert all((p >= 0.0).all() for p in result.prices)
    assert all((s >= 0.0).all() for s in result.slack)


@given(seed=st.integers(0, 10**9), count=st.integers(1, 5), resources=st.integers(1, 3), groups=st.integers(1, 2))
def test_the_interval_holds_the_best_of_all_allocations(seed: int, count: int, resources: int, groups: int) -> None:
    problem = random_problem(seed, count, 4, resources, groups)
    result = evaluate(problem)
    best = brute(problem)
    check_figures(result)
    tiny = 1e-9 * abs(best)
    assert result.lower <= best + tiny
    assert best <= result.upper + tiny


@pytest.mark.parametrize(("seed", "resources", "groups"), [(1, 1, 1), (2, 3, 1), (3, 2, 4)])
def test_the_interval_holds_what_a_second_solver_finds(seed: int, resources: int, groups: int) -> None:
    problem = random_problem(seed, 40, 6, resources, groups)
    result = evaluate(problem)
    best = optimum(problem)
    check_figures(result)
    assert result.lower <= best + 1e-6 * abs(best)
    assert best <= result.upper + 1e-6 * abs(best)


def test_a_bound_above_the_found_values_still_bounds() -> None:
    problem = random_problem(5, 4, 4, 2, slack=0.5)
    result = evaluate(problem)
    check_figures(result)
    # Whatever the true values between lower and upper are, no allocation beats the bound.
    truth = replace(problem, lower=problem.upper)
    assert brute(truth) <= result.upper + 1e-9 * abs(result.upper)


def test_many_series_leave_a_small_gap() -> None:
    for resources in (1, 3):
        result = evaluate(random_problem(7, 10_000, 9, resources))
        check_figures(result)
        assert result.gap <= 2e-4 * result.cost_of_budget
        assert result.passes()


def test_a_limit_that_is_not_reached_has_no_price() -> None:
    problem = random_problem(3, 20, 5, 1)
    wide = Resource("r0", problem.resources[0].use, np.array([1e9]), problem.resources[0].group)
    result = evaluate(Problem.of(problem.series, problem.lower, problem.upper, [wide]))
    assert result.table()[0].shadow_price == 0.0
    assert result.gap == 0.0
    assert result.cost_of_budget == 0.0
    assert result.passes()


def test_uses_of_zero_change_nothing() -> None:
    problem = random_problem(3, 20, 5, 1)
    free = Resource("r0", np.zeros((20, 5)), np.array([0.0]), np.zeros(20, np.int64))
    result = evaluate(Problem.of(problem.series, problem.lower, problem.upper, [free]))
    assert np.array_equal(result.choice, problem.lower.argmax(axis=1))
    assert result.gap == 0.0


def test_equal_values_take_the_smaller_use() -> None:
    value = np.array([[1.0, 1.0], [0.0, 5.0]])
    use = np.array([[3.0, 2.0], [0.0, 1.0]])
    result = evaluate(Problem.of("ab", value, value, [Resource("r", use, np.array([3.0]), np.zeros(2, np.int64))]))
    assert result.choice.tolist() == [1, 1]


def test_what_cannot_be_kept_is_named_with_what_is_missing() -> None:
    value, use = np.zeros((2, 2)), np.array([[2.0, 3.0], [4.0, 5.0]])
    taken = Resource("truck", use, np.array([7.0]), np.zeros(2, np.int64), taken=((2.5,),))
    result = evaluate(Problem.of("ab", value, value, [taken]))
    assert not result.feasible
    assert not result.passes(gap_limit=1e9)
    assert str(result.missing[0]) == "truck: at least 8.5 is needed, the limit is 7; 1.5 is missing"


def test_sums_are_correctly_rounded() -> None:
    """0.1 ten times is below 1 only when it is added up correctly; the eleventh does not fit."""
    value = np.array([[0.0, 1.0]] * 11)
    use = np.array([[0.0, 0.1]] * 11)
    names = [f"s{i}" for i in range(11)]
    result = evaluate(Problem.of(names, value, value, [Resource("r", use, np.array([1.0]), np.zeros(11, np.int64))]))
    assert int(result.choice.sum()) == 10


def test_any_prices_give_a_bound_and_better_ones_a_better_bound() -> None:
    problem = random_problem(11, 4, 4, 1)
    found = evaluate(problem)
    best = brute(problem)
    for factor in (0.0, 0.5, 2.0, 10.0):
        other = proved(problem, found.choice, tuple(p * factor for p in found.prices))
        check_figures(other)
        assert other.upper >= best - 1e-9 * abs(best)
        assert other.upper >= found.upper - 1e-9 * abs(best)


def test_more_of_a_limit_is_worth_what_the_interval_says() -> None:
    problem = random_problem(13, 5, 4, 1)
    result = evaluate(problem)
    limit = float(problem.resources[0].limits[0])
    for more in (0.3 * limit, -0.2 * limit):
        wider = Resource("r0", problem.resources[0].use, np.array([limit + more]), problem.resources[0].group)
        true = brute(Problem.of(problem.series, problem.lower, problem.upper, [wider])) - brute(problem)
        low, high = result.worth_of_more("r0", more)
        assert low - 1e-9 <= true <= high + 1e-9


def test_the_next_in_line_are_those_who_gain_most_per_unit() -> None:
    result = evaluate(random_problem(17, 300, 6, 1))
    line = result.next_in_line("r0", 50)
    slopes = [slope for _, slope, _ in line]
    assert slopes == sorted(slopes, reverse=True)
    assert len({name for name, _, _ in line}) == len(line) > 0
    with pytest.raises(InputError, match="one of 'r0'"):
        result.next_in_line("truck")


def test_equal_inputs_give_equal_bytes() -> None:
    first, second = (evaluate(random_problem(19, 500, 6, 2)) for _ in range(2))
    assert first.choice.tobytes() == second.choice.tobytes()
    assert [p.tobytes() for p in first.prices] == [p.tobytes() for p in second.prices]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"series": ["a", "a"]}, "every series once"),
        ({"lower": [[math.nan, math.nan], [0.0, 0.0]]}, "at least one action of 'a'"),
        ({"lower": [[5.0, 0.0], [0.0, 0.0]]}, "lower at most upper"),
        ({"use": [[-1.0, 0.0], [0.0, 0.0]]}, "at least 0 for 'a'"),
        ({"use": [[math.nan, 0.0], [0.0, 0.0]]}, "at least 0 for 'a'"),
        ({"limit": [math.inf]}, "a finite number"),
        ({"group": [0, 3]}, "numbers from -1 to 0"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], words: str) -> None:
    given: dict[str, object] = {
        "series": ["a", "b"], "lower": [[0.0, 1.0], [0.0, 1.0]], "use": [[0.0, 1.0], [0.0, 1.0]], "limit": [1.0],
        "group": [0, 0], **change,
    }  # fmt: skip
    resource = Resource("r", np.array(given["use"]), np.array(given["limit"]), np.array(given["group"]))
    with pytest.raises(InputError, match=words):
        Problem.of(given["series"], given["lower"], [[0.0, 1.0], [0.0, 1.0]], [resource])  # type: ignore[arg-type]


def test_a_choice_is_found_where_every_answer_to_prices_breaks_a_limit() -> None:
    """Each limit alone can be kept cheaply, both together by one action only."""
    value = np.array([[0.0, 5.0, 6.0]] * 2)
    uses = [np.array([[1.0, 0.0, 3.0]] * 2), np.array([[1.0, 3.0, 0.0]] * 2)]
    shared = [Resource(f"r{k}", u, np.array([2.0]), np.zeros(2, np.int64)) for k, u in enumerate(uses)]
    result = evaluate(Problem.of("ab", value, value, shared))
    assert result.feasible
    assert result.choice.tolist() == [0, 0]
    assert result.upper >= 0.0
