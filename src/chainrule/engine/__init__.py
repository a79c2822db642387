"""How derivatives flow: levels, boxes, rules, the tape, duals. Knows no NumPy function by name."""
