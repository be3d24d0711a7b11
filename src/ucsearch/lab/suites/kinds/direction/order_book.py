"""Label direction on a limit order book: who says best which way the price goes, and what is earned by believing it.

Classifiers are compared by what they say (accuracy, log-loss, calibration, coverage); the one that validation prefers
is then traded by UC-Beam and what stands beside it, on blocks of consecutive samples. Neither gate is asked: a label
has no delayed feasible set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ucsearch.decision.decision import DecisionPanel
from ucsearch.lab.suites.evidence.sample import Drawn, entry
from ucsearch.lab.suites.evidence.tables import cell_check, column
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.direction.actions import SearchBudget, answers, figures, hindsight, policies, walk
from ucsearch.lab.suites.kinds.direction.books import CLASSES, Book, Cut, load_book
from ucsearch.lab.suites.kinds.direction.certificates import WHERE, certificate, certified_walk
from ucsearch.lab.suites.kinds.direction.networks import last_move, load_networks, majority, ridge
from ucsearch.lab.suites.kinds.direction.tables import shown
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.settings import SettingsTable
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.lab.suites.suite import Suite
from ucsearch.tasks.direction import Direction

__all__ = ["LobSettings", "OrderBook"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Classifier = Callable[[Book, Ints], tuple[Floats, Ints]]
TRADED = ("greedy", "risk-greedy", "beam", "uc")
_TINY = 1e-6
_ROUNDING = 1e-9  # of a sum of probabilities


class LobSettings(SettingsTable):
    """Books, how they are cut, classifiers and the trade."""

    books: tuple[str, ...] = Field(min_length=1, description="lobster-AAPL, fi2010-7, made-0")
    samples: int = Field(1000, ge=200, description="of a generated book")
    every: int = Field(10, ge=1, description="events between samples")
    window: int = Field(10, ge=2, description="samples that a classifier sees")
    ahead: int = Field(5, ge=1, description="samples whose mean mid-price makes the label")
    block: int = Field(128, ge=8, description="samples of a block")
    validation: int = Field(6, ge=3, description="blocks")
    test: int = Field(8, ge=3, description="blocks")
    penalties: tuple[float, ...] = Field((10.0, 100.0, 1000.0), min_length=1, description="of ridge")
    seeds: int = Field(3, ge=0, description="of every trained network; 0: there are none")
    level: float = Field(0.9, gt=0.0, lt=1.0, description="of the sets of labels whose coverage is shown")
    depth: int = Field(3, ge=1)
    width: int = Field(3, ge=1)
    risk: float = Field(0.25, ge=0.0)
    cost: float = Field(0.1, ge=0.0, description="per unit of change, in usual steps of the price")
    members: int = Field(30, ge=3, description="of a trace, shared out by the classes' probabilities")
    sampled: int = Field(2, ge=1, description="decisions of each book that are exported for the verifier")

    @property
    def cut(self) -> Cut:
        return Cut(self.every, self.window, self.ahead, self.block, self.validation, self.test)

    @property
    def networks(self) -> tuple[str, ...]:
        return tuple(f"{kind}-{seed}" for kind in ("mlp", "cnn") for seed in range(self.seeds))

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        networks = (f"{kind}-{seed}" for kind in ("mlp", "cnn") for seed in range(self.seeds))
        policies = frozenset(
            ("majority", "last-move", "ridge", *networks, "greedy", "risk-greedy", "beam", "uc", "oracle")
        )
        blocks = {"validation": self.validation, "test": self.test}
        return RowPlan(
            series={split: dict.fromkeys(self.books, count) for split, count in blocks.items()},
            windows=dict.fromkeys(blocks, 1),
            decisions=dict.fromkeys(blocks, self.block),
            policies=dict.fromkeys(blocks, policies),
            sampled=self.sampled * len(self.books),
        )


class OrderBook(SuiteKind):
    """Chooses ridge's penalty and the judged classifier on validation blocks, then trades the test blocks."""

    describes = True
    s: LobSettings

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        super().__init__(suite, job)
        self.books = [load_book(name, self.s.cut, suite.seed, self.s.samples, job.data_dir) for name in self.s.books]
        self.files = [file for book in self.books for file in book.files]
        self.datasets = {book.name: book.name.partition("-")[0] for book in self.books}

    def protocol(self) -> Protocol:
        return self.compared("reward", "reward", "reward", {"validation": 1, "test": 1})

    def validation(self, settled: Selection | None = None) -> Rows:
        s, job = self.s, self.job
        losses = {book.name: job.shard(f"losses-{book.name}", partial(_losses, s, book, job)) for book in self.books}
        names = losses[self.books[0].name]
        self.losses = {name: float(np.mean([found[name] for found in losses.values()])) for name in names}
        self.penalty = min(s.penalties, key=lambda p: (self.losses[f"ridge {p:g}"], p))
        kinds = {"ridge": self.losses[f"ridge {self.penalty:g}"]}
        for kind in ("mlp", "cnn") if s.seeds else ():
            kinds[kind] = float(np.mean([self.losses[f"{kind}-{seed}"] for seed in range(s.seeds)]))
        judged = min(kinds, key=lambda k: (kinds[k], k))
        self.judged = judged if judged == "ridge" else f"{judged}-0"
        return [row for book in self.books for row in self._rows(book, "validation")]

    def _rows(self, book: Book, split: str) -> Rows:
        make = partial(_rows, self.suite, book, split, penalty=self.penalty, judged=self.judged, job=self.job)
        rows: Rows = self.job.shard(f"{split}-{book.name}", make)
        return rows

    def choice(self, rows: Rows) -> dict[str, Any]:
        return {
            "id": self.judged, "risk": self.s.risk, "ridge_penalty": self.penalty,
            "chosen_by": "smallest mean log-loss over the books' validation blocks, seeds averaged; lambda is the "
            "paper's",
            "validation_log_loss": self.losses,
        }  # fmt: skip

    def opened(self) -> Opened:
        return {book.name: book.opened() for book in self.books}

    def test(self, selection: Selection) -> Rows:
        rows = []
        for book in self.each("books", self.books):
            begun = process_time()
            rows += self._rows(book, "test")
            self.job.timing("all policies", process_time() - begun, self.s.test * self.s.block)
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return _tables(self.s)

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return _checks(self.s)

    def extra(self) -> dict[str, Any]:
        labels = {book.name: {"threshold": book.threshold, "classes": list(CLASSES)} for book in self.books}
        return {"labels": labels}

    def sample(self, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        return _sample(self.suite, self.books, self.penalty, self.judged, self.job, drawn)


def _classifiers(s: LobSettings, book: Book, penalties: Mapping[str, float]) -> dict[str, Classifier]:
    """All classifiers by name; ridge under the names and with the penalties given."""
    classifiers: dict[str, Classifier] = {"majority": majority, "last-move": last_move}
    classifiers |= {name: partial(ridge, penalty=p) for name, p in penalties.items()}
    return classifiers | {one.name: one for one in (load_networks(book.name, s.seeds) if s.seeds else ())}


def _losses(s: LobSettings, book: Book, job: SuiteJob) -> dict[str, float]:
    """Log-loss of every classifier on the validation blocks."""
    at = np.concatenate([book.block(a, "validation", job) for a in book.starts("validation")])
    label = book.labels(at)
    named = _classifiers(s, book, {f"ridge {p:g}": p for p in s.penalties})
    return {name: _said(*make(book, at), label, s.level)["log_loss"] for name, make in named.items()}


def _said(odds: Floats, guess: Ints, label: Ints, level: float) -> dict[str, float]:
    """How good probabilities are: hits, log-loss, Brier score, confidence, and the smallest set that should suffice."""
    rows = np.arange(len(label))
    order = np.argsort(-odds, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(odds, order, axis=1), axis=1) - np.take_along_axis(odds, order, axis=1)
    in_set = before < level - _ROUNDING  # a label is in the set unless those before it suffice
    rank = np.argmax(order == label[:, None], axis=1)
    scores = []
    for c in range(len(CLASSES)):
        hit = float(((guess == c) & (label == c)).sum())
        either = float((guess == c).sum() + (label == c).sum())
        scores.append(2.0 * hit / either if either else 0.0)
    return {
        "accuracy": float((guess == label).mean()),
        "f1": float(np.mean(scores)),
        "log_loss": float(-np.log(np.maximum(odds[rows, label], _TINY)).mean()),
        "brier": float(((odds - np.eye(len(CLASSES))[label]) ** 2).sum(axis=1).mean()),
        "confidence": float(odds.max(axis=1).mean()),
        "likeliest": float((odds.argmax(axis=1) == label).mean()),
        "coverage": float(in_set[rows, rank].mean()),
        "set_size": float(in_set.sum(axis=1).mean()),
    }


def traces(s: LobSettings, book: Book, odds: Floats) -> Floats:
    """(T, J, H): each class' own steps on the fitting part, as many of them as the class is likely."""
    fit = book.fitting()
    steps, label = book.steps(fit, s.depth), book.labels(fit)
    paths = []
    for c in range(len(CLASSES)):
        class_steps = steps[label == c]
        class_steps = class_steps[np.argsort(class_steps.sum(axis=1), kind="stable")]
        paths.append(class_steps if len(class_steps) else np.zeros((1, s.depth)))
    out = np.empty((len(odds), s.members, s.depth))
    for t, p in enumerate(odds):
        share = p * s.members
        count = np.floor(share).astype(int)
        for c in np.argsort(-(share - count), kind="stable")[: s.members - int(count.sum())]:
            count[c] += 1
        drawn = [
            class_steps[((np.arange(n) + 0.5) / n * len(class_steps)).astype(int)]
            for class_steps, n in zip(paths, count, strict=True)
            if n
        ]
        out[t] = np.concatenate(drawn)
    return out


def _budget(s: LobSettings) -> SearchBudget:
    return SearchBudget(s.depth, s.width, len(CLASSES), 24, 10, 1)


def _rows(suite: Suite, book: Book, split: str, *, penalty: float, judged: str, job: SuiteJob) -> list[dict[str, Any]]:
    s: LobSettings = suite.settings
    named = _classifiers(s, book, {"ridge": penalty})
    config, searches = Direction(cost=s.cost, charge="change"), policies(_budget(s), s.risk, suite.seed)
    starts = book.starts(split)
    at = np.concatenate([book.block(a, split, job) for a in starts])
    blocks = [slice(n * s.block, (n + 1) * s.block) for n in range(len(starts))]
    label, outcome = book.labels(at), book.steps(at, 1)[:, 0]
    rows: list[dict[str, Any]] = [
        {"split": split, "family": book.name, "series": book.block_name(a), "window": 0, "start": a,
         "decisions": s.block, "policies": {}, "certificate": None}
        for a in starts
    ]  # fmt: skip
    best = [hindsight(config, outcome[cut]) for cut in blocks]
    common = majority(book, at)[0]
    for name, make in named.items():
        odds, guess = make(book, at)
        members = traces(s, book, odds)
        traded = TRADED if name == judged else ("greedy", "uc")
        tables = {one: answers(config, members, searches[one][0], job.threads) for one in traded}
        for n, cut in enumerate(blocks):
            said_figures = _said(odds[cut], guess[cut], label[cut], s.level)
            said_figures["gain"] = (
                _said(common[cut], guess[cut], label[cut], s.level)["log_loss"] - said_figures["log_loss"]
            )
            policy_figures = rows[n]["policies"]
            for one, answers_of in tables.items():
                part = type(answers_of)(*(x[cut] for x in answers_of))
                (walked,) = walk(config, [part], outcome[cut])
                if name == judged:
                    policy_figures[one] = figures(walked, best[n], 8)
                said_figures["earned" if one == "greedy" else "earned_by_search"] = float(walked.reward.sum())
            policy_figures[name] = said_figures
        if name == judged and split == "test":
            for n, panel in enumerate(
                _certified(s, config, members, tables["uc"], outcome, blocks, searches, name, job)
            ):
                rows[n]["certificate"] = certificate(panel)
    for n in range(len(rows)):
        rows[n]["policies"]["oracle"] = figures(best[n], best[n], 8)
    return rows


def _certified(
    s: LobSettings, config: Direction, members: Floats, table: Any, outcome: Floats, blocks: Sequence[slice],
    searches: Any, model: str, job: SuiteJob,
) -> list[DecisionPanel]:  # fmt: skip
    """UC-Beam's own walk through every block, with certificates."""
    out = []
    for cut in blocks:
        (walked,) = walk(config, [type(table)(*(x[cut] for x in table))], outcome[cut])
        out.append(
            certified_walk(config, members[cut], walked.action, searches["uc"][0], model=model, threads=job.threads)
        )
    return out


def _sample(
    suite: Suite, books: Sequence[Book], penalty: float, judged: str, job: SuiteJob, drawn: Sequence[Drawn]
) -> list[dict[str, Any]]:
    s: LobSettings = suite.settings
    config, searches = Direction(cost=s.cost, charge="change"), policies(_budget(s), s.risk, suite.seed)
    panels_of: dict[str, DecisionPanel] = {}
    for book in books:
        starts = [a for a in book.starts("test") if any(one.series == book.block_name(a) for one in drawn)]
        if not starts:
            continue
        at = np.concatenate([book.block(a, "test", job) for a in starts])
        members = traces(s, book, _classifiers(s, book, {"ridge": penalty})[judged](book, at)[0])
        table, outcome = answers(config, members, searches["uc"][0], job.threads), book.steps(at, 1)[:, 0]
        blocks = [slice(n * s.block, (n + 1) * s.block) for n in range(len(starts))]
        panels = _certified(s, config, members, table, outcome, blocks, searches, judged, job)
        panels_of |= {book.block_name(a): panel for a, panel in zip(starts, panels, strict=True)}
    return [entry(one.name, panels_of[one.series][one.step], WHERE) for one in drawn]


# -------------------------------------------------------------------- what is shown


def _tables(s: LobSettings) -> list[dict[str, Any]]:
    named = ["majority", "last-move", "ridge", *s.networks]
    classifier_columns = [column("Accuracy", "accuracy"), column("F1", "f1"), column("Log-loss", "log_loss"),
            column("Gain over majority", "gain"), column("Brier", "brier"), column("Confidence", "confidence"),
            column("Likeliest is right", "likeliest"), column(f"Cover {100 * s.level:g} %", "coverage"),
            column("Labels in the set", "set_size"), column("Earned, greedy", "earned"),
            column("Earned, UC-Beam", "earned_by_search")]  # fmt: skip
    traded = [column("Reward", "reward"), column("CVaR20", "cvar20"), column("DD", "drawdown"),
              column("Exposure", "exposure"), column("Turnover", "turnover"),
              column("Violations", "violations", "sum")]  # fmt: skip
    proofs = (("Certificate", "cert_passed"), ("Risk-active", "cert_risk_active"), ("Released", "cert_released"))
    return [
        shown("classifiers", "What classifiers say, mean over blocks", named, classifier_columns),
        shown("books", "By book", named, classifier_columns, ("family", "policy")),
        shown("trade", "The judged classifier traded, mean over blocks", [*TRADED, "oracle"], traded),
        shown("trade by book", "By book", [*TRADED, "oracle"], traded, ("family", "policy")),
        shown("certificate", "Share of UC-Beam's decisions", ["uc"],
              [column(n, f, "rate_family_mean", "cert_decisions") for n, f in proofs]),
    ]  # fmt: skip


def _checks(s: LobSettings) -> list[dict[str, Any]]:
    violation_checks = [cell_check(f"violations of {name}", "trade", [name], "Violations") for name in TRADED]
    named = ["ridge", *s.networks]
    gains = [
        cell_check(f"log-loss gained over majority, {book}, {name}", "books", [book, name], "Gain over majority", ">")
        for book in s.books
        for name in named
    ]
    return [*violation_checks, *gains, cell_check("certificate", "certificate", ["uc"], "Certificate", ">=", 0.95)]
