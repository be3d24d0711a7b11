from typing import NamedTuple
import numpy as np
import ucsearch as uc

class State(NamedTuple):
    charge: float   # MWh stored
    last: float     # last power, MW

class Params(NamedTuple):
    capacity: float
    ramp: float
    efficiency: float

def feasible(s, a, p):
    return 0.0 <= s.charge + a <= p.capacity and abs(a - s.last) <= p.ramp

def step(s, a, price, p):
    return State(s.charge + a, a)

def reward(s, a, price, p):
    return -price * a / p.efficiency if a > 0 else -price * a * p.efficiency

def fallback(s, p):
    return 0.0

battery = uc.Task(
    name="battery", state=State, actions=[-2.0, -1.0, 0.0, 1.0, 2.0], params=Params(8.0, 2.0, 0.95),
    feasible=feasible, step=step, reward=reward, fallback=fallback,
)
uc.check_task(battery, State(4.0, 0.0), outcomes=[20.0, 80.0, -5.0])

prices = 50 + 30 * np.sin(np.arange(24) / 4) + np.random.default_rng(0).normal(0, 8, (40, 24))   # (members, horizon)
trace = uc.Trace.from_members(prices)
plan = uc.search(battery, State(4.0, 0.0), trace,
                 uc.UCBeam(depth=12, width=16, top_k=5, risk=0.25))
print(plan.action, plan.path, plan.score, plan.reward, plan.uncertainty, plan.expansions, plan.action_scores)
