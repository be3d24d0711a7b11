"""Bounded and exact search over feasible paths, in two engines that give the same bytes."""
