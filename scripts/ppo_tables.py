"""Write the PPO policies of the lost-sales instances as tables of orders, as the lost-sales suite reads them.

    python scripts/ppo_tables.py        # after scripts/train_policies.py lost-sales; prints the SHA-256 for the suite

One whole number per state of Morton's space and instance, so that the suite needs neither torch nor a network.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from ucsearch.lab.learned import load_lost_sales
from ucsearch.lab.suites.kinds.lost_sales.chain import chain_space
from ucsearch.lab.suites.suite import load_suite

FILE = Path(__file__).resolve().parents[1] / "src" / "ucsearch" / "lab" / "suites" / "policies" / "lost-sales-ppo.npz"


def main() -> None:
    tables = {}
    for name in load_suite("lost-sales").settings.instances:
        policy = load_lost_sales(name)
        tables[name] = policy.orders(chain_space(policy.model).states).astype(np.int16)
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **tables)
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes, sha256 {hashlib.sha256(FILE.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
