"""Draw the pictures of the pages on the closed loop and on shared budgets again: `python scripts/pictures.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

import ucsearch as uc
from ucsearch.tasks import LeadTimeInventory

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "ucsearch", "svg.fonttype": "none", "font.size": 9, "figure.dpi": 72})
from matplotlib import pyplot as plt  # noqa: E402

DOCS = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def closed_loop(path: Path) -> None:
    """Orders of one policy after low, middle and high demand, beside the best fixed plan."""
    members = np.random.default_rng(4).poisson(4.0, size=(40, 6)).astype(float)
    made = LeadTimeInventory(lead_time=1, shortage=9.0, fixed_cost=2.0).lattice(
        uc.Trace.from_members(members), unit=1.0, points=5, orders=5
    )
    stock = made.inventory.state(on_hand=3.0, open_orders=(4.0,))
    policy = uc.Exact(depth=5, mode="closed", fixed_plan=True)
    decision = uc.decide(made.inventory.task(), stock, made.trace, policy, run=uc.Run(engine="python"))
    certificate = decision.certificate
    if certificate is None or certificate.closed is None:
        raise SystemExit("no closed-loop certificate")
    figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.5), sharey=True, layout="constrained")
    for ax, branch in zip(axes, certificate.plan.branches, strict=True):
        days = np.arange(len(branch.actions))
        demand = [y[0] if isinstance(y, tuple) else y for y in branch.outcomes]
        ax.bar(days - 0.2, branch.actions, 0.4, label="order", color="#2b6cb0")
        ax.bar(days[: len(demand)] + 0.2, demand, 0.4, label="demand", color="#cbd5e0")
        ax.set_title(f"{branch.name} outcomes")
        ax.set_xlabel("day")
        ax.set_xticks(days)
    axes[0].set_ylabel("units")
    axes[0].legend(frameon=False)
    figure.suptitle(
        f"One policy: the first order is the same, later ones follow demand. Worth {certificate.plan.score:.2f}, "
        f"the best fixed plan {certificate.closed.open_value:.2f}", fontsize=9,
    )  # fmt: skip
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def shared_budgets(path: Path) -> None:
    """The proved band of the value against the size of the truck, and what its last unit is worth."""
    inventory = LeadTimeInventory(
        lead_time=1, order_sizes=(0.0, 6.0, 12.0, 18.0, 24.0, 30.0), shortage=9.0, fixed_cost=5.0
    )
    rng = np.random.default_rng(7)
    members = rng.poisson(rng.uniform(4.0, 16.0, 60)[:, None, None], (60, 20, 4)).astype(float)
    states = [inventory.state(on_hand=float(x), open_orders=(4.0,)) for x in rng.integers(0, 12, 60)]
    policy = uc.Exact(depth=3, mode="members", every_action=True)
    panel = uc.decide_panel(inventory.task(), states, members, policy, run=uc.Run(engine="python"))
    sizes = np.linspace(100.0, 1000.0, 19)
    band, price = [], []
    for size in sizes:
        found = uc.allocate(panel, uc.Shared(name="truck", limit=float(size), use="units"), serve="best").result
        if found is None:
            raise SystemExit("nobody took part")
        band.append((found.lower, found.upper))
        price.append(found.table()[0].shadow_price)
    low, high = np.array(band).T
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 2.6), layout="constrained")
    left.fill_between(
        sizes, low, high, alpha=0.35, linewidth=0.0, color="#2b6cb0", label="proved: the optimum is in here"
    )
    left.plot(sizes, low, marker="o", markersize=2.5, color="#2b6cb0", label="value of the allocation")
    left.axhline(found.without, color="0.4", linewidth=0.8, linestyle="--", label="without any limit")
    left.set(xlabel="units the truck carries", ylabel="value of 60 series")
    left.legend(frameon=False)
    right.step(sizes, price, where="mid", color="#c05621")
    right.set(xlabel="units the truck carries", ylabel="worth of one more unit")
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def main() -> int:
    for name, draw in (("closed-loop.svg", closed_loop), ("shared-budgets.svg", shared_budgets)):
        draw(DOCS / name)
        print(f"{DOCS / name}: {(DOCS / name).stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
