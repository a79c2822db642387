// The graph: a card for each step, with its value and its gradient from when they are computed.
//
// A graph of many steps is folded: the recording's own groups, or else the steps of one source line, share a card. The
// other view, "around the step", lays out the nearest steps anew whenever the step changes.

const MOST_CARDS = 60; // of the whole graph, before it is folded
const NEAR = 18; // cards around a step
const READABLE = 0.8; // the scale that a large graph is shown at first
const CARD = { height: 58, letter: 7.4, least: 96, most: 224 };

const graph = { root: get("graph"), groups: null, cards: [], edges: [], of: new Map(), view: null, box: null };

// The groups of the whole graph: lists of places, in the order of their first steps.
function folded() {
  if (steps.length <= MOST_CARDS) return steps.map((_, k) => ({ members: [k] }));
  const free = new Set(steps.keys());
  let groups = [];
  for (const fold of (data.graph && data.graph.folded) || []) {
    const members = fold.steps.map((id) => known.get(id)).filter((k) => free.delete(k));
    if (members.length) groups.push({ label: fold.label, members });
  }
  for (const k of free) groups.push({ members: [k] });
  if (groups.length > MOST_CARDS) {
    const lines = new Map();
    steps.forEach((s, k) => {
      const key = s.kind === "call" ? `${s.line}` : `${s.kind}`;
      if (!lines.has(key)) lines.set(key, []);
      lines.get(key).push(k);
    });
    groups = [...lines].map(([key, members]) => ({ label: labelOf(key, members), members }));
  }
  for (const g of groups) g.members.sort((a, b) => a - b);
  return groups.sort((a, b) => a.members[0] - b.members[0]);
}

function labelOf(line, members) {
  if (steps[members[0]].kind !== "call") return members.map((k) => steps[k].text).join(", ");
  const text = sourceLines[Number(line) - firstLine];
  return text ? text.trim() : `${steps[members[0]].op || steps[members[0]].kind || ""}`;
}

// The steps nearest to one, along operands and uses; but not through a step that is used all over the place.
function around(k) {
  const found = new Set([k]);
  const queue = [k];
  while (queue.length && found.size < NEAR) {
    const at = queue.shift();
    const uses = [...users[at]].sort((a, b) => Math.abs(a - k) - Math.abs(b - k)).slice(0, 6);
    for (const n of users[at].length > 6 && at !== k ? [] : [...parents[at], ...uses]) {
      if (found.size < NEAR && !found.has(n)) {
        found.add(n);
        queue.push(n);
      }
    }
  }
  return [...found].sort((a, b) => a - b).map((n) => ({ members: [n] }));
}

function buildGraph() {
  const k = Math.max(0, shown());
  graph.groups = state.graph === "near" ? around(k) : (graph.whole ||= folded());
  graph.of = new Map();
  graph.groups.forEach((g, at) => g.members.forEach((m) => graph.of.set(m, at)));
  const links = new Map();
  graph.groups.forEach((g, to) => {
    for (const m of g.members)
      for (const p of parents[m]) {
        const from = graph.of.get(p);
        if (from !== undefined && from !== to) links.set(`${from} ${to}`, [from, to]);
      }
  });
  const edges = [...links.values()];
  const sizes = graph.groups.map((g) => ({ width: widthOf(g), height: CARD.height }));
  const made = state.graph === "near" || !graph.layout ? layered(sizes, edges) : graph.layout;
  if (state.graph !== "near") graph.layout = made;

  graph.edges = edges.map(([from, to], at) => ({ from, to, element: edgePath(made.routes[at], made.nodes[from], made.nodes[to]) }));
  graph.cards = graph.groups.map((g, at) => card(g, made.nodes[at], edges.filter(([from]) => from === at).length));
  const marks = ["quiet", "forward", "backward"].map((kind) =>
    draw("marker", { id: `head-${kind}`, class: kind, viewBox: "0 0 8 8", refX: 7, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 10, markerHeight: 10, orient: "auto-start-reverse" },
      draw("path", { d: "M0 0L8 4L0 8z" })));
  const stage = draw("g", { class: "stage" });
  stage.append(...graph.edges.map((e) => e.element), ...graph.cards.map((c) => c.element));
  const svg = draw("svg", { "aria-hidden": "true", focusable: "false" }, draw("defs", {}, ...marks), stage);
  graph.root.replaceChildren(svg);
  graph.stage = stage;
  graph.box = made;
  if (state.graph === "near" || graph.kind !== state.graph) fitGraph(READABLE);
  else moveGraph();
  graph.kind = state.graph;
}

function widthOf(group) {
  const { id, value } = steps[group.members[0]];
  const texts = [headOf(group), cut(brief(value || "", 5), 25), ...backward.map((b) => `${id} = ${brief((b.adjoints || {})[id] || "", 4)}`)];
  const longest = group.members.length > 1 ? 22 : Math.max(...texts.map((t) => Math.min(26, t.length)));
  return Math.min(CARD.most, Math.max(CARD.least, longest * CARD.letter + (steps[group.members[0]].kind === "call" ? 20 : 30)));
}

