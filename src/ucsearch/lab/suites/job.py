"""One run of a suite: results kept so that a killed run goes on, and the door to the test split.

The door opens only after a selection record has been written, and every opening leaves a line in the ledger of looks,
which lies beside the suites' folders.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ucsearch.errors import InputError, RecordError
from ucsearch.lab.suites.evidence.ledger import (
    LEDGER,
    Look,
    Opened,
    append_look,
    before,
    by_dataset,
    code_sha256,
    own_look,
    read_ledger,
    same_choice,
)
from ucsearch.records.canonical import canonical, loads
from ucsearch.records.files import whole_file

__all__ = ["AnotherLook", "Progress", "RunOptions", "SuiteJob", "TestSplitClosed"]

Progress = Callable[[str, int, int], None]


class TestSplitClosed(RecordError):
    """Somebody asked for test data before anything was selected."""

    __test__ = False  # not a test class, whatever its name


class AnotherLook(RecordError):
    """A run that was to repeat an earlier one would look at the test with another selection."""


class RunOptions(TypedDict, total=False):
    """How a suite is run; nothing of it changes a figure, but for `families`."""

    data_dir: str | Path | None  # local copies of public data
    threads: int | None  # None: all cores
    progress: Progress | None  # label, done, total
    say: Callable[[str], None] | None  # is told the power before the test is opened
    ledger: str | Path | None  # of looks; `looks.jsonl` beside the suite's folder unless given
    underpowered: bool  # open the test although the gate is unlikely to pass
    repeats: str | Path | None  # a selection record: the test opens only if this run chooses the same
    families: Mapping[str, str | Path]  # other files of the same form to take a family's series from


class SuiteJob:
    """What a kind may use of its run. `folder` is the suite's own evidence folder."""

    def __init__(self, folder: Path, identity: dict[str, Any], **options: Unpack[RunOptions]) -> None:
        self.folder, self.identity = folder, identity
        ledger, data_dir = options.get("ledger"), options.get("data_dir")
        self.ledger = folder.parent / LEDGER if ledger is None else Path(ledger)
        self.data_dir = None if data_dir is None else Path(data_dir)
        self.threads = options.get("threads")
        self._progress, self._say = options.get("progress"), options.get("say")
        self.underpowered = options.get("underpowered", False)
        repeats = options.get("repeats")
        self.repeats = None if repeats is None else Path(repeats)
        self.families = {name: Path(path) for name, path in (options.get("families") or {}).items()}
        self._opened = False
        self._timing: dict[str, dict[str, float]] = {}
        self.work = folder / ".work"
        self.work.mkdir(parents=True, exist_ok=True)
        self._claim_work()

    # ---------------------------------------------------------------- results that survive a kill

    def _claim_work(self) -> None:
        """Partial results of other settings, code or data are of no use and would mix silently."""
        mark, wanted = self.work / "identity.json", canonical(self.identity)
        if mark.exists() and mark.read_bytes() == wanted:
            return
        for path in self.work.glob("*.json"):
            path.unlink()
        _write(mark, wanted)

    def shard(self, key: str, make: Callable[[], Any]) -> Any:
        """The JSON-able result of `make`, computed once; NaN and infinities are refused."""
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in key)
        path = self.work / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"
        if path.exists():
            return json.loads(path.read_text("utf-8"))
        result = make()
        try:
            text = json.dumps(result, allow_nan=False)
        except ValueError as error:
            raise InputError(f"result of {key}", "a number that is not finite", "finite numbers or null") from error
        _write(path, text.encode())
        return json.loads(text)

    # ---------------------------------------------------------------- the door to the test split

    @property
    def selection_path(self) -> Path:
        return self.folder / "selection.json"

    def select(self, record: dict[str, Any]) -> dict[str, Any]:
        """Write the selection down; as it reads from the file. One that the test was opened under stays."""
        body = canonical(record)
        before = self.selection_path.read_bytes() if self.selection_path.exists() else None
        if before != body:
            looks = read_ledger(self.ledger) if before is not None else []
            if before is not None and any(x["selection_sha256"] == hashlib.sha256(before).hexdigest() for x in looks):
                raise RecordError(
                    f"{self.selection_path}: the test was opened under another selection, which stays. To choose "
                    f"again, remove {self.folder}: {LEDGER} keeps the look, and the next one counts as a second"
                )
            _write(self.selection_path, body)
        held: dict[str, Any] = loads(body)
        return held

    def say(self, text: str) -> None:
        """To whoever runs the suite."""
        if self._say is not None:
            self._say(text)

    def open_test(self, opened: Opened) -> None:
        """Must be called before any value of the test split is read; the look is written down first.

        `opened`: by family and series the periods that will be handed out, from the first to before the last.
        """
        if not self.selection_path.exists():
            raise TestSplitClosed("the test split stays closed until a selection record exists")
        if self._opened:
            return
        selection = loads(self.selection_path.read_bytes())
        repeats = self._repeats(selection)
        # A run that was killed goes on with the look it has begun; one that finished has left a manifest.
        unfinished = self.work / "look.json"
        if unfinished.exists() and own_look(read_ledger(self.ledger), self._look()) is not None:
            self._opened = True
            return
        protocol = selection.get("protocol") or {}
        spans = by_dataset(opened, protocol.get("families") or {}, self._look().suite)
        look = append_look(self.ledger, self._look(), spans, code=code_sha256(), repeats=repeats)
        _write(unfinished, canonical(look))
        self._opened = True

    def _repeats(self, selection: dict[str, Any]) -> dict[str, Any] | None:
        """What ties this run to the one that it is to repeat; None where the bytes do, or there is none to repeat."""
        held = None if self.repeats is None else loads(self.repeats.read_bytes())
        if held is None or held == selection:
            return None
        tie = same_choice(selection, held)
        if tie is None:
            raise AnotherLook("validation chose otherwise than the run that was to be repeated; the test stays closed")
        return tie

    def _look(self) -> Look:
        return Look(
            self.identity["settings"]["name"], self.identity["suite_sha256"], self.identity["card_sha256"],
            hashlib.sha256(self.selection_path.read_bytes()).hexdigest(),
        )  # fmt: skip

    def require_open(self) -> None:
        """For whoever holds test data: refuse to hand it out early."""
        if not self._opened:
            raise TestSplitClosed("test data were asked for, but the test split has not been opened")

    @property
    def looks(self) -> tuple[int, list[dict[str, Any]]]:
        """How many looks this suite has had up to this run's, and which of its periods were open before."""
        ledger = read_ledger(self.ledger)
        own = own_look(ledger, self._look()) if self.selection_path.exists() and self._opened else None
        return (0, []) if own is None else before(ledger, own)

    def finish(self) -> None:
        """Partial results are no longer needed."""
        for path in self.work.glob("*.json"):
            path.unlink()
        self.work.rmdir()

    # ---------------------------------------------------------------- for people

    def progress(self, label: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(label, done, total)

    def timing(self, name: str, seconds: float, decisions: int) -> None:
        """Kept beside the evidence, never in it: a clock differs from run to run."""
        entry = self._timing.setdefault(name, {"seconds": 0.0, "decisions": 0.0})
        entry["seconds"] += seconds
        entry["decisions"] += decisions

    def timings(self) -> dict[str, dict[str, float]]:
        out = {}
        for name, entry in sorted(self._timing.items()):
            each = 1e6 * entry["seconds"] / entry["decisions"] if entry["decisions"] else math.nan
            out[name] = {**entry, **({"us_per_decision": each} if math.isfinite(each) else {})}
        return out


def _write(path: Path, body: bytes) -> None:
    with whole_file(path) as file:
        file.write(body)
