"""The settings file: what it becomes, and how it is refused."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import pytest

import ucsearch as uc
from tests.planner.kit import TOML, make_settings
from ucsearch.errors import InputError
from ucsearch.planner.new.inventory import INVENTORY
from ucsearch.planner.settings import (
    SettingsError,
    edited,
    field_notes,
    find_settings,
    json_schema,
    load_settings,
    parse_changes,
    parse_settings,
    task_classes,
)
from ucsearch.planner.settings.own import own_task
from ucsearch.tasks import LeadTimeInventory


def refused(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode(), "job.toml")
    assert isinstance(caught.value, InputError)
    assert str(caught.value).splitlines() == list(caught.value.lines)
    return list(caught.value.lines)


def test_tables_become_the_objects_they_describe() -> None:
    s = make_settings("[gate]\nregret_limit = 2.5\n[proof]\nkind = 'oracle'\n")
    assert s.task == LeadTimeInventory(
        lead_time=1, order_sizes=(0.0, 5.0, 10.0, 15.0), holding=1.0, shortage=9.0, unit_cost=0.5,
        fallback_rule="level", end_stock="unit_cost",
    )  # fmt: skip
    assert s.policy == uc.Exact(depth=3, risk=0.25)
    assert s.gate == uc.Gate(regret_limit=2.5)
    assert (s.units, s.currency, s.period, s.proof.kind) == ("pieces", "EUR", "any", "oracle")
    assert math.isnan(s.calibration.eps_c)
    assert s.forecaster.name == "seasonal-naive"


def test_whole_numbers_may_stand_for_numbers_but_nothing_else_is_bent() -> None:
    assert make_settings("[actions]\nround_to = 2\n").actions.round_to == 2.0
    assert refused(TOML.replace("holding = 1.0", "holding = '1'")) == [
        "job.toml: task.holding: saw '1', expected a number"
    ]
    assert refused(TOML.replace("holding = 1.0", "holding = true")) == [
        "job.toml: task.holding: saw True, expected a number"
    ]
    assert refused(TOML.replace("lead_time = 1", "lead_time = 1.5")) == [
        "job.toml: task.lead_time: saw 1.5, expected a whole number or a table"
    ]


def test_an_unknown_key_is_named_with_the_likeliest_and_all_allowed() -> None:
    (line,) = refused(TOML.replace("holding", "holdin"))
    assert line.startswith("job.toml: task.holdin: unknown key, expected 'holding'? All keys: name, lead_time,")
    (line,) = refused(TOML + "[gates]\n")
    assert line.startswith("job.toml: gates: unknown key, expected 'gate'? All keys: units, currency,")
    (line,) = refused(TOML + "[columns]\nxyzzy = 'a'\n")
    assert line.startswith("job.toml: columns.xyzzy: unknown key, expected one of series, step, date,")


def test_every_problem_has_its_own_line() -> None:
    lines = refused(TOML.replace("holding", "holdin").replace("depth = 3", "depth = 'deep'") + "[run2]\n")
    assert [line.split(": ")[1] for line in lines] == ["task.holdin", "policy.depth", "run2"]


def test_allowed_values_are_listed() -> None:
    assert refused(TOML.replace('name = "exact"', 'name = "magic"')) == [
        "job.toml: policy.name: saw 'magic', expected one of 'uc_beam', 'pareto_beam', 'certified_beam', "
        "'constrained_beam', 'exact', 'mcts'"
    ]
    (line,) = refused(TOML.replace("lead_time_inventory", "inventory"))
    assert line.startswith("job.toml: task.name: saw 'inventory', expected one of ")
    assert "'lead_time_inventory'" in line
    (line,) = refused(TOML.replace("lead_time = 1", "unmet = 'maybe'"))
    assert line == "job.toml: task.unmet: saw 'maybe', expected one of 'lost' or 'backordered'"


def test_a_name_is_asked_for() -> None:
    (line,) = refused(TOML.replace('name = "lead_time_inventory"', ""))
    assert line.startswith("job.toml: task.name: ")
    assert "'lead_time_inventory'" in line
    assert refused("units = 'x'") == [
        "job.toml: task: missing, expected a table",
        "job.toml: policy: missing, expected a table",
    ]


def test_the_classes_own_checks_speak_with_the_key() -> None:
    lines = refused(TOML.replace("shortage = 9.0", "shortage = -1.0").replace("depth = 3", "depth = 0"))
    assert lines == [
        "job.toml: task.shortage: saw -1.0, expected a number at least 0",
        "job.toml: policy.depth: saw 0, expected a whole number from 1 to 10000",
    ]
    assert refused(TOML + "[gate]\nnear = true\n") == [
        "job.toml: gate.regret_limit: saw None, expected a limit, because gate.near is set"
    ]


def test_a_time_budget_is_not_for_files() -> None:
    (line,) = refused(TOML + "[gate]\ntime_budget_s = 1.0\n")
    assert line.startswith("job.toml: gate.time_budget_s: not for files")


def test_scores_cannot_come_from_a_file() -> None:
    (line,) = refused(TOML.replace("depth = 3", "depth = 3\nmode = 'scores'"))
    assert line.startswith("job.toml: policy.mode: saw 'scores', expected 'mean' or 'members'")


def test_multiples_replace_the_order_sizes() -> None:
    plain = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "")
    s = parse_settings((plain + "[actions]\nmultiples = [-1.0, 0.0, 1.0]\n").encode())
    assert len(s.task.order_sizes) == 4  # nothing, and the three
    other = "[task]\nname = 'storage'\n[policy]\nname = 'exact'\ndepth = 3\n[actions]\nmultiples = [0.0]\n"
    assert refused(other) == ["job.toml: actions.multiples: saw a list, expected nothing: storage cannot be scaled"]
    (line,) = refused(TOML + "[actions]\nmultiples = [0.0]\n")
    assert line.startswith("job.toml: task.order_sizes: saw a list, expected nothing beside actions.multiples")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("holding = 4,00", "a number with a point, such as 4.00"),
        ("holding = 1.0\nholding = 2.0", "each key and each table once"),
        ("unmet = lost", 'a text in quotes, such as "EUR"'),
        ("unmet = True", "true or false in small letters"),
        ('unmet = "C:\\data\\x"', "a path with / in place of \\"),
        ("holding = [1.0", "TOML (unclosed array)"),
    ],
)
def test_a_line_that_is_no_toml_is_shown_with_what_belongs_there(line: str, expected: str) -> None:
    text = f"# ours\n[task]\n{line}\n"
    last = line.splitlines()[-1]
    assert refused(text) == [f"job.toml, line {text.count(chr(10))}: saw {last!r}, expected {expected}"]


def test_settings_as_windows_saves_them() -> None:
    assert (
        parse_settings(TOML.replace("\n", "\r\n").encode("utf-8-sig"), "job.toml").task
        == parse_settings(TOML.encode()).task
    )
    with pytest.raises(SettingsError, match=r"job\.toml, line 2: saw '# Größe' in another encoding, expected UTF-8"):
        parse_settings(("# ours\n# Größe\n" + TOML).encode("cp1252"), "job.toml")


def test_what_is_no_toml_or_no_file(tmp_path: Path) -> None:
    (line,) = refused("[task\n")
    assert line == "job.toml, line 1: saw '[task', expected TOML (expected ']' at the end of a table declaration)"
    with pytest.raises(SettingsError, match=r"nowhere\.toml: cannot be read \(No such file or directory\)"):
        load_settings(tmp_path / "nowhere.toml")


def test_the_digest_is_that_of_the_file_and_of_changes() -> None:
    assert make_settings().digest != make_settings("# a comment\n").digest
    changed = parse_settings(TOML.encode(), changes=parse_changes(["policy.depth=4"]))
    assert changed.policy.depth == 4
    assert changed.text == edited(TOML, {"policy": {"depth": 4}})
    assert changed.digest == parse_settings(changed.text.encode()).digest != make_settings().digest


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["policy.depth=10", "task.ramp=2.5"], {"policy": {"depth": 10}, "task": {"ramp": 2.5}}),
        (["period=day"], {"period": "day"}),
        (["files.sales=new sales.csv"], {"files": {"sales": "new sales.csv"}}),
        (["actions.multiples = [0.0, 1]"], {"actions": {"multiples": [0.0, 1]}}),
        (["gate.certificate=true", 'units="true"'], {"gate": {"certificate": True}, "units": "true"}),
        (["task.ramp=none"], {"task": {"ramp": None}}),
        (["columns.rename.stock=on_hand"], {"columns": {"rename": {"stock": "on_hand"}}}),
    ],
)
def test_changes_are_typed_as_in_the_file(typed: list[str], found: dict[str, object]) -> None:
    assert parse_changes(typed) == found


@pytest.mark.parametrize("typed", [["depth"], ["=1"], ["a="], ["a=1", "a=2"], ["a.b=1", "a=2"], ["a b=1"]])
def test_changes_that_cannot_be_made_are_refused(typed: list[str]) -> None:
    with pytest.raises(InputError, match="--set"):
        parse_changes(typed)


def test_a_wrong_change_is_told_as_a_wrong_file_is() -> None:
    with pytest.raises(SettingsError, match=r"settings: task\.capcity: unknown key, expected 'capacity'\?"):
        parse_settings(TOML.encode(), changes={"task": {"capcity": 5}})


def test_the_settings_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shop" / "today"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=r"no settings file in this folder, expected ucsearch\.toml"):
        find_settings()
    (tmp_path / "shop" / "other.toml").write_text(TOML)  # of a folder above only ucsearch.toml counts
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (folder / "tuned.toml").write_text(TOML)
    assert find_settings() == Path("tuned.toml")
    (folder / "job.toml").write_text(TOML.replace("depth = 3", "depht = 3"))  # told when it is read
    with pytest.raises(InputError, match=r"job.toml, tuned.toml, expected one settings file.*-c job.toml"):
        find_settings()
    (folder / "ucsearch.toml").write_text(TOML)
    assert find_settings() == Path("ucsearch.toml")
    for name in ("ucsearch.toml", "job.toml", "tuned.toml"):
        (folder / name).unlink()
    (tmp_path / "shop" / "ucsearch.toml").write_text(TOML)
    assert find_settings() == Path("../ucsearch.toml")
    assert load_settings(find_settings()).path("sales") == Path("../sales.csv")


def test_files_lie_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(f"{TOML}[files]\nsales = 'data/s.csv'\nlog = '/logs/a.db'\n")
    found = load_settings(tmp_path / "job.toml")
    assert found.path("sales") == tmp_path / "data" / "s.csv"
    assert found.path("log") == Path("/logs/a.db")
    assert found.path("states") == tmp_path / "states.csv"
    assert found.path("archive") is None


def test_the_schema_describes_every_table_and_task() -> None:
    schema = json.loads(json.dumps(json_schema(), allow_nan=False))
    assert set(schema["properties"]) == {
        "units", "currency", "period", "task", "policy", "gate", "calibration", "proof", "actions", "forecast",
        "forecaster", "columns", "backtest", "run", "shared", "log", "files", "orders", "supplier",
    }  # fmt: skip
    assert schema["required"] == ["task", "policy"]
    assert schema["additionalProperties"] is False
    inventory = schema["$defs"]["LeadTimeInventory"]["properties"]
    assert inventory["holding"]["description"] == field_notes(LeadTimeInventory)["holding"]
    assert "currency" in inventory["holding"]["description"]
    assert "time_budget_s" not in schema["$defs"]["Gate"]["properties"]
    assert task_classes()["lead_time_inventory"] is LeadTimeInventory


def test_the_scaffold_is_valid() -> None:
    s = parse_settings(INVENTORY.encode())
    assert s.policy.depth == 8
    assert s.policy.mode == "closed"
    assert s.actions.lots == 8
    assert s.task.merge_arrivals


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("true", "shared.truck.limit: saw True, expected a number, a list or a table"),
        ('[1.0, "x"]', "shared.truck.limit.1: saw 'x', expected a number"),
        ('{A = "x"}', "shared.truck.limit.A: saw 'x', expected a number or a list"),
    ],
)
def test_a_value_of_several_types_is_one_problem(limit: str, said: str) -> None:
    text = TOML + f'\n[shared]\ntruck = {{ use = "units", limit = {limit} }}\n'
    assert refused(text) == [f"job.toml: {said}"]


def test_closed_loop_values_stock_left_by_the_order_it_puts_off_unless_told_otherwise() -> None:
    closed = TOML.replace("[policy]\n", '[policy]\nmode = "closed"\n', 1).replace("risk = 0.25\n", "")
    assert parse_settings(closed.encode()).task.end_stock == "cycle"
    assert parse_settings(TOML.encode()).task.end_stock == "unit_cost"
    given = closed.replace("[task]\n", '[task]\nend_stock = "unit_cost"\n', 1)
    assert parse_settings(given.encode()).task.end_stock == "unit_cost"
    none = closed.replace("[task]\n", "[task]\nsalvage = 0\n", 1)
    assert parse_settings(none.encode()).task.end_stock == "salvage"


@pytest.mark.parametrize(
    ("policy", "proof", "nodes"),
    [
        ('mode = "closed"', "node_budget = 5000000", 5_000_000),
        ('mode = "closed"\nnode_budget = 30', "node_budget = 5000000", 30),
        ('mode = "closed"', "", uc.Exact(depth=2).node_budget),
        ('mode = "members"', "node_budget = 5000000", uc.Exact(depth=2).node_budget),
    ],
)
def test_a_closed_loop_has_the_effort_of_its_proof(policy: str, proof: str, nodes: int) -> None:
    """It is one search; with its own smaller budget two of a hundred decisions of other data fell back."""
    task = '[task]\nname = "lead_time_inventory"\norder_sizes = [0.0, 1.0]\n'
    text = f'{task}[policy]\nname = "exact"\ndepth = 2\n{policy}\n[proof]\n{proof}\n'
    found = parse_settings(text.encode())
    assert isinstance(found.policy, uc.Exact)
    assert found.policy.node_budget == nodes


def test_without_source_files_fields_say_that_they_are_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(what: object) -> str:
        raise OSError("could not get source code")

    before = field_notes(uc.Gate)
    monkeypatch.setattr("inspect.getsource", gone)
    after = field_notes(uc.Gate)
    assert set(after) >= set(before) > set()
    assert all(note.startswith("not described") for note in after.values())


OWN_TASK = """
from typing import NamedTuple
import ucsearch as uc
class S(NamedTuple):
    x: float
own = uc.Task(
    name="own", version="1", state=S, actions=(0.0, 1.0), feasible=lambda s, a, p: True,
    step=lambda s, a, y, p: S(a), reward=lambda s, a, y, p: a, fallback=lambda s, p: 0.0,
)
"""


def test_of_the_current_folder_only_the_named_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "its_own_task.py").write_text(OWN_TASK)
    (tmp_path / "a_planted_name.py").write_text("raise SystemExit(0)")
    (tmp_path / "its_neighbour.py").write_text("import a_planted_name")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part not in ("", ".")])
    before = list(sys.path)
    try:
        assert own_task("its_own_task:own").task().name == "own"
        assert sys.path == before
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("a_planted_name")
        for bad in ("its_neighbour:x", "a_planted_name:x", "its_own_task:none", "no_such:x"):
            with pytest.raises(InputError, match="an object that can be imported"):
                own_task(bad)
        for bad in ("its_own_task:", ":own", "own"):
            with pytest.raises(InputError, match=r"expected 'package:object' or 'file\.py:object'"):
                own_task(bad)
    finally:
        sys.modules.pop("its_own_task", None)
