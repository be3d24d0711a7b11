"""Run every full suite, put its evidence into evidence/, and write the table of docs/results.md from it.

    python scripts/evidence.py                      # all suites (make evidence)
    python scripts/evidence.py synthetic scaling    # some
    python scripts/evidence.py --dry-run            # up to the look: what would be chosen, and is it as committed?
    python scripts/evidence.py --table              # only the table, from the evidence that is there
    python scripts/evidence.py --times              # only how long the suites took, from their timing.json

A suite is run in a folder of its own and then takes the place of the committed evidence: the same code, settings and
platform give the same bytes, and it is said where they do not. Every look goes to the one ledger, evidence/looks.jsonl;
a run whose suite file, card, selection and periods are those of an earlier look is its repeat and shows nothing new.
Where today's code chooses otherwise on validation, a suite stays closed, unless --another-look is given.
A run that was killed goes on: within a suite with the windows it had done, and past the suites that it had finished
with the same code (--again runs those too).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studies.stress_figure import stress_figure  # noqa: E402
from ucsearch.lab.suites.evidence.ledger import LEDGER, code_sha256, same_choice  # noqa: E402
from ucsearch.lab.suites.evidence.manifest import find_evidence, read_evidence  # noqa: E402
from ucsearch.lab.suites.gates.claims import status_rows  # noqa: E402
from ucsearch.lab.suites.job import AnotherLook, RunOptions  # noqa: E402
from ucsearch.lab.suites.report import write_reports  # noqa: E402
from ucsearch.lab.suites.run import WHOLE, evaluate, rehearse  # noqa: E402
from ucsearch.lab.suites.suite import load_suite, suite_names  # noqa: E402

EVIDENCE = ROOT / "evidence"
ALL = ROOT / "docs" / "results.md"
STRESSES = ROOT / "docs" / "pictures" / "stressors.svg"
BEGIN, END = "<!-- results: written by scripts/evidence.py -->", "<!-- end of results -->"
AFTER = (
    "ltsf-inventory", "capacity-control", "intervention-control", "delayed-control", "multi-domain", "compute-matched",
    "lob-direction", "trained-backbones", "stressors", "m4-expanded60",
)  # fmt: skip
"""These run after the others, in the order of their looks: what was opened before stays so."""


def in_order() -> list[str]:
    """All full suites in the order in which they are run."""
    names = suite_names(mini=False)
    return [*(name for name in names if name not in AFTER), *(name for name in AFTER if name in names)]


def times(folder: Path) -> str:
    """How long every suite took, longest first, and the sum."""
    lines: list[tuple[float, float, str]] = []
    for name in in_order():
        path = folder / name / "timing.json"
        took = json.loads(path.read_text("utf-8")).get(WHOLE) if path.exists() else None
        if took is not None:
            lines.append((took["processor_seconds"], took["seconds"], name))
    out = [f"{name:24} {cpu:6.0f} s of processors in {wall:.0f} s" for cpu, wall, name in sorted(lines, reverse=True)]
    cpu, wall = (sum(line[n] for line in lines) / 60.0 for n in (0, 1))
    return "\n".join([*out, f"all: {cpu:.1f} minutes of processors in {wall:.0f}"])


def results_table(folder: Path) -> str:
    """A line for each suite, under markers; what practitioners ask comes first."""
    rows = status_rows([read_evidence(one).predicate for one in find_evidence(folder)])
    lines = [
        "| suite | against samplers, the paper's gate | against practitioners | what to conclude |",
        "|---|---|---|---|",
    ]
    for r in sorted(rows, key=lambda r: r["value"] == "not asked"):  # stable: otherwise in the order of their class
        name = f"[`{r['suite']}`](../evidence/{r['suite']}) {r['endpoint']}"
        lines.append(f"| {name} | **{r['class']}** | {r['value'].partition(';')[0]} | {r['conclusion']} |")
    held = {r["suite"] for r in rows}
    lines += [f"| `{name}` | not run | not run | not run |" for name in suite_names(mini=False) if name not in held]
    return "\n".join([BEGIN, *lines, END])


def with_table(text: str, table: str) -> str:
    """A page's text with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f"the page has no {BEGIN!r} ... {END!r} to write between")
    return before + table + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help="default: all full suites")
    parser.add_argument("--data-dir", type=Path, help="local copies of public data; else UCSEARCH_DATA")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--again", action="store_true", help="also what a killed run had finished")
    parser.add_argument("--another-look", action="store_true", help="also where validation chooses anew")
    for name in ("dry-run", "table", "times"):
        parser.add_argument(f"--{name}", action="store_true")
    asked = parser.parse_args()
    if asked.times:
        print(times(EVIDENCE))
        return
    names = asked.suites or in_order()
    options: RunOptions = {"data_dir": asked.data_dir, "threads": asked.threads, "ledger": EVIDENCE / LEDGER}
    if asked.dry_run:
        for name in names:
            print(f"{name}: {rehearsed(name, options)}", flush=True)
        return
    if not asked.table:
        run(names, options, again=asked.again, another_look=asked.another_look)
    ALL.write_text(with_table(ALL.read_text("utf-8"), results_table(EVIDENCE)), "utf-8")
    if (EVIDENCE / "stressors" / "manifest.json").exists():
        tables = read_evidence(EVIDENCE / "stressors").predicate["tables"]
        STRESSES.write_text(stress_figure(next(t for t in tables if t["name"] == "stresses")), "utf-8")
    if not asked.table:
        write_reports(EVIDENCE)
        print(times(EVIDENCE))


