"""The page in a browser: stepped through, read, used without a mouse, narrow, dark, Chinese, and with hostile names.

Expected values are closed forms. Each test opens a page in headless Chromium, and fails if that page writes an error to
the console or asks the network for anything.
"""

import json
import math
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

import chainrule as cr
from chainrule.explain.data import data as data_of
from chainrule.explain.page import SCRIPTS, page, source

X = math.pi / 16
S, C, E = math.sin(4 * X), math.cos(4 * X), math.exp(-2 * math.sin(4 * X) ** 2)
VALUES = [X, 4 * X, S, S**2, -2 * S**2, E, X - E]
TANGENTS = [1, 4, 4 * C, 8 * S * C, -16 * S * C, -16 * S * C * E, 1 + 16 * S * C * E]
ADJOINTS = [1 + 16 * S * C * E, 4 * S * C * E, 4 * S * E, 2 * E, -E, -1, 1]


def note3(x):
    angle = 4 * x
    s = np.sin(angle)
    bell = np.exp(-2 * s**2)
    return x - bell


def network(params, x, y):
    h = np.tanh(x @ params["W1"] + params["b1"])
    z = h @ params["W2"]
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.sum(y * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True)))) / len(x)


def two_by_two(x, y):
    return np.stack([x * y, np.sin(x)])


def network_data():
    rng = np.random.default_rng(1)
    params = {"W1": rng.normal(size=(4, 16)), "b1": np.zeros(16), "W2": rng.normal(size=(16, 3))}
    return data_of(cr.explain(network, params, rng.normal(size=(8, 4)), np.eye(3)[rng.integers(0, 3, 8)]), graph=False)


def chain(count):
    """Return the data of x -> sin(sin(...)) + ..., of `count` steps: made here, so that only the page is measured."""
    steps = [step("v1", "input", None, "x", 0.5, [])]
    values, local = [0.5], []
    for k in range(2, count + 1):
        a, b = k - 1, max(1, k - 3)
        values.append(math.sin(values[a - 1]) if k % 2 else values[a - 1] * 0.5 + values[b - 1] * 0.5)
        text = f"sin(v{a})" if k % 2 else f"mean(v{a}, v{b})"
        parents = [a] if k % 2 else list(dict.fromkeys([a, b]))
        local += [(k, p, math.cos(values[a - 1]) if k % 2 else (0.5 if len(parents) > 1 else 1.0)) for p in parents]
        steps.append(step(f"v{k}", "call", 3 - k % 2, text, values[-1], [f"v{p}" for p in parents]))
    adjoints, paths = {count: 1.0}, {}
    for k, p, d in reversed(local):
        adjoints[p] = adjoints.get(p, 0.0) + adjoints[k] * d
        paths.setdefault(f"v{p}", []).append(
            {"from": f"v{k}", "upstream": f"{adjoints[k]:.6g}", "local": f"{d:.6g}",
             "contribution": f"{adjoints[k] * d:.6g}"}
        )  # fmt: skip
    order = [f"v{k}" for k in range(count, 0, -1)]
    texts = {f"v{k}": f"{a:.6g}" for k, a in adjoints.items()}
    return {
        "title": "chain(x)", "function": "chain", "inputs": ["v1"], "outputs": [f"v{count}"], "flat": None,
        "source": {"file": "chain.py", "first": 1, "lines": ["def chain(x):", "    x = sin(x)", "    x = (x + y) / 2"]},
        "steps": steps, "forward": {"directions": [], "tangents": {}}, "notes": [], "nonfinite": None, "kinks": [],
        "backward": [{"output": "chain", "order": order, "adjoints": texts, "paths": paths}],
    }  # fmt: skip


def step(name, kind, line, text, x, parents):
    return {
        "id": name, "kind": kind, "role": kind, "name": text if kind == "input" else None, "line": line, "op": "f",
        "where": f"chain.py:{line}", "text": text, "gate": "function", "shape": [], "dtype": "float64",
        "value": f"{x:.6g}", "norm": abs(x), "parents": parents, "jacobian": None,
    }  # fmt: skip


