"""What `uc.warm` makes ready, and what it asks for first. Kernels are run as text here: nothing is compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.errors import InputError
from ucsearch.tasks import LeadTimeInventory


class Level(NamedTuple):
    x: float


TASK = uc.Task(
    name="warmed", state=Level, actions=[0.0, 1.0], feasible=lambda s, a, p: True,
    step=lambda s, a, y, p: Level(s.x + a - y), reward=lambda s, a, y, p: -a * y, fallback=lambda s, p: 0.0,
)  # fmt: skip


def test_search_proof_and_what_members_need_besides() -> None:
    assert uc.warm(TASK, uc.UCBeam(depth=2, width=2), certify=False) == ("search",)
    assert uc.warm(TASK, uc.UCBeam(depth=2, width=2)) == ("search", "proof")
    members = uc.UCBeam(depth=2, width=2, mode="members", risk=0.5)
    assert uc.warm(TASK, members) == ("search", "proof", "certain", "bound")


def test_a_trace_that_is_given_is_the_one_that_counts() -> None:
    with pytest.raises(InputError, match="horizon"):
        uc.warm(TASK, uc.UCBeam(depth=3, width=2), trace=uc.Trace.from_members(np.zeros((2, 2))))


def test_states_with_tuples_must_be_shown() -> None:
    inventory = LeadTimeInventory(lead_time=2)
    with pytest.raises(InputError, match="hold tuples") as seen:
        uc.warm(inventory.task(), uc.UCBeam(depth=2, width=2), certify=False)
    assert seen.value.field == "state"
    state = inventory.state(3.0)
    assert uc.warm(inventory.task(), uc.UCBeam(depth=2, width=2), state=state, certify=False) == ("search",)
    with pytest.raises(InputError, match="task"):
        uc.warm("warmed", uc.UCBeam(depth=2, width=2))  # type: ignore[arg-type]
