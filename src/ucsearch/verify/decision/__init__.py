"""One decision, derived again: inputs, searches, claims, gate and outcome."""