# -- the browser ---------------------------------------------------------------------------------------------


def chromium(playwright):
    """Return the path of a Chromium: that of the system, else the one that playwright has downloaded."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if shutil.which(name):
            return shutil.which(name)
    if Path(playwright.chromium.executable_path).exists():
        return playwright.chromium.executable_path
    raise RuntimeError(
        "the page's tests need Chromium, and there is none: run  apt-get install chromium  or  "
        "python -m playwright install --with-deps chromium"
    )


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(playwright), args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open pages; at the end none of them may have had an error, or asked for anything but itself."""
    opened, wrong = [], []

    def open_page(html, width=1280, height=860, **context):
        file = tmp_path / f"page{len(opened)}.html"
        file.write_text(html, encoding="utf-8")
        made = browser.new_context(viewport={"width": width, "height": height}, **context)
        made.set_default_timeout(5000)
        tab = made.new_page()
        opened.append(made)
        tab.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda e: wrong.append(str(e)))
        tab.on("request", lambda r: wrong.append(r.url) if r.url != file.as_uri() else None)
        tab.goto(file.as_uri())
        return tab

    yield open_page
    for context in opened:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def note():
    return cr.explain(note3, X).to_html()


def number(x):
    return f"{x:.6g}"


def cell(tab, column, row):
    return tab.locator(f"#row-{row} .cell-{column}")


def column(tab, name):
    return tab.locator(f"#table .row .cell-{name}").all_inner_texts()


def go(tab, frame):
    """Set the slider, as a hand would."""
    tab.locator("#slider").fill(str(frame))


def boxes(tab, kind):
    return tab.locator(f"#panel .box{kind} > .number").all_inner_texts()


# -- what it shows -------------------------------------------------------------------------------------------


def test_each_value_and_then_each_gradient_appears_as_it_is_computed(show, note):
    tab = show(note)
    assert column(tab, "value") == column(tab, "gradient") == [""] * 7
    for k in range(7):
        tab.click("#next")
        assert column(tab, "value") == [number(v) for v in VALUES[: k + 1]] + [""] * (6 - k)
        assert column(tab, "gradient") == [""] * 7
        expect(tab.locator("#table .row.now .cell-step")).to_contain_text(f"v{k + 1}")
        expect(tab.locator("#panel .pass")).to_have_text(f"Forward pass · step {k + 1} of 7")
    for k in range(7):
        tab.click("#next")
        assert column(tab, "gradient") == [""] * (6 - k) + [number(a) for a in ADJOINTS[6 - k :]]
        expect(tab.locator("#panel .pass").first).to_have_text(f"Backward pass · step {k + 1} of 7")
        expect(tab.locator("#panel .box.total > .number")).to_have_text(number(ADJOINTS[6 - k]))
    expect(tab.locator("#count")).to_have_text("14 / 14")
    expect(tab.locator("#next")).to_be_disabled()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#count")).to_have_text("14 / 14")
    tab.click("#first")
    assert column(tab, "value") == column(tab, "gradient") == [""] * 7


def test_upstream_times_local_is_downstream_and_the_paths_are_added_up(show, note):
    tab = show(note)
    go(tab, 11)  # v4 = v3 ** 2, whose gradient comes from v5 = -2 * v4
    assert boxes(tab, "") == [number(-E), "-2", number(2 * E)]
    go(tab, 14)  # x, used by v7 and by v2
    upstream, local, downstream = [1, 4 * S * C * E], [1, 4], [1, 16 * S * C * E]
    rows = tab.locator("#panel .path")
    assert rows.count() == 2
    for k in range(2):
        texts = rows.nth(k).locator(".number").all_inner_texts()
        assert texts == [number(upstream[k]), number(local[k]), number(downstream[k])]
    expect(tab.locator("#panel .box.total > .number")).to_have_text(number(sum(downstream)))
    expect(tab.locator("#panel .result")).to_contain_text(number(1 + 16 * S * C * E))
    expect(tab.locator("#panel .facts")).to_contain_text("Used 2 times")


