"""One thread for torch: the networks are tiny, and sums in one order make equal seeds give equal weights."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)
