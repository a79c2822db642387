"""``python -m chainrule``: the ``chainrule`` command."""

from chainrule.explain.command import main

if __name__ == "__main__":
    main()
