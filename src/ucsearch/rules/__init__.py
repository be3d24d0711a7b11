"""What the functions of a task may be, and which ones they are."""
