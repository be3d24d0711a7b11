"""What is done with decisions that a log holds: explain, what-if, override, schedule."""
