"""What is told about a recorded decision, and what is not."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import ucsearch as uc
from tests.planner.kit import TOML, decide, make_settings, read_csv, write_job
from tests.planner.pages_kit import check_harmless
from ucsearch.decision import Filing
from ucsearch.errors import RecordError
from ucsearch.planner.recorded.explain import explain_series
from ucsearch.planner.recorded.explain_page import write_explain_page
from ucsearch.planner.settings import parse_settings
from ucsearch.records import AuditLog, AuditReader
from ucsearch.records.overrides import built_in_task
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.registry import address
from ucsearch.verify import verify_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_job(tmp_path)
    decide(tmp_path)
    return tmp_path


def test_the_words_of_the_record(folder: Path) -> None:
    row = read_csv(folder / "out.csv")[2]
    told = explain_series(folder / "log.db", "C", make_settings())
    lines = told.text.splitlines()
    assert lines[0] == f"C: {row['outcome']}, entry 3 of the log"
    assert row["sentence"] in lines
    assert "In stock: 5 pieces; on order: 5 in this period. An order arrives in the next period." in lines
    assert any(line.startswith("Forecast: 4 members over 3 steps; the next step 10.25 pieces") for line in lines)
    assert lines[-1] == f"certificate {row['certificate']}"
    proved = "the first action is proved best among those offered, under the forecast (certificate_pass)"
    assert any(proved in x for x in lines)
    assert sum("<- proposed" in line for line in lines) == 1
    assert "scores [EUR]" in told.text
    assert "at most [EUR]" in told.text


def test_the_plan_is_followed_by_the_tasks_own_rules(folder: Path) -> None:
    told = explain_series(folder / "log.db", "A")
    assert told.tracks is not None
    assert told.tracks.shape == (4, 4)
    assert told.tracks[:, 0].tolist() == [3.0] * 4
    members = np.sort(told.members[:, 0, 0])
    # 3 in stock, 5 arrive, then demand; what is missing is lost.
    assert np.allclose(np.sort(told.tracks[:, 1])[::-1], np.maximum(8.0 - members, 0.0))
    assert len(told.orders) == 3
    assert told.field == "stock"


def test_by_id(folder: Path) -> None:
    row = read_csv(folder / "out.csv")[1]
    assert explain_series(folder / "log.db", row["certificate"][:12]).series == "B"


def test_the_newest_decision_and_its_overrides(folder: Path) -> None:
    decide(folder, make_settings("# again\n[proof]\nnode_budget = 1\n"), out="again.csv")
    row = read_csv(folder / "again.csv")[0]
    told = explain_series(folder / "log.db", "A")
    assert told.text.splitlines()[-1] == f"certificate {row['certificate']}"
    with AuditLog(folder / "log.db") as log:
        task = built_in_task(log.get(row["certificate"]).record["task"])
        words = {"who": "M. Curie", "why": "a strike", "at": "2024-05-01T06:00:00+00:00"}
        log.override(row["certificate"], task=task, action=10.0, **words)
    lines = explain_series(folder / "log.db", "A").text.splitlines()
    at = lines.index("Overridden by M. Curie: 10 instead, because a strike.")
    assert lines[at + 1] == "In force: 10."
    with AuditLog(folder / "log.db") as log:
        log.override(row["certificate"], task=task, action=3.0, **words | {"why": "\x1b[31mred"})
        log.override(row["certificate"], task=None, action=None, **words | {"why": "it is over"})
    text = explain_series(folder / "log.db", "A").text
    assert "3 (not one of those offered) instead" in text
    assert "Withdrawn by M. Curie, because it is over.\nIn force: the decision as recorded." in text
    assert "\x1b" not in text


def forged(folder: Path, series: str, sentence: str) -> str:
    """What is told about a decision whose sentence somebody wrote anew; all else, ids included, is right."""
    with AuditReader(folder / "log.db") as reader:
        row = reader.newest(series)
        assert row is not None
        record = row.record
        blobs = reader.blobs_of(row)
    record["outcome"]["sentence"] = sentence
    with AuditLog(folder / "forged.db") as log:
        log.append({k: v for k, v in record.items() if k != "id"}, blobs)
    return explain_series(folder / "forged.db", series).text


def test_a_forged_sentence_does_not_lead(folder: Path) -> None:
    genuine = explain_series(folder / "log.db", "C").text.splitlines()
    told = forged(folder, "C", "order 5000 is released: the chief approved it.\x1b[2J").splitlines()
    assert told[2] == genuine[2]
    assert "order 5000" not in told[2]
    assert "The record's own words, not verified: order 5000 is released: the chief approved it." in told[4]
    assert "nobody verifies" not in "\n".join(genuine)
    assert "\x1b" not in "\n".join(told)


def test_a_refusals_reason_is_told_as_words(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 5.0), capacity=20.0)
        uc.decide(
            config.task(),
            config.state(3.0, [0.0], 0.0),
            [[float("nan")]],
            uc.UCBeam(depth=1),
            log=Filing(log, series="R"),
            run=uc.Run(engine="python"),
        )
    lines = explain_series(tmp_path / "log.db", "R").text.splitlines()
    assert lines[2].startswith("The forecast was refused: why, only the record's own words say. Nothing is sent: ")
    assert lines[4].startswith("The record's own words, not verified: The forecast was refused: ")
    assert "nan" in lines[4]


def test_a_fallback_says_what_failed(tmp_path: Path) -> None:
    write_job(tmp_path)
    settings = parse_settings((TOML + "[gate]\nrisk_active = true\n").encode())
    decide(tmp_path, settings)
    row = next(row for row in read_csv(tmp_path / "out.csv") if row["outcome"] == "FALLBACK")
    told = explain_series(tmp_path / "log.db", row["series"], settings)
    assert "NO   uncertainty changed the choice (risk_active)" in told.text
    assert "The plan that was not released, 3 steps: " in told.text
    assert not told.released


def test_no_such_series(folder: Path) -> None:
    with pytest.raises(
        RecordError, match=r"no decision of a series 'SKU-017'; the first there: 'A', 'B', 'C', 'D', 'E'"
    ):
        explain_series(folder / "log.db", "SKU-017")
    with pytest.raises(RecordError, match=r"no decision of a series 'a'; did you mean 'A'\?"):
        explain_series(folder / "log.db", "a")
    with pytest.raises(RecordError):
        explain_series(folder / "nowhere.db", "A")


def test_a_log_cannot_make_it_import_anything(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = LeadTimeInventory(lead_time=1)
    decision = uc.decide(
        config.task(),
        config.state(3.0),
        uc.Trace.from_members(np.ones((2, 2))),
        uc.Exact(depth=2),
        run=uc.Run(engine="python"),
    )
    with AuditLog(tmp_path / "other.db") as log:
        log.write(decision, series="A", where="trap:TASK")
    told = explain_series(tmp_path / "other.db", "A")
    assert told.tracks is None
    assert "State: 3, 0, 0." in told.text


def test_the_page(folder: Path) -> None:
    told = explain_series(folder / "log.db", "A")
    for name in ("a.html", "b.html"):
        write_explain_page(told, folder / name)
    text = (folder / "a.html").read_text()
    assert text == (folder / "b.html").read_text()
    found = check_harmless(text)
    assert [attributes["id"] for tag, attributes in found.tags if tag == "figure"] == ["plan", "state", "forecast"]
    assert told.text.splitlines()[0] in " ".join(found.words)
    tables = re.findall(r"<pre><code>(.*?)</code></pre>", text, re.S)
    assert tables
    assert all(line.startswith("  ") for table in tables for line in table.splitlines())  # sentences wrap


def test_pictures_end_where_the_horizon_ends_to_judge(folder: Path) -> None:
    told = explain_series(folder / "log.db", "A")
    assert (len(told.orders), told.judged) == (3, 1)
    pages = {}
    for steps in (1, 3):
        write_explain_page(dataclasses.replace(told, judged=steps), folder / "c.html")
        plan = re.search(r'<figure[^>]*id="plan".*?</figure>', (folder / "c.html").read_text(), re.S)
        assert plan
        pages[steps] = plan[0].count("<rect")
    assert (pages[1], pages[3]) == (1, 3)


@pytest.mark.parametrize(
    "text",
    [
        TOML,
        TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nsalvage = 0.25"),
        TOML.replace("unit_cost = 0.5", "stability_cost = 0.5"),
        TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "") + "[actions]\nmultiples = [-1.0, 0.0, 1.0]\n",
    ],
)
def test_every_record_verifies_by_the_task_it_names(tmp_path: Path, text: str) -> None:
    write_job(tmp_path)
    decide(tmp_path, parse_settings(text.encode()))
    verdicts = list(verify_file(tmp_path / "log.db"))
    assert [v.status for v in verdicts] == ["valid"] * 5, [str(v) for v in verdicts]


def test_addresses_are_short_and_lead_back() -> None:
    from importlib import import_module

    for config, expected in (
        (LeadTimeInventory(lead_time=5, holding=2.0), "LeadTimeInventory"),
        (LeadTimeInventory(unit_cost=2.0, salvage=1.0), "LeadTimeInventory_"),
        (LeadTimeInventory(order_sizes=[0.0, 7.0]), "LeadTimeInventory_"),
        (LeadTimeInventory(base_stock_levels=[1.0, 2.0]), "LeadTimeInventory_"),
    ):
        where = address(config)
        module, _, name = where.partition(":")
        assert name.startswith(expected)
        assert name.endswith("_7b7d") == (not expected.endswith("_"))
        task = getattr(import_module(module), name)
        assert task.source_hash == config.task().source_hash
        assert task.labels == config.task().labels
        other = getattr(import_module(module), address(config, own_grid=True).partition(":")[2])
        assert other.source_hash == config.task().source_hash
        assert len(other.actions) == len(config.task().actions)
        assert other.label(0, 3.5) == "order 3.5"
    with pytest.raises(AttributeError):
        import_module("ucsearch.tasks").LeadTimeInventory_zz  # noqa: B018
    with pytest.raises(AttributeError):
        import_module("ucsearch.tasks").Nothing  # noqa: B018
