"""What is read from the log to be shown."""
