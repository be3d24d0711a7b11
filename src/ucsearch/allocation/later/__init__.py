"""Limits of later steps: what can be reached, its value at prices, good prices, and simulated paths."""
