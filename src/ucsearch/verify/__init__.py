"""A verifier that trusts nobody: it derives every claim of a recorded decision again from the recorded inputs.

It reads the formats by itself, calls the task's plain functions, and shares no code with search, certificate,
decision or records. `docs/reference/record.md` describes what is checked, well enough to write another one.
"""

from ucsearch.verify.api import BUDGET, LARGEST_BUDGET, verify_file, verify_files, verify_log, verify_record
from ucsearch.verify.trust import NoTask, find_task
from ucsearch.verify.verdict import Verdict

__all__ = [
    "BUDGET",
    "LARGEST_BUDGET",
    "NoTask",
    "Verdict",
    "find_task",
    "verify_file",
    "verify_files",
    "verify_log",
    "verify_record",
]
