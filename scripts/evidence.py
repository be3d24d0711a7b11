"""Run every full suite, put its evidence into evidence/, and write the table of docs/all-results.md from it.

    python scripts/evidence.py                      # all suites (make evidence)
    python scripts/evidence.py synthetic scaling    # some
    python scripts/evidence.py --table              # only the table, from the evidence that is there
    python scripts/evidence.py --times              # only how long the suites took, from their timing.json

A suite is run in a folder of its own and then takes the place of the committed evidence: the same code, settings and
platform give the same bytes, and it is said where they do not. Every look goes to the one ledger, evidence/looks.jsonl.

A run that was killed goes on: within a suite with the windows it had done, and past the suites that it had finished
with the same code (--again runs those too). A test split is opened underpowered only if asked for, or if that look was
made before: then it is a repeat and shows nothing new.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from pathlib import Path

from ucsearch.lab.suites.evidence.ledger import LEDGER, code_sha256
from ucsearch.lab.suites.evidence.manifest import find_evidence, read_evidence
from ucsearch.lab.suites.gates.claims import status_rows
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.report import write_reports
from ucsearch.lab.suites.run import WHOLE, evaluate
from ucsearch.lab.suites.stress_figure import stress_figure
from ucsearch.lab.suites.suite import load_suite, suite_names

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "evidence"
ALL = ROOT / "docs" / "all-results.md"
STRESSES = ROOT / "docs" / "pictures" / "stressors.svg"
LEDGER_FILE = EVIDENCE / LEDGER
BEGIN, END = "<!-- results: written by scripts/evidence.py -->", "<!-- end of results -->"


AFTER = (
    "ltsf-inventory", "capacity-control", "intervention-control", "delayed-control", "multi-domain", "compute-matched",
    "lob-direction", "trained-backbones", "stressors", "m4-expanded60",
)  # fmt: skip
"""The paper's remaining rows run after the others, in the order of their looks: what was opened before stays so."""


def in_order() -> list[str]:
    """All full suites in the order in which they are run."""
    names = suite_names(mini=False)
    return [*(name for name in names if name not in AFTER), *(name for name in AFTER if name in names)]


def times(folder: Path) -> str:
    """How long every suite took, longest first, and the sums that `make evidence` is held to: the suites before
    the paper's remaining rows, and these. Of older runs only the policies' processor time is known: forecasts, kernels
    and tuning come on top."""
    lines: list[tuple[float, str]] = []
    sums = {"programme": [0.0, 0.0, 0.0], "paper": [0.0, 0.0, 0.0]}  # minutes: wall, processors, older runs' policies
    for name in in_order():
        path = folder / name / "timing.json"
        held = json.loads(path.read_text("utf-8")) if path.exists() else {}
        took, part = held.pop(WHOLE, None), sums["paper" if name in AFTER else "programme"]
        if took is None:
            policies = sum(one["seconds"] for one in held.values())
            part[2] += policies / 60.0
            lines.append((policies, f"{name:24} policies alone {policies:6.0f} s of processors"))
            continue
        wall, processors = took["seconds"], took["processor_seconds"]
        part[0] += wall / 60.0
        part[1] += processors / 60.0
        lines.append((processors, f"{name:24} {processors:6.0f} s of processors in {wall:.0f} s"))
    out = [line for _, line in sorted(lines, reverse=True)]
    labels = {"programme": ("the programme and the first ten", 90), "paper": ("the paper's remaining rows", 60)}
    for name, (label, limit) in labels.items():
        wall, processors, policies = sums[name]
        out.append(
            f"{label}: {processors:.1f} minutes of processors in {wall:.0f}, and {policies:.1f} of policies of runs "
            f"whose own time was not kept (limit on two cores: {limit} minutes)"
        )
    return "\n".join(out)


