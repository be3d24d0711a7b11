"""Decide, record, verify: an action leaves only with a proof, and anyone can check the proof afterwards.

Run with `python examples/certify.py`. The task lies at module level, so that the verifier can be told where to find it:
`certify:TASK`, this file's name and the object's.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import ucsearch as uc
from ucsearch.decision import Filing
from ucsearch.tasks import LeadTimeInventory
from ucsearch.verify.__main__ import main as verify

INVENTORY = LeadTimeInventory(lead_time=2, capacity=20.0, ramp=3.0, unit_cost=0.5)
TASK = INVENTORY.task()


def main() -> None:
    now = datetime(2024, 5, 20, 6, tzinfo=UTC)
    state = INVENTORY.state(on_hand=4.0, open_orders=(3.0, 2.0))
    trace = uc.Trace.from_mean([3.0, 4.0, 5.0, 5.0], [1.0, 1.2, 1.5, 1.5], issued="2024-05-20T04:00:00+00:00")

    # What must hold before an action leaves: a proof, and a forecast that is not older than six hours.
    gate = uc.Gate(certificate=True, max_trace_age_s=6 * 3600)
    policy = uc.CertifiedBeam(depth=4, width=9, risk=0.5)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decisions.db"
        # With a log, the decision is on disk before it is handed over.
        with uc.AuditLog(path, clock=lambda: now) as log:
            decision = uc.decide(
                TASK,
                state,
                trace,
                policy,
                gate=gate,
                now=now,
                log=Filing(log, series="SKU-1", where="certify:TASK"),
            )
            print(decision.explain())
            print(f"{log.count()} entry on disk; {decision.outcome.value.lower()}: order {decision.action:g}")

        # The verifier shares no code with the search. It replays the rules and derives every claim again.
        code = verify([str(path), "--task", "certify:TASK"])
    print(f"verifier's exit code: {code}")


if __name__ == "__main__":
    main()
