"""Everything shown runs: the code of README.md and of every page under docs/.

A fenced block of ``python`` with ``>>>`` prompts is a doctest. One without prompts is a script; a block of ``text``
right after it is what it prints. A ``console`` block shows commands after ``$``: those of ``chainrule`` run, and print
what is shown. The blocks of a page share one namespace, from top to bottom. ``...`` stands for anything. A block of
``py`` quotes the source: its lines stand somewhere under src/.
"""

import contextlib
import doctest
import io
import linecache
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chainrule import errors

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = list(dict.fromkeys(PAGES))
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
FLAGS = doctest.ELLIPSIS
SAME = doctest.OutputChecker().check_output


def blocks(page):
    """Yield (language, text, line of the page) of each fenced block of a page."""
    source = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(source):
        indent = match["indent"]
        text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
        yield match["language"], text, source.count("\n", 0, match.start()) + 2


def run_doctest(text, scope, name, line):
    """Run one block with prompts in `scope`; return the report of its failures, empty if there are none."""
    test = doctest.DocTestParser().get_doctest(text, scope, f"{name}:{line}", name, line - 1)
    test.globs = scope  # the parser copies; a page's blocks share one namespace
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.write, clear_globs=False)
    return report.getvalue()


def run_script(text, scope, name, line):
    """Run one block without prompts in `scope` as if it were a file of its own; return what it printed."""
    printed = io.StringIO()
    linecache.cache["example.py"] = len(text), None, text.splitlines(True), "example.py"  # for what shows source lines
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "example.py", "exec"), scope)
    except Exception as error:
        error.add_note(f"in the block at {name}:{line}")
        raise
    return printed.getvalue()


def commands(text):
    """Yield (command, output shown) of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def words(text):
    """Return what is printed apart from numbers and from the widths of columns, which depend on the last digits."""
    return re.sub("─+", "─", NUMBER.sub("#", text)).split()


def numbers(text):
    return [float(n) for n in NUMBER.findall(text)]


def differs(shown, printed):
    return "" if SAME(shown, printed, FLAGS) else f"shown:\n{shown}\nprinted:\n{printed}\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_the_page_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    name = page.relative_to(ROOT).as_posix()
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__main__"}
    printed, failures = None, []
    for language, text, line in blocks(page):
        if language == "python" and ">>>" in text:
            failures.append(run_doctest(text, scope, name, line))
            printed = None
        elif language == "python":
            printed = run_script(text, scope, name, line)
        elif language == "text" and printed is not None:
            report = differs(text, printed)
            failures.append(f"{name}:{line}\n{report}" if report else "")
            printed = None
    failures = [f for f in failures if f]
    assert not failures, "\n".join(failures)


CONSOLE = [
    pytest.param(command, shown, id=f"{page.relative_to(ROOT).as_posix()}:{line}")
    for page in PAGES
    for language, text, line in blocks(page)
    if language == "console"
    for command, shown in commands(text)
    if command.startswith("chainrule ")
]


@pytest.mark.parametrize(("command", "shown"), CONSOLE)
def test_command_prints_what_is_shown(command, shown, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert words(done.stdout) == words(shown)
    np.testing.assert_allclose(numbers(done.stdout), numbers(shown), rtol=1e-5)  # as exact as the shortest shown


def test_links_between_pages_lead_somewhere():
    dead = []
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert not dead


def test_continuous_integration_runs_the_test_commands_of_the_readme():
    command = "python -m pip install -e '.[test]' && python -m pytest"
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "zh").glob("0*.md")), ids=lambda page: page.name)
def test_translation_shows_the_same_code(page):
    original = ROOT / "docs" / "tutorial" / page.name
    assert [b[:2] for b in blocks(page)] == [b[:2] for b in blocks(original)]


def test_every_error_has_its_place_on_the_errors_page():
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.ChainruleError)]
    assert sorted(headings) == sorted(c.__name__ for c in classes if c is not errors.ChainruleError)


def test_quoted_source_stands_in_the_source():
    squeeze = re.compile(r"\s+").sub
    source = squeeze(" ", "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py")))
    quoted = [
        line for page in PAGES for language, text, _ in blocks(page) if language == "py" for line in text.splitlines()
    ]
    assert [line for line in quoted if squeeze(" ", line).strip() not in source] == []