def test_forward_mode_shows_dual_numbers(show, note):
    tab = show(note)
    tab.click("#mode-forward")
    for k in range(7):
        tab.click("#next")
        assert column(tab, "gradient") == [number(t) for t in TANGENTS[: k + 1]] + [""] * (6 - k)
        assert boxes(tab, ".value.total") == [number(VALUES[k])]
        assert boxes(tab, ".gradient.total")[0] == number(TANGENTS[k])
    expect(tab.locator("#count")).to_have_text("7 / 7")
    assert boxes(tab, ".local") == ["1", "-1"]  # v7 = v1 - v6


def test_the_cards_of_the_graph_show_what_is_computed(show, note):
    tab = show(note)
    assert tab.locator("#graph .card").count() == 7
    assert tab.locator("#graph .edge").count() == 7
    go(tab, 3)
    now = tab.locator("#graph .card.now")
    assert now.locator(".head").text_content() == "sin(v2)"
    assert now.locator(".value").text_content() == f"{S:.5g}"
    assert tab.locator("#graph .edge.now").count() == 1
    go(tab, 14)
    assert tab.locator("#graph .card.now .gradient").text_content() == f"v̄1 = {ADJOINTS[0]:.4g}"
    assert tab.locator("#graph .edge.now.backward").count() == 2


def test_values_of_arrays_and_of_several_outputs_and_directions(show):
    tab = show(cr.explain(two_by_two, 2.0, 3.0).to_html())
    tab.click("#last")
    expect(tab.locator("#panel .result")).to_contain_text("∂two_by_two[0]/∂x")
    expect(tab.locator("#panel .result .number").nth(0)).to_have_text("3")
    tab.select_option("#output", "1")
    tab.click("#last")
    expect(tab.locator("#panel .result .number").nth(0)).to_have_text(number(math.cos(2)))
    tab.click("#mode-forward")
    tab.select_option("#direction", label="y")
    tab.keyboard.press("End")
    row = tab.locator("#table .row", has_text="v1 * v2")
    expect(row.locator(".cell-gradient")).to_have_text("2")  # ∂(xy)/∂y = x


def test_an_array_is_shown_by_shape_norm_and_first_entries(show):
    w = np.arange(1.0, 13.0).reshape(3, 4)
    tab = show(cr.explain(lambda w: np.sum(w**3), w, mode="reverse").to_html())
    tab.click("#last")
    gradient = 3 * w**2
    expect(cell(tab, "gradient", 0)).to_have_text(f"3×4 ‖{np.linalg.norm(gradient):.4g}‖")
    expect(cell(tab, "gradient", 0)).to_have_attribute("title", re.compile(": 3, 12, 27, …$"))
    expect(tab.locator("#panel .total .entries")).to_have_text("3, 12, 27, …")


def test_faults_are_marked(show):
    data = data_of(cr.explain(note3, X), graph=False)
    data |= {"nonfinite": "v5", "kinks": [{"id": "v3", "what": "a tie of <b>maximum</b>"}], "notes": ["a note"]}
    data["steps"][4]["norm"] = math.nan  # no number of JSON
    tab = show(page(data))
    expect(tab.locator("#notes")).to_contain_text("First value that is not finite: v5 = -2 * v4")
    expect(tab.locator("#notes")).to_contain_text("a note")
    expect(tab.locator("#row-4")).to_have_class(re.compile("bad"))
    assert tab.locator("#graph .card.bad, #graph .card.kink").count() == 2
    go(tab, 3)
    expect(tab.locator("#panel .kink")).to_have_text("Kink: a tie of <b>maximum</b>")


