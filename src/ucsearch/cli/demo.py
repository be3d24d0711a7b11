"""`ucsearch demo`: lead-time inventory on embedded data, from forecast to verified record.

TASK is a module-level object, so that the verifier can be pointed at it as `ucsearch.cli.demo:TASK`.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision import Filing
from ucsearch.lab.data.embedded import sample_demand
from ucsearch.tasks import LeadTimeInventory

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ucsearch.certificate.certificate import Certificate, Rival
    from ucsearch.decision.decision import Decision
    from ucsearch.policies import Policy
    from ucsearch.trace import Trace

__all__ = ["TASK", "run_demo", "seasonal_paths"]

SERIES = "SKU-003"
DEPTH = 7  # days searched
RISK = 0.5
NOW = datetime(2024, 5, 20, 6, 0, tzinfo=UTC)
ISSUED = datetime(2024, 5, 20, 4, 0, tzinfo=UTC)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

INVENTORY = LeadTimeInventory(
    lead_time=2,
    order_sizes=tuple(20.0 * k for k in range(9)),
    holding=1.0,
    shortage=9.0,
    unit_cost=0.5,
    capacity=400.0,
    ramp=60.0,
)
TASK = INVENTORY.task()
START = INVENTORY.state(60.0, (60.0, 80.0))
WHERE = "ucsearch.cli.demo:TASK"


def seasonal_paths(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, 14) demand paths: the last week again and again, changed as past pairs of weeks changed after theirs."""
    weeks = y[len(y) % 7 :].reshape(-1, 7)
    change = np.diff(weeks, axis=0)
    first, second = change[:-1], change[:-1] + change[1:]
    return np.asarray(np.maximum(np.tile(weeks[-1], 2) + np.concatenate([first, second], axis=1), 0.0))


def run_demo(folder: Path | None = None) -> int:
    """Decide twice, record both decisions, verify them; 0 when the verifier's verdicts are as they should be."""
    from rich.console import Console

    console = Console(highlight=False)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        return _run(console, folder, keep=True)
    with tempfile.TemporaryDirectory(prefix="ucsearch-demo-") as temporary:
        return _run(console, Path(temporary), keep=False)


def _run(console: Console, folder: Path, keep: bool) -> int:
    import ucsearch as uc

    demand = next(s for s in sample_demand().series if s.id == SERIES)
    trace = uc.Trace.from_members(seasonal_paths(demand.train), model="seasonal naive", issued=ISSUED)
    # A decision takes the plain engine a fraction of a second; compiling for two of them would take half a minute.
    gate = uc.Gate(certificate=True, max_trace_age_s=24 * 3600.0)

    path = folder / "decisions.db"
    with uc.AuditLog(path, clock=lambda: datetime.now(UTC)) as log:

        def decide(policy: Policy) -> Decision:
            return uc.decide(
                TASK,
                START,
                trace,
                policy,
                gate=gate,
                now=NOW,
                log=Filing(log, series=SERIES, where=WHERE),
                run=uc.Run(engine="python"),
            )

        released = decide(uc.CertifiedBeam(depth=DEPTH, width=16, risk=RISK))
        # The immediate score alone: an order that arrives in two days looks like a mere expense today.
        refused = decide(uc.UCBeam(depth=DEPTH, width=2, top_k=2, risk=RISK, order="score"))

    _question(console, trace)
    _show_released(console, released)
    _show_refused(console, refused)
    code = _show_verdict(console, path, (released, refused))
    _show_worth(console, released, refused)
    if keep:
        _say_more(console, path, released)
    return code


# -------------------------------------------------------------------- what is shown


