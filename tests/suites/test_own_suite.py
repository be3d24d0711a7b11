"""A researcher's own suite on a file of their own: every refusal says what to write or do instead."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ucsearch.cli import app
from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.ledger import read_ledger
from ucsearch.lab.suites.run import card_text
from ucsearch.lab.suites.suite import load_suite, parse_suite

SUITE = """\
name = "buns"
kind = "walkforward"
title = "Buns"
endpoint = "buns (a test)"
card = "buns.md"
seed = 1

[walkforward]
families = ["buns"]
multiples = [-1e6, 0.0, 1.25]
paths = 4
floor = 0.0
sampled = 1
engine = "python"

[walkforward.task]
name = "lead_time_inventory"
lead_time = 1
shortage = 19.0

[walkforward.splits]
per_family = 3
fit = 40
test = 1
decisions = 2

[walkforward.candidates]
risks = [0.5]
depths = [1]

[walkforward.comparators]
seeds = 1
options = [{ iterations = 1 }]
others = []
wide = false

[walkforward.value_gate]
tries = 1
time_samples = 2

[walkforward.practitioners]
newsvendor = "non-inferiority"
"""


@pytest.mark.parametrize(
    ("wrong", "right", "says"),
    [
        ('name = "buns"\n', 'name = "My Buns"\n', "own.toml: name: .*small letters, digits and hyphens"),
        ('card = "buns.md"\n', "", "own.toml: card: saw nothing, expected its benchmark card, a file"),
        ("fit = 40", "fits = 40", "walkforward.splits.fits: saw an unknown key, expected one of fit, "),
        ("test = 1", "test = 0", "walkforward.splits.test: saw 0, expected greater than or equal to 1"),
        ("shortage", "shortge", "walkforward.task: saw an unknown key shortge, expected shortage, or .*ucsearch tasks"),
        ('"lead_time_inventory"', '"bakery"', "walkforward.task: saw name = 'bakery', expected one of lead_time_inv"),
        ("[walkforward.value_gate]\ntries = 1\ntime_samples = 2\n", "", "expected value_gate and practitioners togeth"),
        ("non-inferiority", "as good", "practitioners.newsvendor: saw 'as good', expected 'superiority' or 'non-inf"),
        ("depths = [1]", 'depths = [1]\nonly = ["exact"]', "walkforward.candidates: .*only: some of exact-r0.5-d1"),
    ],
)
def test_what_is_wrong_in_the_file_is_named_with_what_to_write(wrong: str, right: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_suite(SUITE.replace(wrong, right), "own.toml")


def test_a_card_of_ones_own_lies_beside_the_suite(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(SUITE, "utf-8")
    with pytest.raises(InputError, match=r"expected a file .*buns\.md that says what the suite tests"):
        card_text(load_suite(path))
    (tmp_path / "buns.md").write_text("# Buns\n", "utf-8")
    assert card_text(load_suite(path)) == "# Buns\n"


def test_from_a_file_of_ones_own_to_a_second_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(SUITE, "utf-8")
    (tmp_path / "buns.md").write_text("# Buns\n", "utf-8")
    rng = np.random.default_rng(1)
    with (tmp_path / "buns.csv").open("w", newline="") as file:
        sales = csv.writer(file)
        sales.writerow(["series", "value"])
        sales.writerows([f"bun-{n}", int(rng.poisson(20.0))] for n in range(7) for _ in range(60))

    own = ("run", "own.toml", "--family", "buns=buns.csv")
    assert "Series of your own come from a file: --family buns=PATH" in _ucsearch("run", "own.toml")[1]
    done, said = _ucsearch(*own, "--dry-run")
    assert done, said
    assert "power of the value gate" in said
    assert "the test stays closed" in said
    assert "Declare more series, or ask for the look with --underpowered" in _ucsearch(*own)[1]
    assert not read_ledger(tmp_path / "evidence" / "looks.jsonl")

    (tmp_path / "own.toml").write_text(SUITE.replace("per_family = 3", "per_family = 40"), "utf-8")
    assert "ask for fewer or give more" in _ucsearch(*own)[1]
    # Nobody has looked, so the suite may still be changed.
    (tmp_path / "own.toml").write_text(SUITE.replace("per_family = 3", "per_family = 4"), "utf-8")
    done, said = _ucsearch(*own, "--underpowered")
    assert done, said

    assert "--family buns=PATH, the file it was run on" in _ucsearch("verify", "evidence", "--rerun", "1")[1]
    done, said = _ucsearch("verify", "evidence", "--rerun", "1", *own[2:])
    assert done, said
    assert "4 of 4 series were run again" in said

    (tmp_path / "own.toml").write_text(SUITE, "utf-8")
    told = "To choose again, remove evidence/buns: looks.jsonl keeps the look"
    assert told in _ucsearch(*own, "--underpowered")[1]
    shutil.rmtree(tmp_path / "evidence" / "buns")
    assert "this was look 2 at the test of buns: it shows nothing" in _ucsearch(*own, "--underpowered")[1]


def _ucsearch(*words: str) -> tuple[bool, str]:
    """Whether the command was done, and all that it said."""
    out = ("--out", "evidence") if words[0] == "run" else ()
    result = CliRunner().invoke(app, ["evidence", *words, *out])
    return result.exit_code == 0, f"{result.output}{result.exception or ''}"