// The first line of a card: the call, or what is folded.
function headOf(group) {
  return cut(String(group.label ?? steps[group.members[0]].text), 24);
}

function edgePath(route, from, to) {
  const down = to.y >= from.y;
  const [before, after] = down ? [-0.5, 0.5] : [0.5, -0.5];
  const points = route.flatMap((p) => // past the cards of a row it runs straight
    p === from || p === to ? [[p.x, p.y]] : [[p.x, p.y + before * p.band], [p.x, p.y + after * p.band]]);
  points[0][1] += (down ? from.height : -from.height) / 2;
  points.at(-1)[1] += (down ? -to.height : to.height) / 2;
  let d = `M${points[0].map(Math.round).join(" ")}`;
  for (let k = 1; k < points.length; k++) {
    const [[x, y], [u, v]] = [points[k - 1], points[k]];
    const half = (y + v) / 2;
    d += `C${[x, half, u, half, u, v].map(Math.round).join(" ")}`;
  }
  return draw("path", { class: "edge", d });
}

function card(group, at, uses) {
  const one = group.members.length === 1 && group.label === undefined;
  const s = steps[group.members[0]];
  const kinds = ["card", one ? s.kind : "group", s.role === "parameter" ? "parameter" : "", group.members.some((m) => outputs.has(m)) ? "output" : ""];
  const [w, h] = [at.width, at.height];
  const box = draw("rect", { x: -w / 2, y: -h / 2, width: w, height: h, rx: one && s.kind !== "call" ? h / 2 : 9 });
  const head = draw("text", { class: "head", y: -h / 2 + 17 }, headOf(group));
  const name = draw("text", { class: "name", x: -w / 2 + 4, y: -h / 2 - 5 }, one ? cut(s.name && s.name !== s.text ? `${s.id} ${s.name}` : s.id, 18) : /×/.test(group.label) ? "" : say("group", group.members.length));
  const value = draw("text", { class: "value", y: -h / 2 + 33 });
  const gradient = draw("text", { class: "gradient", y: -h / 2 + 49 });
  const full = draw("title", {}, one ? `${s.id} = ${s.text}` : String(group.label ?? ""));
  const element = draw("g", { class: kinds.filter(Boolean).join(" "), transform: `translate(${Math.round(at.x)} ${Math.round(at.y)})` }, full, box, head, name, value, gradient);
  if (uses > 1) element.append(draw("circle", { class: "copy", cy: h / 2, r: 4 }, draw("title", {}, say("copy", uses))));
  const pick = () => {
    const now = group.members.filter((m) => m < state.frame);
    return one ? group.members[0] : group.members.includes(current()) ? current() : now.length ? now.at(-1) : group.members[0];
  };
  element.addEventListener("click", (event) => {
    if (graph.moved) return;
    const k = pick();
    if (isSecond(`card ${k}`, event)) goTo(frameOf(k));
    else choose(k);
  });
  element.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && change({ hovered: pick() }));
  element.addEventListener("pointerleave", () => change({ hovered: -1 }));
  return { group, one, element, head, value, gradient };
}

function showGraph() {
  const now = current();
  const from = new Set(sourcesOf(now).map((k) => graph.of.get(k)));
  const at = graph.of.get(now);
  for (const [k, c] of graph.cards.entries()) {
    const members = c.group.members;
    const step = c.one ? members[0] : (members.includes(now) ? now : members.findLast(goingBack() ? (m) => hasGradient(m) : hasValue)) ?? members[0];
    const value = hasValue(step);
    const gradient = hasGradient(step);
    const mark = state.mode === "forward" ? dotted(steps[step].id) : barred(steps[step].id);
    c.value.textContent = value ? cut(c.one ? brief(valueOf(step), 5) : `${steps[step].id} = ${brief(valueOf(step), 4)}`, 25) : "";
    c.gradient.textContent = gradient ? cut(`${mark} = ${brief(gradientOf(step), 4)}`, 26) : "";
    const lit = {
      done: value, back: gradient && state.mode === "reverse", now: k === at, source: from.has(k) && k !== at,
      chosen: members.includes(state.chosen), hovered: members.includes(state.hovered),
      found: state.query && members.some((m) => isFound(m)), bad: members.includes(nonfinite), kink: members.some((m) => kinks.has(m)),
    };
    for (const [name, on] of Object.entries(lit)) c.element.classList.toggle(name, Boolean(on));
  }
  for (const e of graph.edges) {
    const active = goingBack() ? e.from === at && from.has(e.to) : e.to === at;
    e.element.classList.toggle("now", active);
    e.element.classList.toggle("backward", goingBack());
    const [end, other] = goingBack() && active ? ["marker-start", "marker-end"] : ["marker-end", "marker-start"];
    e.element.setAttribute(end, `url(#head-${active ? (goingBack() ? "backward" : "forward") : "quiet"})`);
    e.element.removeAttribute(other);
    if (active) e.element.parentNode.insertBefore(e.element, graph.cards[0].element);
  }
}