# -- linked views --------------------------------------------------------------------------------------------


def test_pointing_at_one_view_lights_the_others(show, note):
    tab = show(note)
    line = tab.locator("#source .line", has_text="np.sin(angle)")
    tab.hover("#row-2")
    expect(line).to_have_class(re.compile("hovered"))
    expect(tab.locator("#graph .card.hovered .head")).to_have_text("sin(v2)")
    line.hover()
    expect(tab.locator("#row-2")).to_have_class(re.compile("hovered"))
    tab.hover("#title")
    assert tab.locator(".hovered").count() == 0
    tab.locator("#graph .card", has_text="sin(v2)").hover()
    expect(tab.locator("#row-2")).to_have_class(re.compile("hovered"))


def test_choosing_in_one_view_chooses_in_the_others_and_goes_there(show, note):
    tab = show(note)
    tab.locator("#graph .card", has_text="v3 ** 2").click()
    expect(tab.locator("#row-3")).to_have_class(re.compile("chosen"))
    expect(tab.locator("#source .line.chosen")).to_contain_text("bell =")
    expect(tab.locator("#panel")).to_contain_text("not computed yet")
    tab.click("#panel .go")
    expect(tab.locator("#count")).to_have_text("4 / 14")
    assert boxes(tab, ".total") == [number(S**2)]
    tab.click("#row-6", click_count=2)
    expect(tab.locator("#count")).to_have_text("7 / 14")
    tab.locator("#source .line", has_text="angle =").click()
    expect(tab.locator("#row-1")).to_have_class(re.compile("chosen"))
    tab.keyboard.press("Escape")
    assert tab.locator(".chosen").count() == 0


def test_the_flat_gradient_follows_the_pass(show, note):
    tab = show(note)
    tab.click("#tab-flat")
    go(tab, 3)
    assert [t.strip() for t in tab.locator("#source .now .text").all_inner_texts()] == ["s = np.sin(angle)"]
    go(tab, 12)
    assert any("d_s = " in t for t in tab.locator("#source .now .text").all_inner_texts())


def test_search_finds_steps_names_and_lines(show, note):
    tab = show(note)
    tab.fill("#search", "sin")
    expect(tab.locator("#found")).to_have_text("1 of 1")
    expect(tab.locator("#row-2")).to_have_class(re.compile("chosen"))
    tab.fill("#search", "bell")
    expect(tab.locator("#found")).to_have_text("1 of 4")  # the three steps of its line, and the one that uses it
    tab.press("#search", "Enter")
    expect(tab.locator("#found")).to_have_text("2 of 4")
    tab.fill("#search", "nowhere")
    expect(tab.locator("#found")).to_have_text("none")
    tab.press("#search", "Escape")
    assert tab.locator(".found").count() == 0


def test_zoom_and_pan_by_wheel_buttons_keys_and_drag(show, note):
    tab = show(note)

    def view():
        x, y, scale = map(
            float, re.findall(r"-?[\d.]+(?:e-\d+)?", tab.locator("#graph .stage").get_attribute("transform"))
        )
        return x, y, scale

    start = view()
    tab.click("#zoom-in")
    assert view()[2] == pytest.approx(1.25 * start[2])
    tab.click("#zoom-fit")
    assert view() == pytest.approx(start)
    tab.hover("#graph")
    tab.mouse.wheel(0, -200)
    expect(tab.locator("#graph .stage")).not_to_have_attribute(
        "transform", f"translate({start[0]} {start[1]}) scale({start[2]})"
    )
    assert view()[2] > start[2]
    tab.focus("#graph")
    tab.keyboard.press("0")
    tab.keyboard.press("Shift+ArrowLeft")
    assert view()[0] == pytest.approx(start[0] + 40)
    tab.keyboard.press("0")
    box = tab.locator("#graph").bounding_box()
    tab.mouse.move(box["x"] + 20, box["y"] + 20)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 70, box["y"] + 50, steps=4)
    tab.mouse.up()
    assert view()[:2] == pytest.approx((start[0] + 50, start[1] + 30))


