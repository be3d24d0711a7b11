"""Many series walked forward: selection on validation, one look at the test part, both gates."""
