"""What goes wrong in practice, what it costs and what the monitor sees."""
