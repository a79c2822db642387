// What happens in the step that is looked at: how its value comes from its operands, or its gradient from its users.

const MOST_BOXES = 6; // paths, or operands, that are written out

const panel = { root: get("panel") };

// A quantity with its name above it.
function box(kind, label, text, below) {
  const array = ARRAY.exec(text);
  const number = array ? `${array[1] ? `${say("diagonal")} ` : ""}${array[2]}, ${say("norm")} ${array[3]}` : text;
  return make("div", { class: `box ${kind}` },
    make("span", { class: "label" }, label),
    make("span", { class: "number", title: text.length > 36 ? text : null }, cut(number, 36)),
    array ? make("span", { class: "entries" }, array[4]) : null,
    below ? make("span", { class: "below" }, below) : null);
}

const sign = (text) => make("span", { class: "sign" }, text);

function fraction(above, below) {
  return `∂${above.includes(",") ? `(${above})` : above}/∂${below}`;
}

function heading(k) {
  const s = steps[k];
  const at = state.chosen >= 0 ? null : placeText();
  return make("div", { class: "heading" },
    at ? make("span", { class: `pass ${goingBack() ? "backward" : "forward"}` }, at) : null,
    make("code", { class: "equation" }, make("b", {}, s.id), s.kind === "call" ? ` = ${s.text}` : ` : ${s.text}`),
    make("span", { class: "facts" }, facts(k).join("  ·  ")),
    state.chosen >= 0 ? button("goTo", () => goTo(frameOf(k))) : null);
}

function button(word, act) {
  const made = make("button", { type: "button", class: "go" }, say(word));
  made.addEventListener("click", act);
  return made;
}

