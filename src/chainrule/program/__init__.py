"""A recorded function: a list of equations. The tables of `chainrule.explain` are made from it."""
