"""Policies against optima that are known: chains small enough to be solved."""
