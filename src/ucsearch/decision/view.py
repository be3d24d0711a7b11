"""Decisions as people look at them: a frame, one line, a small table of HTML for notebooks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ucsearch.formatting import action_figure, figure, make_frame
from ucsearch.report.small import SHOWN, figure_text, small_table
from ucsearch.report.text import esc

if TYPE_CHECKING:
    from ucsearch.decision.decision import Decision, DecisionPanel

__all__ = ["brief", "brief_panel", "frame_of", "html_of", "html_panel", "label_of", "score_of"]


def label_of(decision: Decision) -> str:
    """What leaves, in the task's words; "" when nothing does."""
    action = decision.action
    if action is None:
        return ""
    source = decision.refused if decision.certificate is None else decision.certificate.plan
    if source is None or action not in (actions := tuple(source.actions)):
        return action_figure(action)
    return str(source.task.label(actions.index(action), action))


def score_of(decision: Decision) -> float | None:
    """Score of the best plan known that begins with what leaves, or with what was put forward where nothing does;
    None when none is known."""
    c = decision.certificate
    if c is None:
        return None
    action = c.action if decision.action is None else decision.action
    score = next((r.score for r in c.rivals if r.action == action), math.nan)
    return float(score) if math.isfinite(score) else None


def frame_of(decisions: Iterable[Decision], backend: str = "auto") -> Any:
    """One row for each decision, in polars, pandas or pyarrow, whichever is installed; NaN where nothing is known."""
    rows = [_row(d) for d in decisions]
    names = ("outcome", "action", "label", "reason", "score", "margin", "regret_bound", "fallback_cost", "sentence",
             "record_id")  # fmt: skip
    return make_frame({name: [row[i] for row in rows] for i, name in enumerate(names)}, backend)


def _row(d: Decision) -> tuple[Any, ...]:
    action = math.nan if d.action is None else d.action
    score = score_of(d)
    figures = (
        math.nan if score is None else score,
        float(d.release_margin),
        float(d.regret_bound),
        float(d.fallback_cost),
    )
    return (d.outcome.value, action, label_of(d), d.reason.value, *figures, d.sentence, d.record_id)


def brief(d: Decision) -> str:
    score = score_of(d)
    what = f"{label_of(d)!r}" if d.action is not None else "nothing"
    why = "" if d.released else f", {d.reason.value}"
    return f"Decision({d.outcome.value}, {what}{why}" + ("" if score is None else f", score {figure(score)}") + ")"


def brief_panel(panel: DecisionPanel) -> str:
    counts = Counter(panel.outcome.tolist())
    outcomes = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
    return f"DecisionPanel({len(panel)} decision{'' if len(panel) == 1 else 's'}: {outcomes})"


def html_of(d: Decision) -> str:
    """The sentence, the alternatives and the gate's rows, every text escaped."""
    head = f"<p><strong>{esc(d.outcome.value)}</strong> {esc(label_of(d) or 'nothing')}</p><p>{esc(d.sentence)}</p>"
    if d.certificate is None:
        return f"<div>{head}</div>"
    put = d.certificate.action_index
    ranked = sorted(
        d.certificate.rivals, key=lambda r: (r.index != put, -(r.upper if r.upper == r.upper else math.inf))
    )
    rows = [[r.label, figure_text(r.score), figure_text(r.upper), "proposed" if r.index == put else ""] for r in ranked]
    gate = [[r.name, f"{figure(r.left)} {r.operator} {figure(r.right)}", "yes" if r.passed else "no"] for r in d.rows]
    tables = small_table(("first action", "scores", "at most", ""), rows) + small_table(("condition", "", "met"), gate)
    return f"<div>{head}{tables}</div>"


def html_panel(panel: DecisionPanel) -> str:
    """The first decisions of a panel, every text escaped."""
    count = len(panel)
    rows = []
    for w in range(min(count, SHOWN)):
        d = panel[w]
        score = score_of(d)
        rows.append([str(w), d.outcome.value, label_of(d), "" if score is None else figure(score), d.reason.value])
    text = f"<div><p>{esc(brief_panel(panel))}</p>"
    return text + small_table(("", "outcome", "action", "score", "reason"), rows, count) + "</div>"