def test_pinching_zooms(show, note):
    tab = show(note, has_touch=True)
    before = tab.locator("#graph .stage").get_attribute("transform")
    box = tab.locator("#graph").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = tab.context.new_cdp_session(tab)

    def fingers(kind, apart):
        points = [] if kind == "touchEnd" else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", 30)
    for apart in (40, 60, 80):
        fingers("touchMove", apart)
    fingers("touchEnd", 0)
    after = tab.locator("#graph .stage").get_attribute("transform")
    scale = [float(re.search(r"scale\((.*)\)", t)[1]) for t in (before, after)]
    assert scale[1] > 1.5 * scale[0]


# -- keyboard, screen reader, motion -------------------------------------------------------------------------


def test_everything_by_keyboard_alone(show, note):
    tab = show(note)
    count = tab.locator("#count")
    press = tab.keyboard.press
    press("ArrowRight")
    press("ArrowRight")
    expect(count).to_have_text("2 / 14")
    press("ArrowLeft")
    expect(count).to_have_text("1 / 14")
    press("End")
    expect(count).to_have_text("14 / 14")
    assert column(tab, "gradient") == [number(a) for a in ADJOINTS]
    press("Home")
    expect(count).to_have_text("0 / 14")
    press("m")
    expect(count).to_have_text("0 / 7")
    press("m")
    reached = []
    for _ in range(24):
        press("Tab")
        reached.append(tab.evaluate("document.activeElement.id"))
    wanted = ["search", "language", "theme", "help", "mode-reverse", "mode-forward", "first", "back", "play", "next"]
    wanted += ["last", "slider", "speed", "panel", "tab-source", "tab-flat", "source", "zoom-out", "zoom-fit"]
    wanted += ["zoom-in", "graph", "table"]
    assert reached[1 : 1 + len(wanted)] == wanted  # after the link that skips to the controls
    tab.focus("#table")
    for _ in range(3):
        press("ArrowDown")
    expect(tab.locator("#row-2")).to_have_attribute("aria-selected", "true")
    expect(tab.locator("#table")).to_have_attribute("aria-activedescendant", "row-2")
    press("Enter")
    expect(count).to_have_text("3 / 14")
    tab.focus("#source")
    press("ArrowDown")
    press("Enter")
    expect(count).to_have_text("4 / 14")
    tab.focus("#graph")
    press("ArrowUp")
    expect(tab.locator("#graph .card.chosen .head")).to_have_text("sin(v2)")
    press("/")
    assert tab.evaluate("document.activeElement.id") == "search"
    press("Escape")
    press("?")
    expect(tab.locator("#keys")).to_be_visible()
    press("Escape")
    expect(tab.locator("#keys")).to_be_hidden()


def test_focus_is_seen(show, note):
    tab = show(note)
    for _ in range(6):
        tab.keyboard.press("Tab")
        outline = "(e => getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth)(document.activeElement)"
        assert tab.evaluate(outline) in ("solid2px", "auto1px")


def test_play_and_pause(show, note):
    tab = show(note)
    tab.select_option("#speed", "20")
    tab.focus("#table")
    tab.keyboard.press("Space")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Pause")
    expect(tab.locator("#count")).to_have_text("14 / 14")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Play")
    tab.select_option("#speed", "0.5")
    tab.click("#play")  # from the start again
    expect(tab.locator("#count")).to_have_text("0 / 14")
    tab.click("#play")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Play")


def test_steps_are_announced(show, note):
    tab = show(note)
    live = tab.locator("#live[aria-live=polite]")
    go(tab, 3)
    expect(live).to_have_text(f"v3 (s) = sin(v2) = {number(S)}")
    go(tab, 14)
    expect(live).to_have_text(f"gradient of v1 = {number(ADJOINTS[0])}, sum of 2 paths".replace("v1", "v1 (x)"))
    expect(tab.locator("#slider")).to_have_attribute("aria-valuetext", "Backward pass · step 7 of 7")


