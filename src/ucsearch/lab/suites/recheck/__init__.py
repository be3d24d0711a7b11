"""Evidence checked without the run: derived again from its rows, or a share run again from the data."""
