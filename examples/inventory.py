"""One product: a ready-made task, a forecast given as mean and deviation, a search with a proof.

Run with `python examples/inventory.py`.
"""

import ucsearch as uc
from ucsearch.tasks import LeadTimeInventory

# Orders of 0, 1, ..., 8 cases arrive two days later. What cannot be served is lost, at 9 a case; a case left over
# costs 1 a day. The store and the open orders hold 20 cases; an order differs from the last by at most 3.
inventory = LeadTimeInventory(lead_time=2, holding=1.0, shortage=9.0, capacity=20.0, ramp=3.0)
task = inventory.task()
state = inventory.state(on_hand=4.0, open_orders=(3.0, 2.0))

# The forecast: mean demand of the next six days and its standard deviation, here spread over 9 quantiles.
trace = uc.Trace.from_mean([3.0, 4.0, 5.0, 5.0, 4.0, 3.0], [1.0, 1.2, 1.5, 1.5, 1.2, 1.0])

# A beam is fast and usually right; the task has a bound, so it can say how far from the optimum it may be.
beam = uc.search(task, state, trace, uc.UCBeam(depth=6, width=8, top_k=3, risk=0.5))
print(f"beam:  order {beam.action:g}, score {beam.score:.3f}, at most {beam.optimality_gap:.3f} below the optimum")

# Exact search proves the first action, and values every alternative if asked to.
exact = uc.search(task, state, trace, uc.Exact(depth=6, risk=0.5, every_action=True))
print(f"exact: order {exact.action:g}, score {exact.score:.3f}, {exact.status.name.lower()}")
print(f"path:  {', '.join(f'{a:g}' for a in exact.path)}")
print(f"stock: {', '.join(f'{s.on_hand:.1f}' for s in exact.states)}")
for row in exact.first_actions:
    print(f"  {row.label}: " + (f"score {row.score:.3f}" if row.retained else "not allowed"))
