"""Tables and checks of a mechanism suite, as specifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ucsearch.lab.suites.evidence.tables import cell_check, column, table
from ucsearch.lab.suites.kinds.mechanism.rules import RULES
from ucsearch.lab.suites.kinds.mechanism.settings import MechanismSettings

__all__ = ["checks_of", "tables_of"]

_MECHANISM = (
    ("Oracle retained", "oracle_retained", "decisions"), ("Order preserved", "preserved", "decisions"),
    ("One action left", "alone", "decisions"), ("Suffix margin", "suffix_margin", None),
    ("Suffix advantage", "suffix_advantage", None), ("Local loss", "local_loss", None),
    ("Gap", "gap", None), ("Retained margin", "margin", None), ("eps_a", "eps_a", None),
    ("Proxy slack", "proxy_slack", None), ("Exact regret", "exact_regret", None), ("Expansions", "expansions", None),
)  # fmt: skip
_PROPOSITION = (
    ("beta needed", "beta", None), ("beta <= lambda", "beta_within", "measured"),
    ("Model error", "eps_m", None), ("eps_c", "eps_c", None),
    ("eps_r", "eps_r", None), ("eps_u", "eps_u", None), ("Regret", "regret", None), ("Bound", "bound", None),
    ("Least slack", "bound_least", "min"), ("Plan regret", "plan_regret", None), ("Plan eps_r", "plan_eps_r", None),
    ("Plan eps_u", "plan_eps_u", None), ("Plan bound", "plan_bound", None),
    ("Least plan slack", "plan_bound_least", "min"), ("Within eps_c", "calibrated", "measured"),
    ("Declared bound holds", "declared_held", "measured"),
)  # fmt: skip
_CHECKED = (
    ("decisions not solved exactly", "Unsolved"), ("expansions beyond Proposition 1", "Over budget"),
    ("bounds of Proposition 2 broken, against hindsight", "Broken"),
    ("bounds of Proposition 2 broken, against the exact plan", "Plan broken"),
    ("orders that Corollary 5 called preserved and were not", "False corollary"),
    ("orders that the certificate called preserved and were not", "False certificate"),
)  # fmt: skip


def tables_of(s: MechanismSettings) -> list[dict[str, Any]]:
    beams, every = list(s.beams), [*s.beams, "exact"]
    regimes = [
        _rate("Suffixes equal", "collapsed", "decisions"), _rate("First steps equal", "first_equal", "decisions"),
        _rate("First step misleads", "separated", "decisions"), _mean("Nodes", "oracle_nodes"),
    ]  # fmt: skip
    covers = [_rate(f"Cover {100 * level:g} %", f"covered_{100 * level:g}", "points") for level in s.levels]
    counts = [
        column(name, source, "sum")
        for name, source in (
            ("Decisions", "decisions"), ("Measured", "measured"), ("Plans met a rule", "met_rule"),
            ("Unsolved", "unsolved"), ("Over budget", "over_budget"), ("Broken", "bound_broken"),
            ("Plan broken", "plan_bound_broken"), ("False corollary", "corollary_false"),
            ("False certificate", "certificate_false"),
        )
    ]  # fmt: skip
    walked = [column("Windows", "", "count"), column("Violations", "violations", "sum")]
    return [
        _table("mechanism", "Retained search by source and beam", ["source", "policy"], beams, _columns(_MECHANISM)),
        _table("mechanism, all sources", "Retained search by beam", ["policy"], beams, _columns(_MECHANISM)),
        _table("mechanism by family", "Retained search of uc by family", ["family"], ["uc"], _columns(_MECHANISM)),
        _table("proposition 2", "Calibration, proxy slacks, realised regret and its bound", ["source", "policy"], beams,
               _columns(_PROPOSITION)),
        _table("predictor", "Will the order be preserved? All sources and beams", ["split"], beams, _predictor("pool"),
               split=None),
        _table("predictor by beam", "The same by beam", ["policy"], beams, _predictor("beam")),
        _table("predictor by source", "The same by source", ["source", "policy"], beams, _predictor("source")),
        _table("predictor on validation", "The same where it was fitted", ["source", "policy"], beams,
               _predictor("source"), split="validation"),
        _table("regimes", "What the exact planner met, by family", ["family"], ["exact"], [*regimes, *covers]),
        _table("regimes by source", "What the exact planner met", ["source"], ["exact"], [*regimes, *covers]),
        _table("hindsight", "Realised regret to hindsight of the whole plan", ["source", "policy"], every,
               [_mean("Regret", "regret")]),
        _table("counts", "Decisions counted", ["policy"], beams, counts),
        _table("walk", "The exact planner's walk", ["policy"], ["exact"], walked),
    ]  # fmt: skip


def checks_of(s: MechanismSettings, is_weighed: bool) -> list[dict[str, Any]]:
    """What must hold in every single decision. `is_weighed`: orders were preserved sometimes, not always."""
    found = [cell_check("violations of the exact planner's walk", "walk", ["exact"], "Violations")]
    for name in s.beams:
        found += [cell_check(f"{text} ({name})", "counts", [name], column) for text, column in _CHECKED]
    if is_weighed:
        # Both classes weigh the same, or the balanced accuracy would not be one.
        for op, right in ((">=", 0.5 - 1e-9), ("<=", 0.5 + 1e-9)):
            found.append(cell_check("weight of preserved orders", "predictor", ["test"], "Weight", op, right))
    return found


def _predictor(scope: str) -> list[dict[str, Any]]:
    """Shares of decisions, windows of all sizes pooled. Balanced accuracy: right answers under weights that give both
    classes half of the total within the scope."""
    columns = [column("Base rate", "preserved", "ratio", "decisions")]
    for rule in RULES:
        columns.append(column(f"Accuracy, {rule}", f"{rule}_hits", "ratio", "decisions"))
        columns.append(column(f"Balanced, {rule}", f"{rule}_weight_{scope}", "ratio", f"weight_{scope}"))
        columns.append(column(f"Kept found, {rule}", f"{rule}_kept", "ratio", "preserved"))
    columns.append(column("Weight", f"preserved_weight_{scope}", "ratio", f"weight_{scope}"))
    return columns


def _columns(wanted: Sequence[tuple[str, str, str | None]]) -> list[dict[str, Any]]:
    out = []
    for name, source, over in wanted:
        if over == "min":
            out.append(column(name, source, "min"))
        else:
            out.append(_mean(name, source) if over is None else _rate(name, source, over))
    return out


def _mean(name: str, source: str) -> dict[str, Any]:
    return column(name, source, "family_mean")


def _rate(name: str, source: str, over: str) -> dict[str, Any]:
    return column(name, source, "rate_family_mean", over)


def _table(
    name: str, title: str, group: list[str], policies: list[str], columns: list[dict[str, Any]],
    split: str | None = "test",
) -> dict[str, Any]:  # fmt: skip
    return table(name, title, group, columns, policies, only=policies, split=split)
