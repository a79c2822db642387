"""Loops as loops: the repeated parts of a recorded run, rolled back into one body."""
