"""Text of a traced value: what depends on it is bound to the value, what is only written out is not."""

import contextlib
import io
import logging
import sys
import warnings

import numpy as np
import pytest

import chainrule as cr

TABLE = {"1": 2.0, "2": 3.0, "3": -5.0}
LOG = logging.getLogger(__name__)


def by_format(x):
    """Look up a factor."""
    return x * TABLE[f"{x:.0f}"]


def by_method(x):
    """Look it up by the format method of text."""
    return x * TABLE["{:.0f}".format(x)]  # noqa: UP032 (another way to the text)


def by_str(x):
    """Look it up by a part of the text of a float."""
    return x * TABLE[str(np.round(x))[0]]


def by_answer(x):
    """Take a way by what the text begins with."""
    return x * x if repr(1.0 * x)[-1] == "5" else -x


def by_a_call(x):
    """Keep the text in a container, in a statement of its own."""
    seen = {}
    seen.setdefault(f"{x:.0f}", 1.0)
    return x * sum(TABLE[k] for k in seen)


def by_a_walrus(x):
    """Keep what is printed."""
    print(key := f"{x:.0f}")
    return x * TABLE[key]


def by_an_error(x):
    """Ask a lookup that fails for the answer."""
    try:
        return x * {"1": 3.0}[f"{x:.0f}"]
    except KeyError:
        return x * x


class Notes:
    """What has the methods of a file and a logger, and keeps what they are given."""

    def write(self, text):
        self.text = text

    info = write


def by_a_method_of_ones_own(x):
    """Write the text to an object that is read."""
    notes = Notes()
    notes.info(f"{x:.0f}")
    return x * TABLE[notes.text]


def by_a_file(x):
    """Print to a file in memory."""
    file = io.StringIO()
    print(f"{x:.0f}", end="", file=file)
    return x * TABLE[file.getvalue()]


def by_writing(x):
    """Write to a file in memory."""
    file = io.StringIO()
    file.write(f"{x:.0f}")
    return x * TABLE[file.getvalue()]


def by_redirecting(x):
    """Print while what is printed is kept."""
    with contextlib.redirect_stdout(io.StringIO()) as file:
        print(f"{x:.0f}", end="")
    return x * TABLE[file.getvalue()]


def by_a_warning(x):
    """Warn while warnings are kept."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(f"{x:.0f}", stacklevel=1)
    return x * TABLE[str(caught[0].message)]


def by_a_message(x):
    """Catch an error, and read its message."""
    try:
        raise ValueError(f"{x:.0f}")
    except ValueError as error:
        return x * TABLE[str(error)]


def by_a_call_inside(x):
    """Hand the text on to another function, within the statement that prints."""
    notes = Notes()
    print(notes.write(f"{x:.0f}"))
    return x * TABLE[notes.text]


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize(
    "f",
    [
        by_format, by_method, by_str, by_answer, by_a_call, by_a_walrus, by_an_error, by_a_method_of_ones_own,
        by_a_file, by_writing, by_redirecting, by_a_warning, by_a_message, by_a_call_inside,
    ],
)  # fmt: skip
def test_what_depends_on_text_depends_on_the_value(f, backend):
    for t in (lambda f: f, cr.grad):
        g = cr.compile(t(f), backend=backend)
        for x in (1.0, 2.0, 1.0, 3.0, 1.25, 2.0):
            assert g(x) == t(f)(x)


def written(x):
    """Write out numbers, in ways that nothing depends on."""
    print(f"x = {x:.3f}", x)
    LOG.warning("x = %s and %s", x, -x)
    LOG.warning(f"{np.sin(x)}")
    logging.getLogger(__name__).warning("%s" % x)  # noqa: UP031 (another way to the text)
    print("x", str(x), *[f"{v:.1f}" for v in (x, 2 * x)], file=sys.stdout)
    sys.stderr.write("{:.1f}".format(x))  # noqa: UP032
    if x > 100:
        raise ValueError(f"{x} is too large")
    return x * x


def test_what_is_written_out_binds_no_path(capsys, monkeypatch):
    lines = io.StringIO()
    monkeypatch.setattr(LOG, "propagate", False)  # pytest's own handler keeps what is logged
    monkeypatch.setattr(LOG, "handlers", [logging.StreamHandler(lines)])
    g = cr.compile(cr.grad(written))
    assert [g(x) for x in (1.0, 2.0, 5.5)] == [2.0, 4.0, 11.0]
    assert g.stats().traces == 1
    assert "x = 1.000 1.0" in capsys.readouterr().out
    assert "x = 1.0 and -1.0" in lines.getvalue()
    with pytest.raises(ValueError, match=r"101.0 is too large"):
        cr.compile(written)(101.0)


def test_a_program_to_read_does_not_depend_on_text():
    assert "TABLE" not in cr.flat(written)(1.0).source
    with pytest.raises(cr.errors.ConversionError, match=r"text of a traced value(.|\n)*by_format(.|\n)*print"):
        cr.flat(by_format)(1.0)
    with pytest.raises(cr.errors.ConversionError, match="text"):
        cr.record(by_answer)(1.5)


def test_text_made_where_there_is_no_source_binds_its_path():
    space = {}
    exec("def f(x):\n    print(f'{x}')\n    return 2 * x", space)
    g = cr.compile(space["f"])
    assert [g(1.0), g(2.0), g(1.0)] == [2.0, 4.0, 2.0]
    assert g.stats().traces == 2
