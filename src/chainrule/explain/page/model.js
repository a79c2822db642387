// What the page knows: the steps of the evaluation, how they hang together, and the frames that are stepped through.

const data = JSON.parse(document.getElementById("data").textContent);

const steps = data.steps || [];
const known = new Map(steps.map((s, k) => [s.id, k])); // id -> place in `steps`
const users = steps.map(() => []); // place -> places of the steps that use it
const parents = steps.map((s) => [...new Set(s.parents || [])].map((p) => known.get(p)).filter((p) => p !== undefined));
parents.forEach((ps, k) => ps.forEach((p) => users[p].push(k)));

const outputs = new Set((data.outputs || []).map((id) => known.get(id)));
const backward = data.backward || [];
const tangents = (data.forward && data.forward.tangents) || {};
const directions = (data.forward && data.forward.directions) || [];
const kinks = new Map((data.kinks || []).map((k) => [known.get(k.id), k.what]));
const nonfinite = data.nonfinite == null ? -1 : known.get(data.nonfinite);

// The passes back: for each output the order as places, and the place of each step in that order.
const passes = backward.map((pass) => {
  const order = (pass.order || []).map((id) => known.get(id)).filter((k) => k !== undefined);
  return { order, turn: new Map(order.map((k, turn) => [k, turn])) };
});

// The local derivative of step `k` in its operand `p`, as some pass back has it.
const locals = new Map();
for (const pass of backward)
  for (const [to, paths] of Object.entries(pass.paths || {}))
    for (const path of paths) if (path.local != null) locals.set(`${path.from} ${to}`, path.local);

const sourceLines = (data.source && data.source.lines) || [];
const firstLine = (data.source && data.source.first) || 1;
const flatLines = (data.flat && data.flat.lines) || [];
const stepsOfLine = new Map(); // the user's line -> places
steps.forEach((s, k) => {
  if (s.line != null) stepsOfLine.set(s.line, [...(stepsOfLine.get(s.line) || []), k]);
});
const flatOf = new Map(); // place -> lines of the flat source
const flatStep = new Map(); // line of the flat source -> place
for (const [line, id] of Object.entries((data.flat && data.flat.of) || {}))
  if (known.has(id)) {
    const k = known.get(id);
    flatStep.set(Number(line), k);
    flatOf.set(k, [...(flatOf.get(k) || []), Number(line)]);
  }

// v5 with a bar or a dot above; a step with several outputs keeps its name in parentheses.
const barred = (id) => accented(id, "\u0304");
const dotted = (id) => accented(id, "\u0307");
function accented(id, mark) {
  return id.includes(",") ? `(${id})${mark}` : id.replace(/^./u, (c) => c + mark);
}

// Names a person would use: "h (v5)".
function named(k) {
  const s = steps[k];
  return s.name && s.name !== s.id ? `${s.id} (${s.name})` : s.id;
}
