"""Claims are derived block by block; a panel of several blocks says of every window what it says alone."""

from __future__ import annotations

import numpy as np
import pytest

from ucsearch.certificate.claims import BLOCK, Evidence, derive


def evidence(windows: int) -> Evidence:
    rng = np.random.default_rng(windows)
    figures = {name: rng.normal(size=(windows, 3)) for name in Evidence._fields if not name.endswith("_size")}
    sizes = {name: np.abs(rng.normal(size=(windows, 3))) for name in Evidence._fields if name.endswith("_size")}
    chosen = {name: rng.integers(0, 3, windows) for name in ("selected", "searched_selected")}
    known = {"actions": rng.random((windows, 3)) < 0.9, "exact": rng.random(windows) < 0.5}
    share = {"share": rng.choice((1e-12, 1e-3), windows)}
    return Evidence(**{**figures, **sizes, **chosen, **known, **share})


@pytest.mark.parametrize("windows", [1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 7])
def test_a_panel_of_blocks_is_its_windows(windows: int) -> None:
    e = evidence(windows)
    whole = derive(e, 0.01)
    assert all(len(column) == windows for column in whole)
    for w in {0, windows // 2, windows - 1}:
        alone = derive(Evidence(*(column[w : w + 1] for column in e)), 0.01)
        assert [c[w : w + 1].tobytes() for c in map(np.ascontiguousarray, whole)] == [c.tobytes() for c in alone]