def test_reduced_motion(show, note):
    moves = "getComputedStyle(document.querySelector('#panel .total')).animationName"
    for wish, name in (("no-preference", "arrive"), ("reduce", "none")):
        tab = show(note, reduced_motion=wish)
        tab.click("#next")
        assert tab.evaluate(moves) == name


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_nothing(show, scheme, width):
    tab = show(page(network_data()), width=width, color_scheme=scheme, reduced_motion="reduce")
    axe = Axe()

    def check(where):
        found = axe.run(tab).response["violations"]
        assert [(where, v["id"], v["nodes"][0]["html"]) for v in found] == []

    go(tab, 9)
    tab.fill("#search", "matmul")
    check("with matches, and a step chosen")
    tab.keyboard.press("Escape")
    tab.click("#last")
    tab.click("#back")
    tab.click("#tab-flat")
    check("in the backward pass")
    tab.click("#language")
    tab.click("#help")
    check("in Chinese, with help")


def test_axe_finds_nothing_in_forward_mode(show, note):
    tab = show(note, reduced_motion="reduce")
    tab.click("#mode-forward")
    tab.click("#last")
    assert [v["id"] for v in Axe().run(tab).response["violations"]] == []


# -- looks and languages -------------------------------------------------------------------------------------


def lightness(tab):
    red, green, blue = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)")
    return (int(red) + int(green) + int(blue)) / 3


def test_dark_as_the_system_wishes_and_by_the_button(show, note):
    tab = show(note, color_scheme="dark")
    assert lightness(tab) < 40
    tab.click("#theme")
    assert lightness(tab) > 220
    tab = show(note, color_scheme="light")
    assert lightness(tab) > 220
    tab.emulate_media(color_scheme="dark")
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    assert lightness(tab) < 40


def test_on_a_phone_all_is_below_one_another_and_the_controls_at_hand(show, note):
    tab = show(note, width=360, height=740, has_touch=True, is_mobile=True)
    go(tab, 14)
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    tops = [tab.locator(f"#{k}").bounding_box()["y"] for k in ("panel", "source-view", "graph-view", "table-view")]
    assert tops == sorted(tops)
    for name in ("first", "back", "play", "next", "last", "slider", "mode-forward", "speed"):
        expect(tab.locator(f"#{name}")).to_be_in_viewport()
        box = tab.locator(f"#{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    tab.tap("#back")
    expect(tab.locator("#count")).to_have_text("13 / 14")


def test_chinese(show, note):
    tab = show(note)
    go(tab, 14)
    tab.click("#language")
    assert tab.evaluate("document.documentElement.lang") == "zh-CN"
    expect(tab.locator("#panel .pass").first).to_have_text("反向传播 · 第 7 步，共 7 步")
    expect(tab.locator("#panel .sum")).to_contain_text("2 条路径相加")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "播放")
    words = [t for t in tab.locator("[data-word]").all_inner_texts() if t]
    assert words
    assert not [t for t in words if re.search("[A-Za-z]", t)]
    tab.click("#language")
    expect(tab.locator("#panel .sum")).to_contain_text("2 paths, added up")
    assert show(note, locale="zh-CN").evaluate("document.documentElement.lang") == "zh-CN"


def test_both_languages_have_the_same_words():
    english, chinese = source("words.js").split("\n  zh: {")
    assert english.count("\n") > 50

    def keys(text):
        return re.findall(r"^(?:    |      )(\w+):", text.split("\n};")[0], re.MULTILINE)

    assert keys(english) == keys(chinese)


# -- safety --------------------------------------------------------------------------------------------------

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


