"""pytorch-icem (improved cross-entropy method): continuous plans, projected on the feasible order sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common import Instances, load_instances, measure, parser, single_thread, write

single_thread()

import colorednoise  # noqa: E402
import numpy as np  # noqa: E402
import pytorch_icem  # noqa: E402
import torch  # noqa: E402
from run_mppi import DEAD_COST, STATE, Tensor, TorchModel  # noqa: E402


class SeededICEM(pytorch_icem.iCEM):  # type: ignore[misc]
    """The library's noise takes no seed; this passes one and is otherwise the library's method."""

    rng: np.random.Generator

    def sample_action_sequences(self, state: Tensor, N: int) -> Tensor:
        noise = colorednoise.powerlaw_psd_gaussian(self.noise_beta, (N, self.nu, self.H), random_state=self.rng)
        samples = torch.from_numpy(noise.transpose(0, 2, 1)).to(dtype=self.dtype)
        plans: Tensor = self.mean + self.std * samples
        return plans


def solver(inst: Instances, opt: Any) -> Callable[[], list[int]]:
    depth, windows = int(inst["depth"]), len(inst["on_hand"])
    # The method starts its plan at 0, so orders are counted from the middle of the grid.
    centre = float(inst["actions"][0] + inst["actions"][-1]) / 2

    def decide(i: int, rng: np.random.Generator) -> list[int]:
        model = TorchModel(inst, slice(i, i + 1), opt.samples)

        def dynamics(s: Tensor, u: Tensor) -> Tensor:
            return model.step(s, u + centre, int(s[0, 5]))

        def cost(states: Tensor, u: Tensor) -> Tensor:
            return states[:, :, 4].sum(dim=1)

        icem = SeededICEM(
            dynamics, cost, nx=STATE, nu=1, sigma=torch.tensor([opt.sigma]), num_samples=opt.samples,
            num_elites=opt.elites, horizon=depth, noise_beta=opt.noise_beta, warmup_iters=opt.iterations,
        )  # fmt: skip
        icem.rng = rng
        u = icem.command(model.start[0], shift_nominal_trajectory=False)
        return model.first(u + centre)

    def solve() -> list[int]:
        rng = np.random.default_rng(opt.seed)
        return [index for i in range(windows) for index in decide(i, rng)]

    return solve


def main() -> None:
    args = parser(__doc__, limit=48, repeats=3)
    args.add_argument("--samples", type=int, default=256)
    args.add_argument("--iterations", type=int, default=5)
    args.add_argument("--elites", type=int, default=10)
    args.add_argument("--sigma", type=float, default=2.0, help="standard deviation of the order noise")
    args.add_argument("--noise-beta", type=float, default=1.0, help="exponent of the coloured noise")
    opt = args.parse_args()
    inst = load_instances(opt.instances, opt.limit)
    with torch.inference_mode():
        timing = measure(solver(inst, opt), len(inst["on_hand"]), opt.repeats)
    keys = ("samples", "iterations", "elites", "sigma", "noise_beta", "seed")
    settings = {key: getattr(opt, key) for key in keys} | {
        "dtype": "float32",
        "threads": 1,
        "torch": torch.__version__,
    }
    notes = (
        "Each continuous order is projected on the nearest feasible order size inside the rollout; "
        f"a dead end costs {DEAD_COST:g} per step. Building the controller for a window is part of its time."
    )
    write(opt.out, "pytorch-icem", settings, timing, notes)


if __name__ == "__main__":
    main()
