"""Sample settings and files for a start."""