// -- zoom and pan --------------------------------------------------------------------------------------------

function fitGraph(least = 0) {
  const [w, h] = (graph.size ||= [graph.root.clientWidth, graph.root.clientHeight]);
  const { width, height } = graph.box;
  const all = Math.min((w - 28) / width, (h - 40) / (height + 14), 1.2);
  const scale = all > 0.9 * least ? all : least;
  graph.view = { scale, x: (w - width * scale) / 2, y: scale > all ? 26 : (h - height * scale) / 2 + 7 };
  graph.fitted = true;
  graph.fits = scale === all;
  moveGraph();
}

function moveGraph() {
  const { scale, x, y } = graph.view;
  graph.stage.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
}

function zoomGraph(factor, x = graph.root.clientWidth / 2, y = graph.root.clientHeight / 2) {
  const view = graph.view;
  const scale = Math.min(4, Math.max(0.05, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  graph.fitted = false;
  moveGraph();
}

function panGraph(dx, dy) {
  graph.view.x += dx;
  graph.view.y += dy;
  graph.fitted = false;
  moveGraph();
}

// Brings the card of the current step into view.
function followGraph(k) {
  const at = graph.of.get(k);
  if (at === undefined || (graph.fitted && graph.fits)) return;
  const { scale, x, y } = graph.view;
  const node = graph.box.nodes[at];
  const [px, py] = [node.x * scale + x, node.y * scale + y];
  const [w, h] = graph.size;
  const [mx, my] = [Math.min(w / 3, (node.width / 2) * scale + 16), Math.min(h / 3, node.height * scale + 50)];
  const dx = px < mx ? mx - px : px > w - mx ? w - mx - px : 0;
  const dy = py < my ? my - py : py > h - my ? h - my - py : 0;
  if (dx || dy) {
    graph.view.x += dx;
    graph.view.y += dy;
    moveGraph();
  }
}

function handleGraph() {
  const root = graph.root;
  const fingers = new Map();
  const place = (event) => {
    const box = root.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  root.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomGraph(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...place(event));
  }, { passive: false });
  root.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, place(event));
    graph.moved = false;
  });
  root.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    const before = fingers.get(event.pointerId);
    const after = place(event);
    const other = [...fingers].find(([id]) => id !== event.pointerId);
    if (!graph.moved && Math.hypot(after[0] - before[0], after[1] - before[1]) < 4) return;
    if (!graph.moved) root.setPointerCapture(event.pointerId);
    graph.moved = true;
    fingers.set(event.pointerId, after);
    if (other) {
      const far = (p) => Math.hypot(p[0] - other[1][0], p[1] - other[1][1]);
      zoomGraph(far(after) / (far(before) || 1), (after[0] + other[1][0]) / 2, (after[1] + other[1][1]) / 2);
    } else panGraph(after[0] - before[0], after[1] - before[1]);
  });
  for (const end of ["pointerup", "pointercancel"]) root.addEventListener(end, (event) => fingers.delete(event.pointerId));
  root.addEventListener("keydown", (event) => {
    const arrows = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    if (event.shiftKey && arrows[event.key]) panGraph(...arrows[event.key]);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") walk(event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Enter" && state.chosen >= 0) goTo(frameOf(state.chosen));
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  get("zoom-in").addEventListener("click", () => zoomGraph(1.25));
  get("zoom-out").addEventListener("click", () => zoomGraph(0.8));
  get("zoom-fit").addEventListener("click", () => fitGraph());
  for (const kind of ["whole", "near"]) get(`graph-${kind}`).addEventListener("click", () => change({ graph: kind }));
  new ResizeObserver(() => {
    graph.size = [root.clientWidth, root.clientHeight];
    if (!graph.fitted) return;
    fitGraph(READABLE);
    followGraph(shown());
  }).observe(root);
}

// To the step before or after the one looked at, in the order of the evaluation.
function walk(by) {
  const k = Math.min(steps.length - 1, Math.max(0, shown() + by));
  change({ chosen: k });
  tell(k);
}

views.push((changed) => {
  const near = state.graph === "near";
  if (touched(changed, "graph", "language") || (near && touched(changed, "frame", "chosen", "output", "mode"))) buildGraph();
  if (touched(changed, "graph"))
    for (const kind of ["whole", "near"]) get(`graph-${kind}`).setAttribute("aria-pressed", state.graph === kind);
  showGraph();
  if (touched(changed, "frame", "chosen", "graph")) followGraph(shown());
});
