"""The set that a decision is best of, in words: how many actions, of which kind, how far, in which steps."""

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ucsearch.errors import InputError
from ucsearch.task import Task
from ucsearch.tasks import TASKS
from ucsearch.tasks.inventory.record import LeadTimeInventory


class _State(NamedTuple):
    x: float


class _Params(NamedTuple):
    crate: float


def _task(**changes: Any) -> Task:
    given: dict[str, Any] = dict(
        name="own", state=_State, actions=(0.0, 1.0, 2.0), feasible=lambda s, a, p: True,
        step=lambda s, a, y, p: s, reward=lambda s, a, y, p: a, fallback=lambda s, p: 0.0,
    )  # fmt: skip
    return Task(**given | changes)


@pytest.mark.parametrize(
    ("changes", "actions", "pack", "words"),
    [
        ({}, (0, 1, 2, 3, 4, 5, 6), 0.0, "among 7 actions offered"),
        ({}, (0, 1, math.nan), 0.0, "among 2 actions offered"),
        ({}, (3.0,), 0.0, "as the only one offered"),
        ({"called": "sizes"}, (0, 12, 40), 0.0, "among 3 sizes offered (0 to 40)"),
        ({"called": "sizes"}, (0, 30, 60, 90), 0.0, "among 4 sizes offered (0 to 90 in steps of 30)"),
        ({"called": "sizes"}, (0.0, 0.1, 0.2, 0.1 * 3), 0.0, "among 4 sizes offered (0 to 0.3 in steps of 0.1)"),
        ({"called": "powers"}, (-2, 0, 2), 0.0, "among 3 powers offered (-2 to 2 in steps of 2)"),
        ({"called": "sizes"}, tuple(range(0, 246, 6)), 6.0, "of all whole packs of 6 up to 240"),
        ({"called": "sizes"}, (0, 6, 12, math.nan), 6.0, "of all whole packs of 6 up to 12"),
        ({"called": "sizes"}, (0, 6, 18), 6.0, "among 3 sizes offered (0 to 18)"),  # a pack is left out
        ({"called": "sizes"}, (0, 12, 24), 6.0, "among 3 sizes offered (0 to 24 in steps of 12)"),
        ({"called": "sizes"}, (6, 12, 18), 6.0, "among 3 sizes offered (6 to 18 in steps of 6)"),
        ({"called": "moves", "labels": ("sell", "hold", "buy")}, (0, 1, 2), 0.0, "among 3 moves offered"),
    ],
)
def test_the_set_is_named(changes: dict[str, Any], actions: tuple[float, ...], pack: float, words: str) -> None:
    assert _task(**changes).offered(actions, pack) == words


def test_the_pack_is_a_parameter_of_the_task() -> None:
    task = _task(params=_Params(6.0), pack="crate")
    assert task.pack_in([24.0]) == 24.0
    assert _task().pack_in([]) == 0.0
    with pytest.raises(InputError, match=r"task\.pack"):
        _task(params=_Params(6.0), pack="box")
    with pytest.raises(InputError, match=r"task\.pack"):
        _task(pack="crate")
    with pytest.raises(InputError, match=r"task\.called"):
        _task(called=" ")


def test_every_ready_task_says_what_its_actions_are() -> None:
    for name, entry in TASKS.items():
        for config in entry.kind.instances().values():
            assert config.task().called != "actions", name


def test_inventory_knows_packs_and_levels() -> None:
    packed = LeadTimeInventory(order_sizes=(0.0, 6.0, 12.0), case_pack=6.0).task()
    assert packed.offered(packed.actions, packed.pack_in(packed.params_row[0])) == "of all whole packs of 6 up to 12"
    level = LeadTimeInventory(order_sizes=(5.0, 9.0, 30.0), orders="level").task()
    assert level.offered(level.actions) == "among 3 levels offered (5 to 30)"


ROOT = Path(__file__).parents[2]
PROVED = re.compile(r"\b(?:proved|proven)(?: to be)?(?: the)? best\b\s*(?P<set>\S*)", re.IGNORECASE)
NAMED = ("of", "among", "{offered}", "{}")


def texts() -> Iterator[tuple[str, str]]:
    """Pages, templates, and what the program can say (docstrings excepted)."""
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        yield page.name, page.read_text(encoding="utf-8")
    for page in (ROOT / "src").rglob("*.html"):
        yield page.name, page.read_text(encoding="utf-8")
    for module in (ROOT / "src").rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        if not re.search("prove", text, re.IGNORECASE):
            continue
        tree = ast.parse(text)
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield module.name, "".join(x.value if isinstance(x, ast.Constant) else "{}" for x in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                yield module.name, node.value


def test_whatever_is_called_proved_best_is_best_of_a_set_that_is_named() -> None:
    found = [(name, m) for name, text in texts() for m in PROVED.finditer(text)]
    assert len(found) > 10
    # The two words alone, to which a set is added: decision/words.py.
    assert not [
        (name, m.group()) for name, m in found if m["set"].rstrip(",.") not in NAMED and m.string != "proved best"
    ]