def _question(console: Console, trace: Trace) -> None:
    p = INVENTORY
    _heading(console, f"The question: how much of {SERIES} to order today")
    console.print(
        f"{START.on_hand:g} on hand, {START.pipeline[0]:g} arrive today, {START.pipeline[1]:g} tomorrow. An order "
        f"arrives {p.lead_time} days after it is placed.\n"
        f"Rules: stock and open orders hold at most {p.capacity:g}; an order differs from yesterday's "
        f"({START.last:g}) by at most {p.ramp:g}.\n"
        f"Costs per unit: {p.unit_cost:g} to order, {p.holding:g} a day to hold, {p.shortage:g} short. "
        f"Score = -cost - {RISK:g} x its spread over the forecast.\n"
        f"Forecast: {trace.size} demand paths, {trace.model}, issued {ISSUED:%H:%M}; now it is {NOW:%H:%M}."
    )


def _show_released(console: Console, decision: Decision) -> None:
    certificate = _certificate(decision)
    _heading(console, "1  A decision that is released")
    _outcome(console, decision)
    console.print()
    console.print(_path_table(certificate, "±" if console.encoding.startswith("utf") else "+-"))
    console.print()
    console.print(_rival_table(decision))


def _path_table(certificate: Certificate, sign: str) -> Table:
    """The plan day by day, at the mean of the forecast."""
    plan = certificate.plan
    table = _table("The plan at the mean forecast", "day", "order", "on hand", "arrives", "demand", "cost", "spread")
    mean = plan.trace.mean[0, :, 0]
    deviation = plan.trace.members[0, :, :, 0].std(axis=0)
    steps = zip(plan.path, plan.states, plan.step_rewards, plan.step_uncertainties, strict=False)
    for h, (order, state, q, u) in enumerate(steps):
        table.add_row(
            DAYS[(NOW.weekday() + h) % 7],
            f"{order:g}",
            f"{state.on_hand:.0f}",
            f"{state.pipeline[0]:g}",
            f"{mean[h]:.0f} {sign} {deviation[h]:.0f}",
            f"{-q:.1f}",
            f"{u:.1f}",
            style="bold" if h == 0 else None,
        )
    table.add_section()
    table.add_row("total", "", "", "", "", f"{-plan.reward:.1f}", f"{plan.uncertainty:.1f}")
    table.caption = "Only today's order is sent. Orders of the last two days would arrive too late to count."
    return table


def _rival_table(decision: Decision) -> Table:
    """Every first action: what it scores, what it can score at most, and why it lost."""
    certificate = _certificate(decision)
    table = _table("The alternatives for today", "order", "cost", "spread", "score", "at most", "verdict")
    rivals = {r.index: r for r in certificate.rivals}
    mine = rivals[certificate.action_index]
    for i, first in enumerate(certificate.plan.first_actions):
        rival = rivals.get(i)
        if rival is None:
            table.add_row(f"{first.action:g}", "", "", "", "", _broken_rule(first.action), style="dim")
            continue
        table.add_row(
            f"{rival.action:g}",
            f"{-rival.reward:.1f}",
            f"{rival.uncertainty:.1f}",
            f"{rival.score:.1f}",
            f"{rival.upper:.1f}",
            _verdict(rival, mine),
            style="bold" if rival is mine else None,
        )
    table.caption = (
        "at most: proved, no plan that starts so can score more under this forecast. "
        "behind: what it loses against the released order, at least."
    )
    return table


def _verdict(rival: Rival, mine: Rival) -> str:
    if rival is mine:
        return "released"
    why = "dearer" if rival.reward < mine.reward else "cheaper but riskier"
    return f"{why}, {mine.score - rival.upper:.1f} behind"


def _broken_rule(action: float) -> str:
    change, ramp = abs(action - START.last), INVENTORY.params().ramp
    if change > ramp:
        return f"not allowed: a change of {change:g} > {ramp:g}"
    return "not allowed: no room for it"


def _show_refused(console: Console, decision: Decision) -> None:
    _heading(console, "2  A decision that is not released")
    console.print("The same question, searched with two paths only and ranked by the immediate score.")
    _outcome(console, decision)
    console.print()
    table = _table("The gate: all must hold", "condition", "seen", "", "asked", "")
    for row in decision.rows:
        mark = "ok" if row.passed else "[red]fails[/red]"
        table.add_row(row.name, f"{row.left:g}", row.operator, f"{row.right:g}", mark)
    console.print(table)


