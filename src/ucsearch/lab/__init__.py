"""For researchers: comparators, public data, Gymnasium, learned policies and evaluation suites."""
