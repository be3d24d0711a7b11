"""Fail-closed dispatch: a searched action leaves only through the gate; otherwise the fallback leaves, and says so."""
