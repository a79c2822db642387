"""What to write instead of a function of SciPy's that takes plain arrays only: the text of its error.

`IN_MIRROR` names what `chainrule.scipy` has. It is a list of names, since nothing here may load SciPy; a test compares
it with the table of that package.
"""

IN_MIRROR = {
    "scipy.linalg": (
        "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "coshm", "cosm", "det", "eigh", "eigvalsh",
        "expm", "inv", "logm", "norm", "sinhm", "sinm", "solve", "solve_sylvester", "solve_triangular", "sqrtm",
        "svdvals", "tanhm", "tanm", "toeplitz",
    ),
    "scipy.special": ("log_softmax", "logsumexp", "multigammaln", "polygamma", "softmax"),
    "scipy.stats": (
        "beta", "cauchy", "chi2", "expon", "gamma", "laplace", "logistic", "lognorm", "multivariate_normal", "norm",
        "t", "uniform",
    ),
}  # fmt: skip


def scipy_advice(module, name, adopt):
    """Return which function of SciPy's asks for a plain value, and what to write instead; `adopt` is a line of that."""
    home = ".".join(module.split(".")[:2])
    part = home.rpartition(".")[2]
    plain = "take the plain value:  chainrule.value(x)  if no derivative is wanted."
    if home == "scipy.stats":
        return f"scipy.stats: {name}", (
            "use chainrule's, e.g.:  from chainrule.scipy.stats import norm;  norm.logpdf(x);",
            f"of the distributions, chainrule.scipy.stats has {', '.join(IN_MIRROR[home])};",
            adopt,
            plain,
        )
    if name in IN_MIRROR.get(home, ()):
        return f"{home}.{name}", (
            f"use chainrule's:  from chainrule.scipy import {part};  {part}.{name}(...);",
            adopt,
            plain,
        )
    return f"{home}.{name}", (
        "write it with NumPy's functions, and what chainrule.scipy has;",
        "of a function of numbers or arrays that holds this call, take differences:  chainrule.numeric(f);",
        plain,
    )
