"""What rows of the test come to: bounds, power, conditions, verdicts and sentences."""
