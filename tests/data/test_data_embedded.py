import hashlib

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.lab.data import sample_demand, sample_states


def test_sample_is_the_same_everywhere() -> None:
    # Whole numbers from integer arithmetic: a change here changes every golden decision built on the sample.
    demand = sample_demand()
    digest = hashlib.sha256(b"".join(one.y.tobytes() for one in demand)).hexdigest()
    assert digest.startswith("df5a84845f6a7f51")
    assert [s.lead_time for s in sample_states(demand)] == [1, 1, 2, 1, 1, 1, 2, 0, 2, 1, 3, 0]


def test_sample_looks_like_demand() -> None:
    demand = sample_demand()
    assert (len(demand), demand.ids[0], demand.ids[-1]) == (12, "SKU-001", "SKU-012")
    for one in demand:
        assert np.array_equal(one.y, np.round(one.y))
        assert one.y.min() >= 0.0
        assert one.y.max() > one.y.min()
        assert one.test.size == one.horizon == 14
    zeros = {one.category: float((one.y == 0.0).mean()) for one in demand}
    assert zeros["intermittent"] > 0.4
    assert zeros["steady"] == zeros["trend"] == zeros["seasonal"] == 0.0


def test_series_do_not_depend_on_how_many_there_are() -> None:
    few, many = sample_demand(3), sample_demand(30)
    for one in few:
        assert np.array_equal(one.y, many.get(one.id).y)


def test_other_seed_other_sample() -> None:
    assert not np.array_equal(sample_demand(seed=1).series[0].y, sample_demand(seed=2).series[0].y)


def test_states_belong_to_their_series() -> None:
    demand = sample_demand(40)
    states = sample_states(demand)
    assert tuple(s.id for s in states) == demand.ids
    assert {s.lead_time for s in states} == {0, 1, 2, 3}
    for state in states:
        assert len(state.on_order) == state.lead_time
        assert state.on_hand >= 0.0
        assert all(x >= 0.0 and x == round(x) for x in state.on_order)


def test_refused_sizes() -> None:
    with pytest.raises(InputError, match="count: saw 0"):
        sample_demand(0)
    with pytest.raises(InputError, match="horizon: saw 20"):
        sample_demand(1, 20, horizon=20)
