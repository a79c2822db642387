// The table: a row for each step.

const table = { root: get("table"), head: make("div", { class: "headrow", role: "row", "aria-rowindex": 1 }) };
const COLUMNS = ["step", "expression", "value", "gradient", "gate", "shape", "line", "product"];

const gateOf = (k) => {
  const s = steps[k];
  const gate = s.kind === "call" ? s.gate || "function" : s.role || s.kind;
  return WORDS[state.language].gateNames[gate] || gate;
};

function cellText(column, k) {
  const s = steps[k];
  if (column === "step") return s.name && s.name !== s.text ? `${s.id}  ${s.name}` : s.id;
  if (column === "expression") return s.text || "";
  if (column === "value") return hasValue(k) ? valueOf(k) : "";
  if (column === "gradient") return hasGradient(k) ? gradientOf(k) : "";
  if (column === "gate") return gateOf(k);
  if (column === "shape") return s.shape && s.shape.length ? s.shape.join("×") : "·";
  if (column === "line") return s.line == null ? "" : String(s.line);
  return s.jacobian || "";
}

function tableRow(k) {
  const kinds = ["row"];
  if (k === current()) kinds.push("now");
  if (k === state.chosen) kinds.push("chosen");
  if (k === state.hovered) kinds.push("hovered");
  if (goingBack() && k !== current() && sourcesOf(current()).includes(k)) kinds.push("source");
  if (isFound(k)) kinds.push("found");
  if (k === nonfinite) kinds.push("bad");
  if (outputs.has(k)) kinds.push("output");
  return make("div", { class: kinds.join(" "), role: "row", id: `row-${k}`, "aria-rowindex": k + 2, "aria-selected": String(k === shown()) },
    ...COLUMNS.map((c) => {
      const text = cellText(c, k);
      return make("div", { class: `cell-${c}`, role: "gridcell", title: text.length > 16 ? text : null }, ARRAY.test(text) ? brief(text) : text);
    }));
}

function tableHead() {
  const forward = state.mode === "forward";
  const along = directions[state.direction];
  const title = { gradient: forward ? `v̇ = ∂v/∂${along}` : `v̄ = ∂${backward.length ? nameOfOutput(state.output) : "f"}/∂v` };
  table.head.replaceChildren(...COLUMNS.map((c) => make("div", { class: `cell-${c}`, role: "columnheader" }, title[c] || say(c === "line" ? "lineTitle" : c))));
}

// What the output of a pass back is called.
function nameOfOutput(k) {
  const pass = backward[k];
  return pass.output && !known.has(pass.output) ? pass.output : data.function || "f";
}

const tableRows = new Rows(table.root, {
  height: 28,
  count: () => steps.length,
  row: tableRow,
  head: table.head,
  pick(k) {
    change({ chosen: k });
    tell(k);
  },
  click: (k, twice) => (twice ? goTo(frameOf(k)) : choose(k)),
  hover: (k) => change({ hovered: k }),
  enter() {
    if (shown() >= 0) goTo(frameOf(shown()));
  },
});

// The widths of the columns, by their longest text.
function measureTable() {
  const longest = (texts, least, most) => Math.min(most, Math.max(least, ...texts.map((t) => String(t).length)));
  const wide = {
    step: longest(steps.map((s) => (s.name && s.name !== s.text ? `${s.id}  ${s.name}` : s.id)), 5, 18),
    expression: longest(steps.map((s) => s.text || ""), 11, 24),
    value: longest(steps.map((s) => brief(s.value || "")), 9, 23),
    gradient: longest([...backward.flatMap((b) => Object.values(b.adjoints || {})), ...Object.values(tangents).flat()].map((t) => brief(t)), 13, 23),
  };
  for (const [name, width] of Object.entries(wide)) table.root.style.setProperty(`--${name}`, `calc(${width}ch + 22px)`);
  table.root.setAttribute("aria-rowcount", steps.length + 1);
  table.root.setAttribute("aria-colcount", COLUMNS.length);
}

views.push((changed) => {
  if (touched(changed, "mode", "direction", "output", "language")) tableHead();
  if (touched(changed, "language")) get("table-note").textContent = say("rows", steps.length);
  if (touched(changed, "frame", "chosen", "mode")) tableRows.follow(shown());
  tableRows.show();
});
