"""From what was measured at each decision to the figures of a window's row.

`found[t]` of a window is what `Diagnosis` left there; `declared` holds what validation chose for a source: for every
beam `beta`, `eps_c` and the constants of the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.evidence.rows import COUNTS
from ucsearch.lab.suites.kinds.mechanism.bound import Retained, beta_needed, excess, quantile, slacks
from ucsearch.lab.suites.kinds.mechanism.rules import PROOFS, RULES, OrderCase, count, fit_rules
from ucsearch.lab.suites.kinds.mechanism.settings import MechanismSettings

__all__ = ["beam_figures", "case_of", "certificate_of", "declare_source", "exact_figures", "weigh"]

Found = Sequence[Mapping[str, Any]]  # decisions of one window
LEVEL = 0.95  # of the calibration error
_MEANS = (
    "margin", "gap", "eps_a", "proxy_slack", "exact_regret", "suffix_margin", "suffix_advantage", "local_loss",
    "expansions",
)  # fmt: skip


def case_of(beam: Mapping[str, Any]) -> OrderCase:
    margin = math.inf if beam["margin"] is None else beam["margin"]
    return OrderCase(
        beam["preserved"], beam["oracle_retained"], beam["sole"], margin, beam["eps_a"] or 0.0, beam["passed"]
    )


def retained_of(decision: Mapping[str, Any], name: str) -> list[Retained] | None:
    """The beam's retained paths; None where reality is not known to the end or a plan met a rule on its way."""
    paths = decision["beams"][name]["paths"]
    others = [*decision["exact"].values(), *decision["hindsight"].values()]
    if not decision["complete"] or not paths or None in others or any(None in p for p in paths):
        return None
    return [Retained(*p) for p in paths]


def declare_source(windows: Sequence[Found], s: MechanismSettings) -> dict[str, Any]:
    """What validation chooses for a source, by beam. Beta: what 95 % of decisions need, at most lambda; eps_c: the
    95 % quantile of what is left beyond beta times uncertainty."""
    out = {}
    for name in s.beams:
        retained = [paths for found in windows for d in found if (paths := retained_of(d, name)) is not None]
        beta = min(s.risk, quantile([beta_needed(paths) for paths in retained], LEVEL) or 0.0)
        eps_c = quantile([excess(paths, beta) for paths in retained], LEVEL) or 0.0
        rules = fit_rules([case_of(d["beams"][name]) for found in windows for d in found])
        out[name] = {"beta": beta, "eps_c": eps_c, "rules": rules}
    return out


