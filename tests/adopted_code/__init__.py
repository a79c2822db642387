"""Plain NumPy code, as people write it, that knows nothing of chainrule. test_adopt.py adopts it."""