def _show_verdict(console: Console, path: Path, decisions: tuple[Decision, Decision]) -> int:
    """The verifier's word on each entry, and on a forgery of the second one; 0 when it is right about all three."""
    from ucsearch.records import seal
    from ucsearch.verify import verify_file, verify_record

    _heading(console, "3  Both are in the audit log, and a separate verifier checks them")
    console.print("It shares no code with the search: it replays the rules and derives every claim again.")
    found = {verdict.name: verdict for verdict in verify_file(path, TASK)}  # a kept log may hold more than ours
    records = [_record(decision) for decision in decisions]
    verdicts = [found[record["id"]] for record, _ in records]
    table = _table("", "record", "says", "verdict")
    for verdict, decision in zip(verdicts, decisions, strict=True):
        table.add_row(verdict.name[:12], f"{decision.outcome.value}, {_label(decision)}", verdict.status)
    record, blobs = records[1]
    outcome = {**record["outcome"], "outcome": "RELEASED", "action": record["outcome"]["rejected_action"]}
    forged = seal({**{k: v for k, v in record.items() if k != "id"}, "outcome": outcome})
    caught = verify_record(forged, blobs, TASK)
    table.add_row(caught.name[:12], "the second one, forged to RELEASED", caught.status, style="dim")
    console.print(table)
    console.print(f"The forgery's hashes were made to fit. Still: {caught.message}.", markup=False)
    right = [v.status for v in (*verdicts, caught)] == ["valid", "valid", "invalid"]
    return 0 if right else 1


def _show_worth(console: Console, released: Decision, refused: Decision) -> None:
    """What the released order saves against the fallback, and where to go on."""
    certificate = _certificate(released)
    rivals: dict[float | None, Rival] = {rival.action: rival for rival in certificate.rivals}
    mine, other = rivals[released.action], rivals.get(refused.action)
    _heading(console, "What it is worth, and what to try next")
    if other is not None:
        console.print(
            f"Over {DEPTH} days under this forecast the released order {mine.action:g} saves at least "
            f"{mine.score - other.upper:.0f} against the fallback order {other.action:g} (cost and its risk together)."
        )
    console.print("Next, orders from files (in a clone first: source .venv/bin/activate):")
    console.print("  ucsearch new inventory shop    and the commands that it names")


def _say_more(console: Console, path: Path, decision: Decision) -> None:
    id = _record(decision)[0]["id"]
    console.print()
    console.print("Look further with:")
    for command in (f"log list --log {path}", f"log show {id[:12]} --log {path}", f"verify {path} --task {WHERE}"):
        console.print(f"  ucsearch {command}", soft_wrap=True)


# -------------------------------------------------------------------- small parts


def _heading(console: Console, text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/bold cyan]")


def _outcome(console: Console, decision: Decision) -> None:
    from rich.text import Text

    head = decision.outcome.value if decision.released else f"{decision.outcome.value} ({decision.reason.value})"
    console.print(Text.assemble((head, f"bold {'green' if decision.released else 'yellow'}"), ": ", decision.sentence))


def _record(decision: Decision) -> tuple[dict[str, Any], dict[str, bytes]]:
    from ucsearch.records.record import decision_record

    return decision_record(decision, series=SERIES, where=WHERE)


def _label(decision: Decision) -> str:
    if decision.action is None:
        return "nothing"
    return TASK.label(TASK.actions.index(decision.action), decision.action)


def _certificate(decision: Decision) -> Certificate:
    if decision.certificate is None:
        raise RuntimeError("the demonstration's own forecast was refused")
    return decision.certificate


def _table(title: str, *heads: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left", pad_edge=False)
    texts = {"day", "verdict", "condition", "record", "says", ""}
    for head in heads:
        table.add_column(head, justify="left" if head in texts else "right", no_wrap=head != "verdict")
    return table
