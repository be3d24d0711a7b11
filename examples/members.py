"""Members mode: every forecast member lives through the plan, and follows a base-stock rule after it.

Mean mode plans against the mean forecast. Members mode rolls each member through the rules, so that a day without
stock in one member is not averaged away; a continuation then says what is done after the searched days, so that a
short search need not fear the end of its horizon. Run with `python examples/members.py`.
"""

import numpy as np

import ucsearch as uc
from ucsearch.tasks import LeadTimeInventory

rng = np.random.default_rng(7)
trace = uc.Trace.from_members(rng.poisson(5.0, size=(30, 14)).astype(float), model="poisson")  # 30 members, 14 days

plain = LeadTimeInventory(lead_time=2, order_sizes=range(11), shortage=19.0)
# After the searched days each member orders up to a level; the best of these levels over the same members counts.
followed = LeadTimeInventory(lead_time=2, order_sizes=range(11), shortage=19.0, base_stock_levels=(16, 18, 20, 22, 24))

state = plain.state(on_hand=6.0, open_orders=(5.0, 4.0))
mean = uc.search(plain.task(), state, trace, uc.UCBeam(depth=3, width=8, risk=0.5))
members = uc.search(plain.task(), state, trace, uc.UCBeam(depth=3, width=8, risk=0.5, mode="members"))
longer = uc.search(followed.task(), state, trace, uc.UCBeam(depth=2, width=8, risk=0.5, mode="members"))

print(f"mean mode:     order {mean.action:g}, expected cost {-mean.reward:.1f} over 3 days")
print(f"members mode:  order {members.action:g}, expected cost {-members.reward:.1f} over 3 days")
level = followed.base_stock_levels[longer.continuation]
print(f"continuation:  order {longer.action:g}, expected cost {-longer.reward:.1f} over 14 days, later up to {level}")
