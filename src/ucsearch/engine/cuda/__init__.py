"""Kernels on a GPU: `search_panel(..., engine="cuda")`. Needs the extra `cuda` and, unless simulated, a GPU."""