def results_table(folder: Path) -> str:
    """The status of all evidence as a Markdown table, under markers; what practitioners ask comes first."""
    rows = status_rows([read_evidence(one).predicate for one in find_evidence(folder)])
    lines = [
        "| suite | what to conclude | against practitioners | against samplers, the paper's gate |",
        "|---|---|---|---|",
    ]
    for r in sorted(rows, key=lambda r: r["value"] == "not asked"):  # stable: otherwise in the order of their class
        suite = f"[`{r['suite']}`](../evidence/{r['suite']}) {r['endpoint']}"
        cells = (suite, r["conclusion"], r["value"], f"**{r['class']}**: {r['key']}")
        lines.append("| " + " | ".join(cells) + " |")
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
    parser.add_argument("--underpowered", action="store_true", help="open test splits whatever the power")
    parser.add_argument("--again", action="store_true", help="also what a killed run had finished")
    parser.add_argument("--table", action="store_true", help="run nothing, only write the table")
    parser.add_argument("--times", action="store_true", help="run nothing, only say how long the suites took")
    arguments = parser.parse_args()
    if arguments.times:
        print(times(EVIDENCE))
        return
    names = [] if arguments.table else arguments.suites or in_order()
    begun = time.perf_counter()
    work = ROOT / "build" / "evidence"
    finished = work / "finished.json"
    done: dict[str, str] = {} if arguments.again or not finished.exists() else json.loads(finished.read_text("utf-8"))
    code = code_sha256()
    for n, name in enumerate(names):
        started = time.perf_counter()
        place = EVIDENCE / name
        mark = hashlib.sha256(f"{code} {load_suite(name).text}".encode()).hexdigest()
        if done.get(name) == mark and (place / "manifest.json").exists():
            print(f"{name}: finished before with this code", flush=True)
            continue

        def progress(label: str, done: int, total: int, name: str = name, n: int = n) -> None:
            if sys.stdout.isatty():
                print(f"[{n + 1}/{len(names)}] {name}: {label} {done}/{total}", end="\x1b[K\r", flush=True)

        def say(text: str, name: str = name) -> None:
            print(f"{name}: {text}", flush=True)

        found = evaluate(
            name, work, data_dir=arguments.data_dir, threads=arguments.threads, progress=progress, ledger=LEDGER_FILE,
            underpowered=arguments.underpowered or _was_underpowered(place), say=say,
        )  # fmt: skip
        verdict = verify_evidence(found.folder, ledger=LEDGER_FILE)
        if not verdict.ok:
            raise SystemExit(f"{name}: the evidence does not verify: {verdict.problems or verdict.malformed}")
        same = ""
        if (place / "manifest.json").exists():
            same = ", as committed" if _digest(place) == _digest(found.folder) else ", NOT as committed"
            shutil.rmtree(place)
        EVIDENCE.mkdir(exist_ok=True)
        shutil.move(str(found.folder), place)
        write_reports(place)  # here, beside the ledger
        clear = "\x1b[K" if sys.stdout.isatty() else ""
        print(f"{name}: {found.verdict['class']}, {time.perf_counter() - started:.0f} s{same}{clear}", flush=True)
        done[name] = mark
        finished.write_text(json.dumps(done), "utf-8")
    if names == in_order():
        finished.unlink(missing_ok=True)  # the next run of all suites is a new one
    ALL.write_text(with_table(ALL.read_text("utf-8"), results_table(EVIDENCE)), "utf-8")
    write_map()
    if names:
        write_reports(EVIDENCE)
        print(f"{len(names)} suites in {(time.perf_counter() - begun) / 60.0:.1f} minutes")
        print(times(EVIDENCE))


def write_map() -> None:
    """The picture that documents show: what stresses cost."""
    folder = EVIDENCE / "stressors"
    if (folder / "manifest.json").exists():
        tables = read_evidence(folder).predicate["tables"]
        STRESSES.write_text(stress_figure(next(t for t in tables if t["name"] == "stresses")), "utf-8")


def _was_underpowered(folder: Path) -> bool:
    """Whether the committed evidence was opened so; the same selection again is no new look."""
    path = folder / "selection.json"
    record = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return any((record.get(part) or {}).get("underpowered", False) for part in ("value", "power"))


def _digest(folder: Path) -> str:
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
