"""What a function reads from its surroundings: globals, closures, defaults, attributes."""

from collections.abc import Callable


class Surroundings:
    """What a function and the functions that it calls found outside of their arguments, to be compared later."""

    def __init__(self, f: Callable) -> None:
        self.checks = ()

    def same(self) -> bool:
        """Tell whether all of it is what it was."""
        for check in self.checks:
            if not check():
                return False
        return True
