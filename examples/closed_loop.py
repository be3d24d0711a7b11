"""Closed loop: the first order is proved best against every policy on a grid of order sizes, not only every fixed plan.

Demand is learned day by day, so tomorrow's order may depend on today's sales. States repeat on a lattice, which makes
the exact value of every policy cheap to compute.
"""

import numpy as np

import ucsearch as uc
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory
from ucsearch.verify import verify_record

rng = np.random.default_rng(4)
members = rng.poisson(4.0, size=(40, 6)).astype(float)  # 40 members x 6 days, from a forecaster of yours
trace = uc.Trace.from_members(members, model="poisson")

# Unit, law (independent days, 5 block means a day on multiples of the unit) and order sizes that fit each other.
lattice = LeadTimeInventory(lead_time=1, shortage=9.0, fixed_cost=2.0).lattice(trace, unit=1.0, points=5, orders=5)
inventory = lattice.inventory
state = inventory.state(on_hand=3.0, open_orders=(4.0,))

policy = uc.Exact(depth=4, mode="closed", fixed_plan=True)
decision = uc.decide(inventory.task(), state, lattice.trace, policy, run=uc.Run(engine="python"))
print(decision.explain())

closed = decision.certificate.closed
print(f"best policy {decision.certificate.plan.score:.2f}, best fixed plan {closed.open_value:.2f} under the same law")
print(f"{closed.states} states, {closed.transitions} transitions; variance ratio {closed.worst_ratio:.2f}")

record, blobs = decision_record(decision)
print("verifier:", verify_record(record, blobs, inventory.task()).status)
