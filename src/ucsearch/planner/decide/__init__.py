"""Decisions of all series of a file."""
