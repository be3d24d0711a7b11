"""Exit codes of all commands. 0 is done; docs/cli.md says beside each command what its others mean.

`ucsearch verify` has the verifier's own (ucsearch.verify shares no code with us): 1 invalid, 2 malformed, 3 weaker.
"""

from __future__ import annotations

__all__ = ["NEEDS_A_PERSON", "STOPPED", "STRICT", "UNUSABLE", "WEAKER"]

NEEDS_A_PERSON = 1  # it ran, and the answer is no or not all: altered, not allowed, left out, on hold, failed
UNUSABLE = 2  # nothing was done: settings, files or names that cannot be used
STRICT = 3  # `--strict` refused what would have been left out
WEAKER = 3  # as of `ucsearch verify`: right in itself, but nobody vouches for what it rests on
STOPPED = 130  # by the user; a shell's 128 + SIGINT
