"""One truck for sixty products: each decision is proved alone, then the truck is shared with a proof of its own.

Run with `python examples/truck.py`.
"""

import numpy as np

import ucsearch as uc
from ucsearch.tasks import LeadTimeInventory

INVENTORY = LeadTimeInventory(
    lead_time=1, order_sizes=(0.0, 6.0, 12.0, 18.0, 24.0, 30.0), holding=1.0, shortage=9.0, fixed_cost=5.0
)
TASK = INVENTORY.task()


def main() -> None:
    rng = np.random.default_rng(7)
    names = [f"SKU-{i:02d}" for i in range(60)]
    demand = rng.uniform(4.0, 16.0, 60)
    trace = uc.Trace.from_members(rng.poisson(demand[:, None, None], (60, 20, 4)).astype(float))
    states = [INVENTORY.state(on_hand=float(x), open_orders=(4.0,)) for x in rng.integers(0, 12, 60)]

    # Every first action needs a value, not only the best one, if somebody is to get less than they want.
    policy = uc.Exact(depth=3, mode="members", every_action=True)
    panel = uc.decide_panel(TASK, states, trace, policy, run=uc.Run(engine="python"))

    litres = {name: float(x) for name, x in zip(names, rng.uniform(0.5, 3.0, 60), strict=True)}
    truck = uc.Shared(name="the truck", limit=700.0, use="units", times=litres)
    shared = uc.allocate(panel, truck, series=names, gap_share=0.01)
    print(shared.explain(most=3))

    assert shared.result is not None
    low, high = shared.result.worth_of_more("the truck", 20.0)
    print(f"20 litres more would be worth between {low:.1f} and {high:.1f}")
    print(
        "next in line:",
        ", ".join(f"{name} ({per:.2f} a litre)" for name, per, _ in shared.result.next_in_line("the truck", 3)),
    )


if __name__ == "__main__":
    main()
