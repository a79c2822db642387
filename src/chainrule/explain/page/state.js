// The state of the page, and who is told when it changes.
//
// `frame` 0 is the start. In reverse mode the frames 1..n are the steps of the forward pass, those after it the steps of
// the pass back; in forward mode there are n frames. `chosen` is the step picked by hand, until the next frame.

const state = {
  mode: backward.length ? "reverse" : "forward",
  output: 0,
  direction: 0,
  frame: 0,
  chosen: -1,
  hovered: -1,
  playing: false,
  speed: 1,
  language: (data.language || navigator.language || "en").startsWith("zh") ? "zh" : "en",
  theme: "light",
  query: "",
  source: sourceLines.length || !flatLines.length ? "yours" : "flat",
  graph: "whole",
};

const views = [];

function change(changes) {
  const changed = new Set(Object.keys(changes).filter((k) => state[k] !== changes[k]));
  Object.assign(state, changes);
  if (changed.size) for (const view of views) view(changed);
}

const touched = (changed, ...names) => names.some((n) => changed.has(n));

const pass = () => passes[state.output];
const frames = () => steps.length + (state.mode === "reverse" && pass() ? pass().order.length : 0);
const goingBack = () => state.mode === "reverse" && state.frame > steps.length;

// The step that the frame computes; -1 at the start.
function current() {
  if (state.frame === 0) return -1;
  return goingBack() ? pass().order[state.frame - steps.length - 1] : state.frame - 1;
}

// The step that is looked at: the one under the pointer does not count, it is only lit.
const shown = () => (state.chosen >= 0 ? state.chosen : current());

const hasValue = (k) => k < state.frame;

function hasGradient(k) {
  if (state.mode === "forward") return hasValue(k);
  if (!goingBack() || !backward[state.output]) return false;
  if (!(steps[k].id in (backward[state.output].adjoints || {}))) return false; // a captured array has none
  const turn = pass().turn.get(k);
  return turn === undefined ? state.frame === frames() : turn < state.frame - steps.length;
}

const valueOf = (k) => steps[k].value ?? "";

// The adjoint of a step in reverse mode, its tangent in forward mode.
function gradientOf(k) {
  const id = steps[k].id;
  if (state.mode === "forward") return ((tangents[id] || [])[state.direction]) ?? "0";
  return ((backward[state.output] || {}).adjoints || {})[id] ?? "0";
}

const pathsOf = (k) => ((backward[state.output] || {}).paths || {})[steps[k].id] || [];

// The steps by which the current frame gets what it shows: its operands, or in the pass back its users.
function sourcesOf(k) {
  if (k < 0) return [];
  if (!goingBack()) return parents[k];
  return pathsOf(k).map((p) => known.get(p.from)).filter((p) => p !== undefined);
}

function goTo(frame) {
  change({ frame: Math.max(0, Math.min(frame, frames())), chosen: -1 });
}

// The frame at which a step is computed: in the pass that is under way.
function frameOf(k) {
  if (goingBack() && pass().turn.has(k)) return steps.length + 1 + pass().turn.get(k);
  return k + 1;
}

function choose(k) {
  change({ chosen: k === current() ? -1 : k });
}

function setMode(mode) {
  if (mode === "forward" && !directions.length) return;
  if (mode === "reverse" && !backward.length) return;
  change({ mode, frame: Math.min(state.frame, steps.length), chosen: -1, playing: false });
}
