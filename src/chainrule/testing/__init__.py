"""Central differences, `check_grads`, and a sample of arguments for every rule."""

from chainrule.testing.check import check_grads

__all__ = ["check_grads"]
