"""Limits of [shared]: decided, shared out, recorded, verified, told and ordered by the commands a planner types."""

from __future__ import annotations

import csv
import math
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ucsearch.cli.main import app
from ucsearch.planner.decide import job
from ucsearch.planner.decide.resume import keep
from ucsearch.planner.settings import SettingsError, load_settings
from ucsearch.records.log import AuditReader
from ucsearch.verify import verify_file

TRUCK = '[shared]\ntruck = { column = "litres", limit = 300 }\n'
NOW = ("--now", "2024-05-20")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample files in a small and quick setting, with litres and trucks."""
    here = tmp_path_factory.mktemp("shared")
    run(here, "new", "inventory", str(here))
    settings = here / "ucsearch.toml"
    text = settings.read_text().replace("depth = 8 ", "depth = 3 ").replace("lots = 8", "lots = 4")
    settings.write_text(text.replace('pages = "pages" ', '# pages = "pages" '))
    rows = list(csv.reader((here / "states.csv").open()))
    with (here / "states.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*rows[0], "litres", "truck"])
        for i, row in enumerate(rows[1:]):
            writer.writerow([*row, 1.5 if i % 3 else 4.0, "AB"[i % 2]])
    return here


@pytest.fixture
def shop(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "shop"
    shutil.copytree(sample, here)
    monkeypatch.chdir(here)
    return here


def run(here: Path, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, done.output
    return done.output


def limited(here: Path, table: str = TRUCK) -> None:
    with (here / "ucsearch.toml").open("a") as file:
        file.write("\n" + table)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open()))


def litres(here: Path) -> dict[str, float]:
    return {row["series"]: float(row["litres"]) for row in rows_of(here / "states.csv")}


def test_a_run_keeps_the_limit_and_its_record_is_valid(shop: Path) -> None:
    limited(shop)
    text = run(shop, "decide", *NOW)
    assert "truck: " in text
    assert "proved for today's limit; limits on later days are not counted" in text
    rows, volume = rows_of(shop / "decisions.csv"), litres(shop)
    assert math.fsum(float(r["order"]) * volume[r["series"]] for r in rows) <= 300.0
    alone = math.fsum(float(r["alone"]) * volume[r["series"]] for r in rows)
    assert alone > 300.0
    cut = [r for r in rows if r["order"] != r["alone"]]
    assert {r["limit"] for r in cut} == {"truck"}
    verdicts = verify_file(shop / "decisions.db")
    assert [v.status for v in verdicts] == ["valid"] * 9
    with AuditReader("decisions.db") as log:
        assert log.get(9).record["kind"] == "allocation"
        counts = log.effective(log.list(kind="decision"))
        assert {c.action for c in counts.values()} == {float(r["action"]) for r in rows}


def test_what_is_shared_is_the_best_there_is(shop: Path) -> None:
    """Every combination of the recorded values, one by one."""
    limited(shop)
    run(shop, "decide", *NOW)
    volume = litres(shop)
    with AuditReader("decisions.db") as log:
        records = [row.record for row in log.list(kind="decision")]
        (shared,) = [row.record for row in log.list(kind="allocation")]
    offers = [
        [(x["score"], r["task"]["actions"][x["index"]] * volume[r["series"]]) for x in r["rivals"]] for r in records
    ]
    best = max(sum(v for v, _ in one) for one in product(*offers) if math.fsum(u for _, u in one) <= 300.0)
    assert shared["claim"]["lower"] == pytest.approx(best, abs=1e-9)


def test_explain_names_price_what_it_would_have_got_and_who_is_next(shop: Path) -> None:
    limited(shop)
    run(shop, "decide", *NOW)
    cut = next(r for r in rows_of(shop / "decisions.csv") if r["order"] != r["alone"])
    text = run(shop, "explain", cut["series"])
    assert f"it gets {cut['action']} instead of {cut['alone']}" in text
    assert "one more unit is worth about" in text
    assert "Next in line for more of truck: " in text


def test_a_file_of_orders_for_each_truck(shop: Path) -> None:
    limited(shop, '[shared]\ntruck = { column = "litres", limit = { A = 150.0, B = 200.0 }, per = "truck" }\n')
    run(shop, "decide", *NOW)
    text = run(shop, "orders")
    volume, trucks = litres(shop), {r["series"]: r["truck"] for r in rows_of(shop / "states.csv")}
    assert "orders-A.csv" in text or "orders-B.csv" in text
    for name, limit in (("A", 150.0), ("B", 200.0)):
        path = shop / f"orders-{name}.csv"
        sent = rows_of(path) if path.exists() else []
        assert {trucks[o["series"]] for o in sent} <= {name}
        assert math.fsum(float(o["order [pieces]"]) * volume[o["series"]] for o in sent) <= limit
    assert {v.status for v in verify_file(shop / "decisions.db")} == {"valid"}


def test_several_limits_hold_together(shop: Path) -> None:
    limited(shop, '[shared]\ntruck = { column = "litres", limit = 400 }\nlines = { use = "lines", limit = 2 }\n')
    text = run(shop, "decide", *NOW)
    assert "lines: 2 of 2 used" in text
    assert sum(float(r["order"]) > 0.0 for r in rows_of(shop / "decisions.csv")) == 2


def test_limits_by_date(shop: Path) -> None:
    (shop / "room.csv").write_text("date,limit\n2024-05-19,1\n2024-05-20,300\n2024-05-21,2\n")
    limited(shop, '[shared]\ntruck = { column = "litres", dates = "room.csv" }\n')
    assert " of 300 used" in run(shop, "decide", *NOW)
    (shop / "room.csv").write_text("date,limit\n2024-05-21,2\n")
    assert "no limit of truck on 2024-05-20" in run(shop, "decide", *NOW, code=2)
    (shop / "room.csv").write_text("date,limit\n2024-05-20,2\n2024-05-20,3\n")
    assert "expected every date once" in run(shop, "decide", *NOW, code=2)
    (shop / "room.csv").write_text("date,limit\n2024-05-20,-2\n")
    assert "line 2, column 'limit'" in run(shop, "decide", *NOW, code=2)


def test_a_limit_that_cannot_be_kept_sends_nothing_that_breaks_it(shop: Path) -> None:
    """Every state has an open order that a plan must keep; here the fallbacks fit, as they order little."""
    limited(shop, '[shared]\ntruck = { column = "litres", limit = 0 }\n')
    text = run(shop, "decide", *NOW)
    assert {r["order"] for r in rows_of(shop / "decisions.csv")} == {"0"}
    assert "0 of 0 used" in text


def test_a_series_without_its_column_is_refused_by_name(shop: Path) -> None:
    limited(shop)
    text = (shop / "states.csv").read_text().splitlines()
    text[1] = text[1].rsplit(",", 2)[0] + ",,A"
    (shop / "states.csv").write_text("\n".join(text) + "\n")
    out = run(shop, "decide", *NOW, code=1)
    assert "line 2, column litres, series SKU-001: saw nothing, expected a finite number of at least 0" in out
    assert {r["outcome"] for r in rows_of(shop / "decisions.csv") if r["series"] == "SKU-001"} == {"REFUSED"}
    assert {v.status for v in verify_file(shop / "decisions.db")} == {"valid"}


def test_a_group_without_a_limit_is_refused_by_name(shop: Path) -> None:
    limited(shop, '[shared]\ntruck = { column = "litres", limit = { A = 150.0 }, per = "truck" }\n')
    out = run(shop, "decide", *NOW, code=1)
    assert "column truck, series SKU-002: saw B, expected a group with a limit of truck: A" in out


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('truck = { column = "litres" }', "shared.truck: expected limit, or dates"),
        ('truck = { limit = 3, dates = "x.csv" }', "shared.truck: expected limit, or dates"),
        ("truck = { limit = { A = 1.0 } }", "shared.truck.limit: expected one number"),
        ('truck = { limit = 3, use = "weight" }', "shared.truck.use: saw 'weight'"),
        ("truck = { limt = 3 }", "shared.truck.limt: unknown key"),
        ("truck = 3", "shared.truck"),
    ],
)
def test_settings_that_say_no_limit(shop: Path, table: str, words: str) -> None:
    limited(shop, f"[shared]\n{table}\n")
    with pytest.raises(SettingsError, match=words.replace("[", r"\[").replace("(", r"\(")):
        load_settings("ucsearch.toml")


def test_a_search_that_values_one_size_alone_is_refused(shop: Path) -> None:
    limited(shop)
    text = (shop / "ucsearch.toml").read_text().replace('mode = "closed"', 'mode = "members"')
    (shop / "ucsearch.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"policy\.mode: saw 'members', expected 'closed'"):
        load_settings("ucsearch.toml")


def test_a_run_that_was_cut_off_ends_in_the_same_bytes(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(shop)
    with (shop / "ucsearch.toml").open("a") as file:
        file.write("[run]\nchunk = 3\n")
    run(shop, "decide", *NOW)
    whole = (shop / "decisions.csv").read_bytes()
    with AuditReader("decisions.db") as log:
        ids = [row.id for row in log]
    (shop / "decisions.db").unlink()
    calls: list[int] = []

    def once(*words: Any) -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            raise KeyboardInterrupt
        keep(*words)

    monkeypatch.setattr(job, "keep", once)
    run(shop, "decide", *NOW, code=130)
    monkeypatch.undo()
    monkeypatch.chdir(shop)
    run(shop, "decide", *NOW)
    assert (shop / "decisions.csv").read_bytes() == whole
    with AuditReader("decisions.db") as log:
        assert [row.id for row in log] == ids


def test_limits_at_later_steps(shop: Path) -> None:
    limited(shop, '[shared]\ntruck = { column = "litres", limit = [300.0, 200.0] }\n[gate]\n')
    text = (
        (shop / "ucsearch.toml")
        .read_text()
        .replace("[gate]\ncertificate", '[gate]\nshared_serve = "best"\ncertificate')
    )
    (shop / "ucsearch.toml").write_text(text.removesuffix("[gate]\n"))
    out = run(shop, "decide", *NOW)
    assert "truck, 1 step later" in out
    assert "if later days had none" not in out
    assert [v.status for v in verify_file("decisions.db")][-1] == "valid"


def test_a_persons_order_stands_above_the_shared_one(shop: Path) -> None:
    limited(shop)
    run(shop, "decide", *NOW)
    cut = next(r for r in rows_of(shop / "decisions.csv") if r["order"] != r["alone"])
    run(shop, "override", cut["series"], "0", "--who", "A", "--why", "closed")
    run(shop, "orders")
    assert cut["series"] not in {o["series"] for o in rows_of(shop / "orders.csv")}
    run(shop, "explain", "--plan")
    planned = {r["series"]: r for r in rows_of(shop / "plan.csv") if r["period"] == "1"}
    assert planned[cut["series"]]["outcome"] == "OVERRIDDEN"
    other = next((r for r in rows_of(shop / "decisions.csv") if r["order"] != r["alone"] and r != cut), None)
    if other is not None:
        assert float(planned[other["series"]]["action"]) == float(other["action"])


def test_a_person_may_order_past_a_limit_and_take_it_back(shop: Path) -> None:
    limited(shop)
    run(shop, "decide", *NOW)
    before = {r["series"]: r for r in rows_of(shop / "decisions.csv")}
    name = next(s for s, r in before.items() if r["order"] != r["alone"])
    words = ("--who", "M. Curie", "--why", "a second truck")
    assert "overfilled" not in run(shop, "orders")
    told = run(shop, "override", name, before[name]["alone"], *words)
    volume = litres(shop)
    load = math.fsum(float(r["order"] or 0.0) * volume[s] for s, r in before.items() if s != name)
    load += float(before[name]["alone"]) * volume[name]
    assert load > 300.0
    assert f"truck is overfilled: {load:g} of 300 with what people ordered" in told
    assert f"truck is overfilled: {load:g} of 300" in run(shop, "orders", code=1)
    row = next(r for r in rows_of(shop / "decisions.csv") if r["series"] == name)
    assert (row["outcome"], row["order"]) == ("OVERRIDDEN", before[name]["alone"])
    assert "overfilled" not in run(shop, "override", name, "--withdraw", *words)
    assert "overfilled" not in run(shop, "orders")
    after = {r["series"]: r for r in rows_of(shop / "decisions.csv")}
    keys = ("outcome", "action", "order", "arrival", "alone", "limit", "certificate")
    assert [[r[k] for k in keys] for r in after.values()] == [[r[k] for k in keys] for r in before.values()]
    assert "instead of" in after[name]["sentence"]
