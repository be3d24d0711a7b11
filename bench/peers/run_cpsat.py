"""OR-Tools CP-SAT: the exact model on integers, one worker, solved to proved optimality."""

from __future__ import annotations

import statistics
from typing import Any

from common import (
    NONE_FOUND,
    Instances,
    load_instances,
    measure,
    parser,
    single_thread,
    stock_value,
    window,
    write,
)

single_thread()

import numpy as np  # noqa: E402
from ortools.sat.python import cp_model  # noqa: E402

MONEY = 10**6  # objective units per unit of money
GRIDS = (1, 2, 4, 8, 16, 32, 64)  # stock units tried, finest last


def grid_of(inst: Instances) -> tuple[int, bool]:
    """Smallest number of grid points per unit that represents stock and demand exactly, else the finest."""
    depth = inst["depth"]
    mean = inst["members"][:, :, :depth].mean(axis=1)
    values = [
        mean,
        inst["on_hand"],
        inst["pipeline"],
        inst["last"],
        inst["actions"],
        inst["capacity"],
        inst["ramp"],
    ]
    for k in GRIDS:
        if all(np.array_equal(np.asarray(v) * k, np.round(np.asarray(v) * k)) for v in values):
            return k, True
    return GRIDS[-1], False


# About half the time of the defaults on models as small as these.
TUNED = {
    "linearization_level": 0,
    "cp_model_probing_level": 0,
    "symmetry_level": 0,
    "max_presolve_iterations": 1,
}


def decide(one: Instances, k: int, opt: Any) -> tuple[int, bool, float]:
    """First action index, whether it (or infeasibility) is proved, and the seconds inside the solver."""

    def scaled(x: Any) -> int:
        return round(float(x) * k)

    depth, capacity = int(one["depth"]), scaled(one["capacity"])
    orders = [scaled(a) for a in one["actions"]]
    mean = [scaled(x) for x in one["members"].mean(axis=0)]
    grid = np.arange(capacity + 1) / k
    model = cp_model.CpModel()
    ramp = scaled(one["ramp"])
    choice = cp_model.Domain.from_values(orders)
    plan = [model.new_int_var_from_domain(choice, f"order_{h}") for h in range(depth)]
    on_hand: Any = scaled(one["on_hand"])
    pipeline: list[Any] = [scaled(x) for x in one["pipeline"]]
    last: Any = scaled(one["last"])
    gains: list[Any] = []
    for h, order in enumerate(plan):
        model.add(on_hand + sum(pipeline) + order <= capacity)
        model.add_linear_constraint(order - last, -ramp, ramp)
        table = np.round(stock_value(grid, one["members"][:, h], one) * MONEY).astype(int).tolist()
        stock = on_hand + pipeline[0]
        if isinstance(stock, int):
            # Orders have not arrived yet: the stock is a number, and so is its value.
            if stock > capacity:
                return NONE_FOUND, True, 0.0
            gains.append(table[stock])
            on_hand = max(stock - mean[h], 0)
        else:
            avail = model.new_int_var(0, capacity, f"avail_{h}")
            model.add(avail == stock)
            gain = model.new_int_var(min(table), max(table), f"gain_{h}")
            model.add_element(avail, table, gain)
            gains.append(gain)
            if h + 1 < depth:
                on_hand = model.new_int_var(0, capacity, f"on_hand_{h + 1}")
                model.add_max_equality(on_hand, [avail - mean[h], 0])
        pipeline = [pipeline[1], order]
        last = order
    # Both terms in units of 1 / (MONEY * k).
    cost = round(one["unit"] * MONEY)
    model.maximize(sum(gains) * k - cost * sum(plan))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = opt.seed
    solver.parameters.max_time_in_seconds = opt.time_limit
    for name, value in (TUNED if opt.tuned else {}).items():
        setattr(solver.parameters, name, value)
    status = solver.solve(model)
    proved = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return orders.index(solver.value(plan[0])) if found else NONE_FOUND, proved, solver.wall_time


def main() -> None:
    args = parser(__doc__, limit=48, repeats=3)
    args.add_argument("--time-limit", type=float, default=30.0, help="seconds per window")
    args.add_argument("--tuned", action="store_true", help="solver parameters for small models, not the defaults")
    opt = args.parse_args()
    inst = load_instances(opt.instances, opt.limit)
    k, exact = grid_of(inst)
    windows = len(inst["on_hand"])
    proved: list[bool] = []
    inside: list[float] = []

    def solve() -> list[int]:
        results = [decide(window(inst, i), k, opt) for i in range(windows)]
        proved[:] = [ok for _, ok, _ in results]
        inside.append(sum(seconds for _, _, seconds in results) * 1e6 / windows)
        return [index for index, _, _ in results]

    timing = measure(solve, windows, opt.repeats)
    settings = {
        "workers": 1,
        "grid_per_unit": k,
        "money_scale": MONEY,
        "time_limit_s": opt.time_limit,
        "seed": opt.seed,
        "parameters": TUNED if opt.tuned else {},
    }
    fit = "exact for these instances" if exact else "ROUNDED: the instances do not lie on it"
    notes = (
        f"Stock in 1/{k} units ({fit}). The edge value less the order cost depends on the step and the "
        "available stock only (the order cost is the same for every member): it is tabulated per step over "
        f"the stock grid, rounded to 1/{MONEY}, and read with an element constraint. "
        "Building the model is part of the time. "
        f"Proved optimal or infeasible: {sum(proved)} of {windows}."
    )
    solver_us = statistics.median(inside[1:])  # the first call is the warm-up
    write(opt.out, "ortools", settings, timing, notes, solver_us_per_window=solver_us)


if __name__ == "__main__":
    main()
