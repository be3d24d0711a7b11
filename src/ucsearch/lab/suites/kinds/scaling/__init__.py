"""How work and time grow with depth, width and members."""
