"""Certificates: what is proved about a searched first action, and what is not."""
