"""One thread for torch: the networks are tiny, and sums in one order make equal seeds give equal weights."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
