"""Central differences, `check_grads`, and a sample of arguments for every rule."""