def beam_figures(found: Found, name: str, s: MechanismSettings, declared: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of one beam in one window."""
    beams = [d["beams"][name] for d in found]
    out: dict[str, Any] = {name: sum(b[name] for b in beams) for name in ("oracle_retained", "preserved", "paper_pass")}
    out["alone"] = sum(b["first_actions"] == 1 and not b["sole"] for b in beams)
    out["unsolved"] = sum(not b["solved"] for b in beams)
    out["over_budget"] = sum(b["expansions"] > s.most_expansions for b in beams)
    out |= {field: _mean(b[field] for b in beams) for field in _MEANS}
    out |= _proposition(found, name, s, declared)
    cases = [case_of(b) for b in beams]
    for rule in RULES:
        counts = count(rule, declared["rules"][rule], cases)
        out |= {f"{rule}_hits": counts.hits, f"{rule}_kept": counts.kept, f"{rule}_lost": counts.lost}
    for rule in PROOFS:
        # Whoever is called preserved and is not: the rest of those that are not.
        out[f"{rule}_false"] = len(cases) - out["preserved"] - out[f"{rule}_lost"]
    return out


def _proposition(found: Found, name: str, s: MechanismSettings, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Proposition 2, against the best path in hindsight and (`plan_`) against the exact planner's path."""
    measured = [(d, paths) for d in found if (paths := retained_of(d, name)) is not None]
    complete = sum(d["complete"] for d in found)
    out: dict[str, Any] = {"measured": len(measured), "met_rule": complete - len(measured)}
    needed = [beta_needed(paths) for _, paths in measured]
    out["beta"] = _mean(b for b in needed if math.isfinite(b))
    out["eps_m"] = _mean(excess(paths, 0.0) for _, paths in measured)  # what the forecast missed, no allowance made
    out["beta_within"] = sum(b <= s.risk for b in needed)
    every = [excess([p], declared["beta"]) for _, paths in measured for p in paths]
    out["eps_c"] = quantile(every, LEVEL)
    out["calibrated"] = sum(excess(paths, declared["beta"]) <= declared["eps_c"] for _, paths in measured)
    for prefix, rival in (("", "hindsight"), ("plan_", "exact")):
        terms, held = [], 0
        for (d, paths), b in zip(measured, needed, strict=True):
            beta = min(s.risk, b)
            q, chosen = d[rival], d["beams"][name]["selected"]
            against = (paths, chosen, q["realised"], q["uncertainty"])
            terms.append(slacks(*against, risk=s.risk, beta=beta, eps_c=excess(paths, beta)))
            before = slacks(*against, risk=s.risk, beta=declared["beta"], eps_c=declared["eps_c"])
            held += before.holds
        for field in ("eps_r", "eps_u", "regret", "bound"):
            out[f"{prefix}{field}"] = _mean(getattr(term, field) for term in terms)
        out[f"{prefix}bound_least"] = min((term.left for term in terms), default=None)
        out[f"{prefix}bound_broken"] = sum(not term.holds for term in terms)
        if rival == "hindsight":
            out["declared_held"] = held
    return out


def exact_figures(found: Found, cover: Mapping[str, Any], levels: Sequence[float]) -> dict[str, Any]:
    """The metrics of the exact planner, whose states the beams are judged at, and of its forecasts."""
    regrets = [
        d["hindsight"]["realised"] - d["exact"]["realised"]
        for d in found
        if d["complete"] and None not in (d["hindsight"]["realised"], d["exact"]["realised"])
    ]
    out: dict[str, Any] = {"regret": _mean(regrets), "points": cover["points"]}
    out |= {f"covered_{100 * level:g}": inside for level, inside in zip(levels, cover["inside"], strict=True)}
    out |= {name: sum(d["exact"][name] for d in found) for name in ("collapsed", "separated", "first_equal")}
    out["oracle_nodes"] = sum(d["exact"]["nodes"] for d in found)
    return out


def certificate_of(found: Found) -> dict[str, Any]:
    """The certificate tuple of `uc` in a window: counts, means where a figure is defined, the worst bound."""
    beams = [d["beams"]["uc"] for d in found]
    out: dict[str, Any] = {"decisions": len(beams)}
    out |= {name: sum(b[name] for b in beams) for name in COUNTS if name in beams[0]}
    for name in ("margin", "gap", "eps_a", "proxy_slack", "suffix_margin"):
        out[name] = _mean(b[name] for b in beams)
    bounds = [b["regret_bound"] for b in beams]
    out["regret_bound"] = None if None in bounds else max(bounds)
    return out


def weigh(rows: Sequence[dict[str, Any]], beams: Iterable[str]) -> bool:
    """Add to rows of one split the weights by which both classes count the same: over everything (`pool`), for each
    beam, and for each beam within a source. Returns whether both classes occur at all."""
    groups: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    for row in rows:
        for name in beams:
            for key in (("pool",), ("beam", name), ("source", name, row["source"])):
                groups.setdefault(key, []).append((row["decisions"], row["policies"][name]))
    known = {key: _weigh(key[0], own) for key, own in groups.items()}
    return known[("pool",)]


def _weigh(scope: str, figures_of: Sequence[tuple[int, dict[str, Any]]]) -> bool:
    cases, preserved = sum(n for n, _ in figures_of), sum(int(f["preserved"]) for _, f in figures_of)
    both = 0 < preserved < cases
    kept, lost = (cases / (2 * preserved), cases / (2 * (cases - preserved))) if both else (0.0, 0.0)
    for n, figures in figures_of:
        weights = {
            f"weight_{scope}": kept * figures["preserved"] + lost * (n - figures["preserved"]),
            f"preserved_weight_{scope}": kept * figures["preserved"],
        }
        for rule in RULES:
            weights[f"{rule}_weight_{scope}"] = kept * figures[f"{rule}_kept"] + lost * figures[f"{rule}_lost"]
        figures.update(weights if both else dict.fromkeys(weights))
    return both


def _mean(values: Iterable[float | None]) -> float | None:
    known_values = [v for v in values if v is not None]
    return math.fsum(known_values) / len(known_values) if known_values else None
