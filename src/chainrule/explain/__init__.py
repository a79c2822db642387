"""A function shown step by step: its evaluation trace, as an object, as text, and as the ``chainrule`` command."""

from chainrule.explain.explanation import Explanation, explain

__all__ = ["Explanation", "explain"]