function facts(k) {
  const s = steps[k];
  const told = [];
  if (s.name && s.name !== s.text) told.push(s.name);
  if (s.line != null) told.push(say("line", s.line));
  told.push(gateOf(k));
  if (s.shape && s.shape.length) told.push(`${s.shape.join("×")} ${s.dtype || ""}`.trim());
  else if (s.dtype && s.dtype !== "float64") told.push(s.dtype);
  if (s.shape && s.shape.length && typeof s.norm === "number" && hasValue(k)) told.push(`${say("norm")} ${Number(s.norm.toPrecision(5))}`);
  const jacobian = /^(\S+) \(([\d,]+) /.exec(s.jacobian || "");
  if (jacobian) told.push(say("jacobian", jacobian[1], jacobian[2]));
  if (users[k].length > 1) told.push(say("copy", users[k].length));
  return told;
}

function placeText() {
  const n = steps.length;
  if (state.mode === "forward") return `${say("dualPass")} · ${say("place", state.frame, n)}`;
  if (goingBack()) return `${say("backwardPass")} · ${say("place", state.frame - n, frames() - n)}`;
  return `${say("forwardPass")} · ${say("place", state.frame, n)}`;
}

// The value: the operands, and what becomes of them.
function valueLine(k) {
  const s = steps[k];
  const operands = parents[k].slice(0, MOST_BOXES).map((p) => box("value", named(p), valueOf(p)));
  const line = make("div", { class: "terms" });
  if (operands.length) line.append(...operands, sign("→"));
  line.append(box("value total", s.kind === "call" ? s.id : named(k), valueOf(k), state.mode === "forward" ? say("value") : null));
  if (state.mode === "forward") line.append(sign("+"), box("gradient total", dotted(s.id), gradientOf(k), say("tangent")), sign("ε"));
  return line;
}

// The tangent: local derivative times the operand's tangent, added up.
function tangentLine(k) {
  const s = steps[k];
  if (s.kind !== "call") {
    const seeded = !/^[[\]0.,×…() -]*$/.test(gradientOf(k));
    return make("p", { class: "said" }, say(seeded ? "direct" : "fixed"));
  }
  const line = make("div", { class: "terms" });
  parents[k].slice(0, MOST_BOXES).forEach((p, n) => {
    const local = locals.get(`${s.id} ${steps[p].id}`);
    if (n) line.append(sign("+"));
    line.append(
      box("local", fraction(s.id, steps[p].id), local ?? say("product"), local == null ? say("formed") : say("local")), sign("×"),
      box("gradient", dotted(steps[p].id), gradientOf(p), say("tangent")));
  });
  if (parents[k].length) line.append(sign("="));
  line.append(box("gradient total", dotted(s.id), gradientOf(k)));
  return line;
}

// The gradient: what comes back along each path.
function gradientLines(k) {
  const s = steps[k];
  const paths = pathsOf(k);
  if (!paths.length) {
    const seed = pass().turn.get(k) === 0;
    return [
      make("p", { class: "said" }, seed ? say("seed", nameOfOutput(state.output)) : say("unused")),
      make("div", { class: "terms" }, box("gradient total", barred(s.id), gradientOf(k))),
    ];
  }
  const rows = paths.slice(0, MOST_BOXES).map((path) => {
    const from = known.get(path.from);
    const gate = from === undefined ? "" : steps[from].gate || "function";
    const why = WORDS[state.language].gates[gate] || WORDS[state.language].gates.function;
    const row = make("div", { class: "terms path", title: why },
      box("gradient", barred(path.from), String(path.upstream), say("upstream")), sign(/ȳ/.test(path.local) ? "→" : "×"),
      box("local", fraction(path.from, s.id), path.local ?? say("product"), path.local == null ? say("formed") : say("local")), sign("="),
      paths.length > 1
        ? box("gradient", say("arrives", path.from), String(path.contribution), say("downstream"))
        : box("gradient total", barred(s.id), gradientOf(k), say("downstream")));
    if (paths.length === 1 && state.frame < frames()) row.append(make("span", { class: "why" }, why));
    return row;
  });
  if (paths.length > MOST_BOXES) rows.push(make("p", { class: "said" }, say("more", paths.length - MOST_BOXES)));
  if (paths.length === 1) return [make("div", { class: "paths" }, ...rows)];
  const sum = make("div", { class: "terms sum" });
  paths.slice(0, MOST_BOXES).forEach((p, n) => sum.append(...(n ? [sign("+")] : []), make("span", { class: "plain" }, cut(brief(p.contribution, 6), 24))));
  if (paths.length > MOST_BOXES) sum.append(sign("+ …"));
  sum.append(sign("="), box("gradient total", barred(s.id), gradientOf(k), say("sum", paths.length)));
  return [make("div", { class: "paths" }, ...rows), sum];
}

function startLines() {
  const inputs = steps.filter((s) => s.kind === "input").map((s) => box("value", s.text, s.value || ""));
  return [
    make("div", { class: "heading" }, make("span", { class: "pass forward" }, say("start"))),
    make("p", { class: "said" }, say("startText", steps.length, frames() - steps.length), " ", say("startHint")),
    make("div", { class: "terms" }, ...inputs.slice(0, MOST_BOXES), inputs.length > MOST_BOXES ? sign("…") : null),
  ];
}

// What came out, once the end is reached: the derivatives in the inputs.
function endLine() {
  if (state.frame !== frames() || state.chosen >= 0) return null;
  const ids = state.mode === "forward" ? data.outputs || [] : data.inputs || [];
  const line = make("div", { class: "terms result" }, make("span", { class: "pass done" }, say("end")));
  for (const id of ids.slice(0, MOST_BOXES)) {
    if (!known.has(id)) continue;
    const k = known.get(id);
    const of = state.mode === "forward" ? nameOfOutput(ids.indexOf(id)) : nameOfOutput(state.output);
    const by = state.mode === "forward" ? directions[state.direction] : steps[k].name || steps[k].text;
    line.append(box("gradient", `∂${of}/∂${by}`, gradientOf(k)));
  }
  return line;
}

views.push((changed) => {
  if (!touched(changed, "frame", "chosen", "mode", "output", "direction", "language")) return;
  const k = shown();
  if (k < 0) return panel.root.replaceChildren(...startLines());
  const lines = [heading(k)];
  if (k === nonfinite) lines.push(make("p", { class: "said bad" }, say("nonfinite")));
  if (kinks.has(k)) lines.push(make("p", { class: "said kink" }, `${say("kink")}: ${kinks.get(k)}`));
  if (!hasValue(k)) lines.push(make("p", { class: "said" }, say("notYet")));
  else if (state.mode === "forward") lines.push(valueLine(k), tangentLine(k));
  else if (goingBack() && hasGradient(k)) lines.push(...gradientLines(k));
  else lines.push(valueLine(k));
  const end = endLine();
  const last = end && lines.length > 1 ? [lines.pop(), end] : end ? [end] : [];
  panel.root.replaceChildren(...lines, ...(last.length ? [make("div", { class: "sums" }, ...last)] : []));
  panel.root.scrollTop = 0;
});
