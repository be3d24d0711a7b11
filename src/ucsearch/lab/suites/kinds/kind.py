"""What a kind of suite supplies to the runner: rows of each split, and what is compared. The runner owns the order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from typing import Protocol as Interface

from ucsearch.errors import InputError
from ucsearch.lab.suites.protocol.comparison import Protocol

if TYPE_CHECKING:
    from ucsearch.lab.data.records import ResolvedFile
    from ucsearch.lab.suites.evidence.sample import Drawn
    from ucsearch.lab.suites.job import SuiteJob
    from ucsearch.lab.suites.kinds.series import Family
    from ucsearch.lab.suites.suite import Suite

__all__ = ["Opened", "Question", "Rows", "Selection", "SuiteKind"]

Item = TypeVar("Item")
Rows = list[dict[str, Any]]
Selection = Mapping[str, Any]
"""The selection record, as it was written down before the test was opened."""
Opened = dict[str, dict[str, list[int]]]
"""By family and series the periods that a test part hands out, from the first to before the last."""


class Question(Interface):
    """What is asked of the rules of practitioners: value gate 2 (`gates.primary`), or the one before it."""

    def record(
        self, rows: Sequence[Mapping[str, Any]], protocol: Protocol, candidates: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The member `value` of the selection record, from rows of validation: rivals, tuned rules, power."""


class SuiteKind:
    """One suite on its way from its settings to its rows.

    A kind overrides the methods below and nothing else; the runner calls them in the order in which they stand here.
    What is expensive goes through `job.shard`, so that a killed run goes on. Data of the test are handed out only after
    the runner has opened the test (`job.require_open`). Its settings say which rows its evidence must hold (`plan`).
    """

    describes = False
    """Describing only: nothing is judged, no gate is asked, whatever the suite's file says."""

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        self.suite, self.job = suite, job
        self.s: Any = suite.settings
        self.files: list[ResolvedFile] = []
        self.datasets: dict[str, str] = {}  # by family

    def protocol(self) -> Protocol | None:
        """What is compared, on which families. None: nothing is held out, and `describe` gives all rows."""
        return None

    def describe(self) -> Rows:
        """Rows of a suite that holds nothing out."""
        return []

    def only(self, series: Collection[tuple[str, str]]) -> bool:
        """Leave out all other series (by family and id); False where series cannot be run apart."""
        return False

    def validation(self, settled: Selection | None = None) -> Rows:
        """Rows of validation; rules are tuned before. `settled`: take budgets and settings as that record has them."""
        return []

    def candidates(self) -> Sequence[Mapping[str, Any]]:
        """What the runner selects among, with the budgets that validation gave; asked where `choice` is None."""
        raise InputError("kind", self.suite.kind, "candidates to select among, or a choice that is declared")

    def choice(self, rows: Rows) -> Mapping[str, Any] | None:
        """The policy that is declared with what validation fixed about it; None: the runner selects."""
        return None

    def question(self) -> Question | None:
        """What is asked of practitioners' rules, with the rules as they were tuned; None: nothing."""
        return None

    def opened(self) -> Opened:
        """The periods of the test, for the ledger of looks."""
        return {}

    def test(self, selection: Selection) -> Rows:
        """Rows of the test under what was selected."""
        return []

    def left_out(self) -> Sequence[str]:
        """Policies that need all series, and have no figures where a share of the series is run again."""
        return ()

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        """Specifications of the tables; `evidence.tables.fill` computes them."""
        return []

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        """Conditions on cells of the tables."""
        return []

    def extra(self) -> dict[str, Any]:
        """Further figures by name; they are sealed, not derived."""
        return {}

    def sample(self, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        """Records of the decisions that a hash of the rows drew, in their order (`evidence.sample.entry`)."""
        return []

    # ---------------------------------------------------------------- for kinds

    def family(self, name: str) -> Family:
        """The series of a family, from the built-in data or from what was given in their place; its files are noted."""
        from ucsearch.lab.suites.kinds.series import load_family
        from ucsearch.lab.suites.kinds.series_files import load_replaced

        other: Path | None = self.job.families.get(name)
        found = load_family(name, self.job.data_dir) if other is None else load_replaced(name, other)
        self.files.extend(found.files)
        return found

    def each(self, label: str, items: Iterable[Item]) -> Iterator[Item]:
        """Items one after the other; whoever runs the suite is told how many are done."""
        whole = list(items)
        for done, item in enumerate(whole):
            self.job.progress(label, done, len(whole))
            yield item
        self.job.progress(label, len(whole), len(whole))

    def compared(
        self, form: str, metric: str, utility: str, windows: Mapping[str, int], *, gate: bool = False
    ) -> Protocol:
        """The protocol of this suite on its families."""
        return Protocol(
            suite=self.suite.name, seed=self.suite.seed, form=form, metric=metric, utility=utility,
            families=dict(self.datasets), windows=dict(windows), gate=gate,
        )  # fmt: skip
