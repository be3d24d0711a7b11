"""What a suite fixes before its test is opened, and what validation chooses."""
