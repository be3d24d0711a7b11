"""Direction on a limit order book: no part sees the next, stored networks are what was trained, the mini run holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kit.suites import shared_run
from ucsearch.errors import DataError
from ucsearch.lab.data.lob import read_fi2010
from ucsearch.lab.suites.kinds.direction.books import Cut, from_fi2010, made_book
from ucsearch.lab.suites.kinds.direction.networks import (
    ARCHITECTURES,
    last_move,
    load_networks,
    majority,
    probe_of,
    ridge,
)
from ucsearch.lab.suites.kinds.direction.order_book import LobSettings, _said, traces
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import evaluate
from ucsearch.lab.suites.suite import load_suite, parse_suite

CUT = Cut(1, 5, 4, 20, 3, 3)
BOOKS = ("lobster-AAPL", "lobster-AMZN")


def test_no_label_of_a_part_looks_into_the_next() -> None:
    book = made_book("made-0", 1, CUT, 300)
    assert int(book.fitting()[-1]) + CUT.ahead < book.starts("validation")[0]
    assert book.starts("validation")[-1] + CUT.block - 1 + CUT.ahead < book.starts("test")[0]
    assert book.starts("test")[-1] + CUT.block + CUT.ahead == len(book.mid)
    changed = made_book("made-0", 1, CUT, 300)
    changed.mid[book.validation_start :] += 1e4
    changed.seen[book.validation_start :] += 1e4
    at = book.fitting()
    np.testing.assert_array_equal(changed.labels(at), book.labels(at))
    np.testing.assert_array_equal(changed.windows(at), book.windows(at))


def test_a_third_of_the_fitting_part_stays_and_classes_mean_what_they_say() -> None:
    book = made_book("made-0", 1, CUT, 600)
    at = book.fitting()
    label, moved = book.labels(at), book.moves(at)
    assert abs((label == 1).mean() - 1.0 / 3.0) < 0.02
    assert moved[label == 2].min() > 0.0 > moved[label == 0].max()


def test_ridge_learns_what_the_book_leans_to_and_rules_do_not() -> None:
    book = made_book("made-0", 1, CUT, 2000)
    at = np.arange(book.test_start, book.test_start + 60)
    losses = [_said(*make, book.labels(at), 0.9)["log_loss"]
              for make in (ridge(book, at, 10.0), majority(book, at), last_move(book, at))]  # fmt: skip
    assert losses[0] < min(losses[1:])


def test_probabilities_are_judged_by_hand_counted_figures() -> None:
    odds = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.05, 0.94, 0.01]])
    found = _said(odds, odds.argmax(axis=1), np.array([0, 1, 2]), 0.9)
    assert found["accuracy"] == pytest.approx(1 / 3)
    assert found["log_loss"] == pytest.approx(-np.log([0.7, 0.3, 0.01]).mean())
    # Sets of 90 %: {0, 1}, all three, {1}.
    assert found["set_size"] == pytest.approx(2.0)
    assert found["coverage"] == pytest.approx(2 / 3)
    assert found["f1"] == pytest.approx((2 * 1 / 2 + 0 + 0) / 3)


def test_members_are_shared_out_by_probability() -> None:
    settings = LobSettings(books=("made-0",), members=10, depth=2, window=5, ahead=4, block=20)
    book = made_book("made-0", 1, CUT, 400)
    sure = traces(settings, book, np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert sure.shape == (2, 10, 2)
    assert sure[0].sum(axis=1).mean() > 0.0 > sure[1].sum(axis=1).mean()


def test_a_file_of_fi2010_becomes_a_book_with_its_own_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = np.vstack([rng.normal(size=(144, 240)).round(4), rng.integers(1, 4, size=(5, 240))])
    # As published: one line a feature, exponent form, three spaces between numbers.
    path = tmp_path / "Train_Dst_NoAuction_ZScore_CF_7.txt"
    path.write_text("".join("   " + "   ".join(f"{x:.7e}" for x in row) + "\n" for row in table))
    data = read_fi2010(path)
    book = from_fi2010(data, CUT)
    assert book.seen.shape == (240, 40)
    at = np.arange(50, 60)
    # The fourth label row is the horizon of 50; 1 is up there, 3 down.
    np.testing.assert_array_equal(book.labels(at), 3 - table[147, 50:60])
    np.testing.assert_allclose(book.mid[at], (table[0, 50:60] + table[2, 50:60]) / 2.0)


def test_the_suite_runs_on_files_in_the_form_of_fi2010(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    price = np.cumsum(rng.normal(size=260))
    table = np.vstack([rng.normal(size=(144, 260)), rng.integers(1, 4, size=(5, 260))])
    table[0], table[2] = price + 0.1, price - 0.1
    path = tmp_path / "fi2010" / "Train_Dst_NoAuction_ZScore_CF_1.txt"
    path.parent.mkdir()
    path.write_text("".join("   " + "   ".join(f"{x:.7e}" for x in row) + "\n" for row in table))
    text = load_suite("lob-direction-mini").text.replace('"made-0"', '"fi2010-1"')
    run = evaluate(parse_suite(text), tmp_path / "out", data_dir=tmp_path, threads=1)
    report = verify_evidence(run.folder)
    assert (report.problems, report.malformed) == ((), "")
    (file,) = run.statement["predicate"]["data"]
    assert file["name"] == "fi2010/noauction-zscore-1-train"


@pytest.mark.parametrize("name", BOOKS)
def test_stored_networks_say_what_their_training_library_said(name: str) -> None:
    windows, told = probe_of(name)
    networks = load_networks(name, 3)
    assert [n.name for n in networks] == [f"{a}-{seed}" for a in ARCHITECTURES for seed in range(3)]
    for network in networks:
        np.testing.assert_allclose(network.logits(windows), told[network.name], atol=2e-5)


def test_networks_that_are_not_what_was_trained_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from importlib import resources

    import ucsearch.lab.suites.kinds.direction.networks as module

    shutil.copytree(str(resources.files("ucsearch.lab.suites") / "networks"), tmp_path / "networks")
    path = tmp_path / "networks" / f"{BOOKS[0]}.npz"
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(bytes(body))
    monkeypatch.setattr(module.resources, "files", lambda _: tmp_path)
    with pytest.raises(DataError, match="SHA-256"):
        load_networks(BOOKS[0], 3)


def test_the_mini_suite_runs_and_verifies(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = shared_run("lob-direction-mini", tmp_path_factory)
    report = verify_evidence(run.folder)
    assert (report.problems, report.malformed) == ((), "")
    assert all(check["pass"] for check in run.statement["predicate"]["checks"])