def test_names_and_values_are_text(show):
    def f(p):
        return p[HOSTILE] * p["<script>"] + p["\u2028<!--"] * 2

    explanation = cr.explain(f, {HOSTILE: 2.0, "<script>": 3.0, "\u2028<!--": 4.0}, title=f"f{HOSTILE}")
    data = data_of(explanation, graph=False)
    data["notes"] = [*data["notes"], HOSTILE]
    data["kinks"] = [{"id": "v4", "what": HOSTILE}]
    html = page(data)
    assert len(re.findall("<script", html)) == 2  # the data and the program
    tab = show(html)
    assert tab.title() == f"f{HOSTILE}"
    assert tab.locator("#title").text_content() == f"f{HOSTILE}"
    for _ in range(len(data["steps"]) * 2):
        tab.click("#next")
    expect(tab.locator("#notes")).to_contain_text(HOSTILE)
    assert any("<script>" in t for t in column(tab, "expression"))
    tab.click("#tab-flat")
    tab.fill("#search", "<script>")
    tab.click("#language")
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img, iframe, object, link").count() == 0
    assert tab.locator("script").count() == 2


def test_nothing_but_its_own_script_runs_and_nothing_is_loaded(show, note):
    policy = re.search('Content-Security-Policy" content="([^"]*)"', note)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert set(re.findall(r"https?://[^\"' )]*", note)) == {"http://www.w3.org/2000/svg"}  # a name, not an address


def test_the_sources_are_all_used():
    folder = Path(cr.__file__).parent / "explain" / "page"
    assert {p.name for p in folder.glob("*.js")} == set(SCRIPTS)
    assert {p.suffix for p in folder.iterdir() if p.is_file()} == {".py", ".js", ".css", ".html"}


def test_it_is_written_to_a_file_without_paths_of_the_machine(tmp_path):
    file = tmp_path / "out.html"
    text = cr.explain(note3, X).to_html(file)
    assert file.read_text(encoding="utf-8") == text
    assert str(Path(__file__).parent) not in text
    data = json.loads(re.search('id="data">(.*)</script>\n', text)[1])
    assert [s["text"] for s in data["steps"]] == ["x", "4 * v1", "sin(v2)", "v3 ** 2", "-2 * v4", "exp(v5)", "v1 - v6"]


# -- many steps ----------------------------------------------------------------------------------------------


def test_two_thousand_steps_open_quickly_and_step_at_once(show):
    data = chain(2000)
    html = page(data)
    start = time.perf_counter()
    tab = show(html)
    expect(tab.locator("#count")).to_have_text("0 / 4000")
    assert time.perf_counter() - start < 2
    assert 1 < tab.locator("#graph .card").count() <= 60  # folded
    assert tab.locator("#table .row").count() < 100
    many = """k => { const start = performance.now();
        for (let n = 0; n < 20; n++) { document.getElementById(k).click(); document.body.offsetHeight; }
        return (performance.now() - start) / 20; }"""
    for kind in ("whole", "near"):
        tab.click(f"#graph-{kind}")
        assert min(tab.evaluate(many, "next") for _ in range(3)) < 100  # milliseconds
    tab.click("#last")
    expect(cell(tab, "gradient", 0)).to_have_text(data["backward"][0]["adjoints"]["v1"])
    expect(tab.locator("#panel .box.total > .number").first).to_have_text(data["backward"][0]["adjoints"]["v1"])
    tab.fill("#search", "v1999)")
    expect(cell(tab, "expression", 1999 if "v1999)" in data["steps"][1999]["text"] else 1)).to_be_visible()


def test_a_network_shows_matrices_and_what_is_not_formed(show):
    tab = show(page(network_data()))
    tab.click("#last")
    row = tab.locator("#table .row", has_text="@").first
    row.click()
    expect(tab.locator("#panel .facts")).to_contain_text("never formed")
    assert tab.locator("#graph .card.parameter").count() == 3
