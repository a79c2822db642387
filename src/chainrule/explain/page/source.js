// The source: the user's lines or the lines of the flat gradient, each linked to its steps.

const source = { root: get("source") };

const turnsBack = flatLines.findIndex((line) => line.trim() === "# backward"); // where the flat gradient's pass back begins

const isFlat = () => state.source === "flat";
const lines = () => (isFlat() ? flatLines : sourceLines);

function stepsAt(at) {
  if (isFlat()) return flatStep.has(at + 1) ? [flatStep.get(at + 1)] : [];
  return stepsOfLine.get(at + firstLine) || [];
}

// The lines of a step: in the flat gradient those of the pass under way, if it has any. A step that was merged into
// another has the lines of its neighbours on the user's line.
function linesOf(k) {
  if (k < 0) return [];
  if (isFlat()) {
    const same = flatOf.has(k) ? [k] : stepsOfLine.get(steps[k].line) || [];
    const all = [...new Set(same.flatMap((s) => flatOf.get(s) || []))].map((line) => line - 1);
    const here = all.filter((at) => turnsBack < 0 || at > turnsBack === goingBack());
    return here.length ? here : all;
  }
  return steps[k].line == null ? [] : [steps[k].line - firstLine];
}

function lineInSight(k) {
  const found = linesOf(k);
  return found.length ? found[0] : -1;
}

function lineRow(at) {
  const here = stepsAt(at);
  const now = current();
  const lit = now >= 0 && linesOf(now).includes(at);
  const kinds = ["line"];
  if (lit) kinds.push("now");
  if (here.includes(state.chosen)) kinds.push("chosen");
  if (here.includes(state.hovered)) kinds.push("hovered");
  if (here.some(isFound)) kinds.push("found");
  if (here.includes(nonfinite)) kinds.push("bad");
  if (here.length) kinds.push("linked");
  const selected = linesOf(shown()).includes(at);
  return make("div", { class: kinds.join(" "), role: "option", id: `line-${at}`, "aria-selected": String(selected), "aria-setsize": lines().length, "aria-posinset": at + 1 },
    make("span", { class: "number" }, String(isFlat() ? at + 1 : at + firstLine)),
    make("span", { class: "text" }, ...colored(lines()[at] || " ", at)),
    noteOf(here, now));
}

// What the line has computed so far, behind it.
function noteOf(here, now) {
  if (isFlat() || !here.length) return null;
  const k = here.includes(now) ? now : here.findLast(hasValue);
  if (k === undefined || !hasValue(k)) return null;
  if (hasGradient(k) && goingBack()) return make("span", { class: "note gradient" }, `${barred(steps[k].id)} = ${cut(brief(gradientOf(k), 4), 24)}`);
  return make("span", { class: "note value" }, `${steps[k].id} = ${cut(brief(valueOf(k), 4), 24)}`);
}

const TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(def|return|for|in|if|elif|else|while|lambda|import|from|as|and|or|not|is|None|True|False|with|class)\b|\b(\d[\w.]*)/g;

// The lines that lie in a text of several lines, from its quotes to its quotes.
function textLines(all) {
  const found = new Set();
  let open = "";
  all.forEach((line, at) => {
    const quotes = [...line.matchAll(/"""|'''/g)].map((m) => m[0]);
    if (open || quotes.length % 2) found.add(at);
    for (const q of quotes) open = open === q ? "" : open || q;
  });
  return found;
}

// A line of Python in colour.
function colored(line, at) {
  const inText = ((source.texts ||= {})[state.source] ??= textLines(lines())).has(at);
  if (inText) return [make("span", { class: "string" }, line)];
  const parts = [];
  let end = 0;
  for (const found of line.matchAll(TOKEN)) {
    const kind = ["comment", "string", "keyword", "digits"][[1, 2, 3, 4].find((g) => found[g] !== undefined) - 1];
    parts.push(line.slice(end, found.index), make("span", { class: kind }, found[0]));
    end = found.index + found[0].length;
  }
  return [...parts, line.slice(end)];
}

// Chooses a step of the line; again, the next one.
function pickLine(at) {
  const here = stepsAt(at);
  if (!here.length) return;
  const k = here[(here.indexOf(shown()) + 1) % here.length];
  choose(k);
  tell(k);
}

const sourceRows = new Rows(source.root, {
  height: 24,
  count: () => lines().length,
  row: lineRow,
  width: () => (source.wide ||= {})[state.source] ??= Math.max(0, ...lines().map((l) => l.length)) + 8,
  pick(at, way) {
    for (let k = at; k >= 0 && k < lines().length; k += way || 1)
      if (stepsAt(k).length) {
        const step = stepsAt(k)[way < 0 ? stepsAt(k).length - 1 : 0];
        change({ chosen: step });
        tell(step);
        sourceRows.follow(k);
        return;
      }
  },
  click: (at, twice) => (twice && stepsAt(at).length ? goTo(frameOf(shown())) : pickLine(at)),
  hover(at) {
    const here = at < 0 ? [] : stepsAt(at);
    change({ hovered: here.length ? (here.includes(current()) ? current() : here.at(-1)) : -1 });
  },
  enter() {
    if (shown() >= 0) goTo(frameOf(shown()));
  },
});

views.push((changed) => {
  if (touched(changed, "source")) {
    get("tab-source").setAttribute("aria-pressed", !isFlat());
    get("tab-flat").setAttribute("aria-pressed", isFlat());
    sourceRows.scrollTo(0);
  }
  source.root.classList.toggle("empty", !lines().length);
  source.root.dataset.empty = lines().length ? "" : say(isFlat() ? "noFlat" : "noSource");
  if (touched(changed, "frame", "chosen", "source", "mode")) sourceRows.follow(lineInSight(shown()));
  sourceRows.show();
});

get("tab-source").addEventListener("click", () => change({ source: "yours" }));
get("tab-flat").addEventListener("click", () => change({ source: "flat" }));
