"""Templates of kernels spelled out: names become numbers, and what stands in several of them is written once.

`Status.DEAD_END`, `Fault.STATE`, `First.RETAINED`, `Col.SCORE`, `OutI.STATUS`, `OutF.SCORE`, `ISet.DEPTH`, `FSet.RISK`
and `Keep.PARETO` are the numbers of those lists. `*UC_PANEL` and `*UC_SCORING` are groups of arguments. A line
`# <insert scratch>` stands for the piece of that name in templates/pieces.py, indented alike;
`# <insert wins first=x>` puts `x` where the piece says `UC_first_`.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from importlib import resources
from typing import Any

from ucsearch.engine.arrays import Col, FSet, ISet, OutF, OutI
from ucsearch.engine.status import Fault, First, Status
from ucsearch.policies import Keep

__all__ = ["GROUPS", "ROOM", "spell_out"]

_LISTS: dict[str, Any] = {
    "Status": Status, "Fault": Fault, "First": First, "Col": Col, "OutI": OutI, "OutF": OutF, "ISet": ISet,
    "FSet": FSet, "Keep": Keep,
}  # fmt: skip
_NAME = re.compile(rf"\b({'|'.join(_LISTS)})\.([A-Z][A-Z_]*)\b")
_INSERT = re.compile(r"^( *)# <insert (\w+)((?: \w+=\S*)*)>\n", re.MULTILINE)
_PIECE = re.compile(r"^# <piece (\w+)>\n(.*?)^# </piece>\n", re.MULTILINE | re.DOTALL)
_OPEN = re.compile(r"\bUC_[A-Za-z]+_")

# What room a bound's table takes in a kernel: in all, for each step, for each member, for each member of each step.
ROOM = ("ROOM", "ROOM_STEP", "ROOM_EACH", "ROOM_BOTH")

# Arguments that go together.
GROUPS = {
    "UC_PANEL": "iset, fset, states, params, actions, mean, members, weights, q, u, disc, "
    "out_i, out_f, flags, table, path_out, paths, lo, hi",
    "UC_TABLED": "w, reach, risk, spread, use_bound, p, mean, members, weights, wrow, own_mean, own_members, own_room",
    # a window, and the scratch in which the actions of one of its nodes are scored
    "UC_SCORING": "p, actions, arow, mean, members, weights, wrow, q, u, tables, suffix, "
    "work, edge, ci, cq, cu, crank, ctogo, cst, crew",
}
_GROUP = re.compile(rf"\*({'|'.join(GROUPS)})\b")


@lru_cache(maxsize=64)
def spell_out(text: str) -> str:
    """A template as it is compiled."""
    text = _INSERT.sub(_piece, text)
    if "# <insert" in text:
        raise ValueError("a template inserts a piece in a way that is not understood")
    text = _GROUP.sub(lambda found: GROUPS[found[1]], text)
    return _NAME.sub(lambda found: str(_number(found[1], found[2])), text)


def _number(kind: str, name: str) -> int:
    found = getattr(_LISTS[kind], name)
    return int(found.value if isinstance(found, IntEnum) else found)


def _piece(found: re.Match[str]) -> str:
    given = dict(item.split("=", 1) for item in found[3].split())
    text = _pieces()[found[2]]
    for name, value in given.items():
        text = text.replace(f"UC_{name}_", value)
    if _OPEN.search(text):
        raise ValueError(f"the piece {found[2]} needs more than {found[3]!r}")
    return "".join(found[1] + line if line.strip() else line for line in text.splitlines(keepends=True))


@lru_cache(maxsize=1)
def _pieces() -> dict[str, str]:
    text = (resources.files("ucsearch.engine.compiled") / "templates" / "pieces.py").read_text()
    return dict(_PIECE.findall(text))
