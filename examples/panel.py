"""Many products at once: one task, one call, grids of orders that fit each product's own scale.

Run with `python examples/panel.py`.
"""

import numpy as np

import ucsearch as uc
from ucsearch.lab.data import sample_demand
from ucsearch.tasks import LeadTimeInventory

HORIZON = 7
demand = sample_demand(count=40)  # generated here, weekly pattern, different levels and patterns


def last_weeks(y, count=12):
    """(count, HORIZON) paths: the last weeks as they were. A real forecaster goes here."""
    return y[-count * 7 :].reshape(count, 7)[:, :HORIZON]


# (W, J, H): W products, J members, H days.
traces = uc.Trace.from_members(np.stack([last_weeks(s.train) for s in demand.series]), model="last weeks")

# The grid is set per product: mean demand plus multiples of its deviation. Duplicates (0 and 0) become unavailable.
inventory = LeadTimeInventory(lead_time=1, order_sizes=range(9), holding=1.0, shortage=9.0)
actions, params = inventory.scaled(traces, multiples=(-4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0))

# A quarter of a day's demand in stock and a day's demand arriving, for everybody.
daily = np.array([s.train[-28:].mean() for s in demand.series])
states = [inventory.state(0.25 * level, (level,)) for level in daily.tolist()]

panel = uc.search_panel(
    inventory.task(), states, traces, uc.UCBeam(depth=6, width=8, top_k=4, risk=0.5), params=params, actions=actions
)
print(f"{len(panel)} products, {int(panel.expansions.sum())} expansions, engine {panel.engine}")
for w in range(5):
    one, grid = demand.series[w], ", ".join(f"{a:.0f}" for a in actions[w] if a == a)
    print(f"{one.id} {one.category:<12} demand {daily[w]:5.1f}  order {panel.action[w]:5.1f}  of {grid}")
