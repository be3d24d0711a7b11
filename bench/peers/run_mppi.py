"""pytorch-mppi (path-integral control): continuous plans, projected on the feasible order sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import NONE_FOUND, Instances, load_instances, measure, parser, single_thread, write

single_thread()

import torch  # noqa: E402

Tensor = torch.Tensor
STATE = 6  # columns: on_hand, pipeline[0], pipeline[1], last, cost of the last step, step
DEAD_COST = 200.0  # per step spent in a dead end; above any path's cost on these instances


class TorchModel:
    """Dynamics of N windows with K samples each, rows ordered by window. Shared with run_icem."""

    def __init__(self, inst: Instances, windows: slice, samples: int) -> None:
        torch.set_num_threads(1)
        keys = ("capacity", "ramp", "unit", "holding", "shortage", "price", "lam")
        self.p: dict[str, float] = {key: inst[key] for key in keys}
        self.samples = samples
        self.members = torch.tensor(inst["members"][windows], dtype=torch.float32)  # (N, J, H)
        self.mean = self.members.mean(dim=1)
        self.actions = torch.tensor(inst["actions"], dtype=torch.float32)
        self.middles = (self.actions[1:] + self.actions[:-1]) / 2
        self.start = torch.zeros(len(self.members), STATE)
        for column, row in enumerate((inst["on_hand"], *inst["pipeline"].T, inst["last"])):
            self.start[:, column] = torch.from_numpy(row[windows])

    def project(self, s: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """Index of the feasible action nearest to `a`, and whether any action is feasible.

        Both limits are intervals, so the feasible actions are consecutive.
        """
        last = s[:, 3]
        room = self.p["capacity"] - (s[:, 0] + s[:, 1] + s[:, 2])
        low = torch.bucketize(last - self.p["ramp"], self.actions)
        high = torch.bucketize(torch.minimum(last + self.p["ramp"], room), self.actions, right=True) - 1
        nearest = torch.bucketize(a.contiguous(), self.middles)
        possible = low <= high
        return torch.where(possible, torch.minimum(torch.maximum(nearest, low), high), 0), possible

    def stock_value(self, y: Tensor, mean: Tensor, avail: Tensor) -> Tensor:
        """Edge value without the order cost; y: (N, J), mean: (N,), avail: (N * K,)."""
        p, stock = self.p, avail.view(len(y), 1, -1)
        slope = p["price"] + p["holding"] + p["shortage"]

        def money(demand: Tensor) -> Tensor:  # price * sold - holding * left - shortage * lost, collected
            demand = demand.unsqueeze(-1)
            return slope * torch.minimum(stock, demand) - p["holding"] * stock - p["shortage"] * demand

        each = money(y)
        # Written out: torch.std over a short middle axis takes nine times as long.
        spread = (each - each.mean(dim=1, keepdim=True)).square().mean(dim=1).sqrt()
        return (money(mean.unsqueeze(1)).squeeze(1) - p["lam"] * spread).reshape(-1)

    def step(self, s: Tensor, u: Tensor, h: int) -> Tensor:
        index, possible = self.project(s, u[:, 0])
        a = self.actions[index]
        avail = s[:, 0] + s[:, 1]
        mean = self.mean[:, h]
        g = self.stock_value(self.members[:, :, h], mean, avail) - self.p["unit"] * a
        left = (avail.view(len(mean), -1) - mean.unsqueeze(1)).clamp_min(0.0).reshape(-1)
        cost = torch.where(possible, -g, DEAD_COST)
        return torch.stack([left, s[:, 2], a, a, cost, s[:, 5] + 1.0], dim=1)

    def first(self, u: Tensor) -> list[int]:
        """Planned first orders, shape (N,), as action indices."""
        index, possible = self.project(self.start, u)
        return [int(i) for i in torch.where(possible, index, NONE_FOUND)]


def solver(inst: Instances, opt: Any) -> Callable[[], list[int]]:
    from pytorch_mppi import MPPI, MPPI_Batched

    depth, windows = int(inst["depth"]), len(inst["on_hand"])
    low, high = float(inst["actions"][0]), float(inst["actions"][-1])
    centre = (low + high) / 2
    settings: dict[str, Any] = {
        "nx": STATE, "noise_sigma": torch.tensor([[opt.sigma**2]]), "num_samples": opt.samples,
        "horizon": depth, "lambda_": opt.temperature, "step_dependent_dynamics": True,
        "u_min": torch.tensor([low]), "u_max": torch.tensor([high]),
    }  # fmt: skip

    def decide(rows: slice) -> list[int]:
        model = TorchModel(inst, rows, opt.samples)
        envs = len(model.start)

        def cost(s: Tensor, u: Tensor, h: int) -> Tensor:
            return s[:, 4]  # the controller calls this with the state after the step

        if opt.batch == 1:
            plan = torch.full((depth, 1), centre)
            mppi = MPPI(model.step, cost, U_init=plan, **settings)
            state = model.start[0]
        else:
            mppi = MPPI_Batched(model.step, cost, num_envs=envs, **settings)
            mppi.U = torch.full((envs, depth, 1), centre)
            state = model.start
        for _ in range(opt.iterations):
            u = mppi.command(state, shift_nominal_trajectory=False)
        return model.first(u.reshape(-1))

    def solve() -> list[int]:
        torch.manual_seed(opt.seed)  # the library draws from the global generator only
        return [i for lo in range(0, windows, opt.batch) for i in decide(slice(lo, min(lo + opt.batch, windows)))]

    return solve


def main() -> None:
    args = parser(__doc__, limit=48, repeats=3)
    args.add_argument("--samples", type=int, default=1024)
    args.add_argument("--iterations", type=int, default=5)
    args.add_argument("--sigma", type=float, default=1.0, help="standard deviation of the order noise")
    args.add_argument("--temperature", type=float, default=0.1)
    args.add_argument("--batch", type=int, default=1, help="windows per call; above 1 uses MPPI_Batched")
    opt = args.parse_args()
    inst = load_instances(opt.instances, opt.limit)
    with torch.inference_mode():
        timing = measure(solver(inst, opt), len(inst["on_hand"]), opt.repeats)
    keys = ("samples", "iterations", "sigma", "temperature", "batch", "seed")
    settings = {key: getattr(opt, key) for key in keys} | {
        "dtype": "float32",
        "threads": 1,
        "torch": torch.__version__,
    }
    notes = (
        "Each continuous order is projected on the nearest feasible order size inside the rollout; "
        f"a dead end costs {DEAD_COST:g} per step. Building the controller for a window is part of its time."
    )
    write(opt.out, "pytorch-mppi", settings, timing, notes)


if __name__ == "__main__":
    main()