def rehearsed(name: str, options: RunOptions) -> str:
    """What validation chooses with today's code, and whether it is what was committed: then the run is a repeat of its
    look, else another look."""
    if load_suite(name).settings.plan().series.keys() <= {"design"}:
        return "holds nothing out"
    held = EVIDENCE / name / "selection.json"
    own: Any = {**options, "say": print, "underpowered": was_underpowered(EVIDENCE / name)}
    selection, opens = rehearse(name, ROOT / "build" / "rehearsal", **own)
    word = "never run"
    if held.exists():
        before = json.loads(held.read_bytes())
        same = selection == before or same_choice(selection, before) is not None
        word = "as committed" if same else "NOT as committed"
    return f"{selection['candidate']}, the test {'opens' if opens else 'stays closed'}; selection {word}"


def run(names: list[str], options: RunOptions, *, again: bool, another_look: bool) -> None:
    work = ROOT / "build" / "evidence"
    finished = work / "finished.json"
    done: dict[str, str] = {} if again or not finished.exists() else json.loads(finished.read_text("utf-8"))
    code = code_sha256()
    for n, name in enumerate(names):
        started, place = time.perf_counter(), EVIDENCE / name
        mark = hashlib.sha256(f"{code} {load_suite(name).text}".encode()).hexdigest()
        if done.get(name) == mark and (place / "manifest.json").exists():
            print(f"{name}: finished before with this code", flush=True)
            continue

        def progress(label: str, count: int, total: int, name: str = name, n: int = n) -> None:
            if sys.stdout.isatty():
                print(f"[{n + 1}/{len(names)}] {name}: {label} {count}/{total}", end="\x1b[K\r", flush=True)

        own: Any = {**options, "progress": progress, "say": print, "underpowered": was_underpowered(place)}
        held = place / "selection.json"
        try:
            found = evaluate(name, work, **own, repeats=held if held.exists() and not another_look else None)
        except AnotherLook as error:
            print(f"{name}: {error}", flush=True)
            continue
        same = ""
        if (place / "manifest.json").exists():
            same = ", as committed" if digest(place) == digest(found.folder) else ", NOT as committed"
            shutil.rmtree(place)
        EVIDENCE.mkdir(exist_ok=True)
        shutil.move(str(found.folder), place)
        print(f"{name}: {found.verdict['class']}, {time.perf_counter() - started:.0f} s{same}\x1b[K", flush=True)
        done[name] = mark
        finished.write_text(json.dumps(done), "utf-8")
    if names == in_order():
        finished.unlink(missing_ok=True)  # the next run of all suites is a new one


def was_underpowered(folder: Path) -> bool:
    """Whether the committed evidence was opened so; the same selection again is no new look."""
    path = folder / "selection.json"
    record = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return bool((record.get("value") or {}).get("underpowered", False))


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
