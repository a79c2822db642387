// Where the nodes of a graph stand: in layers from the inputs down to the result.
//
// An edge runs from a layer to a later one; where it crosses layers, a point holds its place in each. The points of a
// layer are ordered by the mean of their neighbours, up and down in turn, and then placed as near to them as room allows.

const GAP_X = 22;
const GAP_Y = 30;
const MOST_POINTS = 4000; // beyond it long edges are drawn straight

// `nodes`: {width, height} in an order in which most edges point forward; `edges`: [from, to]. Returns the centre of
// each node, the points of each edge and the size of it all.
function layered(nodes, edges) {
  const forward = edges.map(([a, b]) => (a < b ? [a, b] : [b, a]));
  const layer = layersOf(nodes, forward);
  const points = nodes.map((n, k) => ({ layer: layer[k], width: n.width, height: n.height, up: [], down: [] }));
  const routes = thread(points, forward, layer);
  const rows = [];
  points.forEach((p, k) => (rows[p.layer] ||= []).push(k));
  order(rows, points);
  place(rows, points);

  let top = 0;
  for (const row of rows) {
    const height = Math.max(...row.map((k) => points[k].height));
    for (const k of row) Object.assign(points[k], { y: top + height / 2, band: height });
    top += height + GAP_Y;
  }
  const left = Math.min(...points.map((p) => p.x - p.width / 2));
  for (const p of points) p.x -= left;
  return {
    nodes: points.slice(0, nodes.length),
    routes: routes.map((route, k) => (edges[k][0] < edges[k][1] ? route : [...route].reverse()).map((p) => points[p])),
    width: Math.max(...points.map((p) => p.x + p.width / 2)),
    height: top - GAP_Y,
  };
}

// The longest way from an input; what has no operand stands right above its first use.
function layersOf(nodes, edges) {
  const layer = nodes.map(() => 0);
  const into = nodes.map(() => []);
  const from = nodes.map(() => []);
  for (const [a, b] of edges) {
    into[b].push(a);
    from[a].push(b);
  }
  nodes.forEach((_, k) => {
    for (const a of into[k]) layer[k] = Math.max(layer[k], layer[a] + 1);
  });
  nodes.forEach((_, k) => {
    if (!into[k].length && from[k].length) layer[k] = Math.max(0, Math.min(...from[k].map((b) => layer[b])) - 1);
  });
  return layer;
}

function thread(points, edges, layer) {
  const long = edges.reduce((sum, [a, b]) => sum + Math.max(0, layer[b] - layer[a] - 1), 0);
  return edges.map(([a, b]) => {
    const route = [a];
    for (let l = layer[a] + 1; l < layer[b] && long <= MOST_POINTS; l++) {
      route.push(points.length);
      points.push({ layer: l, width: 14, height: 0, up: [], down: [] });
    }
    route.push(b);
    for (let k = 1; k < route.length; k++) {
      points[route[k - 1]].down.push(route[k]);
      points[route[k]].up.push(route[k - 1]);
    }
    return route;
  });
}

function order(rows, points) {
  const rank = () => rows.forEach((row) => row.forEach((k, at) => (points[k].rank = at)));
  rank();
  for (let sweep = 0; sweep < 12; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wish = new Map(row.map((k) => [k, mean(points[k][side].map((n) => points[n].rank)) ?? points[k].rank]));
      row.sort((a, b) => wish.get(a) - wish.get(b) || points[a].rank - points[b].rank);
      row.forEach((k, at) => (points[k].rank = at));
    }
  }
}

function place(rows, points) {
  for (const row of rows) {
    let x = 0;
    for (const k of row) {
      points[k].x = x + points[k].width / 2;
      x += points[k].width + GAP_X;
    }
  }
  // Inputs stand beside the way down and don't bend it.
  const inner = (ks) => {
    const found = ks.filter((k) => points[k].up.length);
    return found.length ? found : ks;
  };
  for (let sweep = 0; sweep < 16; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const both = sweep > 11 ? (k) => inner([...points[k].up, ...points[k].down]) : (k) => inner(points[k][side]);
      nearest(row, points, row.map((k) => median(both(k).map((n) => points[n].x)) ?? points[k].x));
    }
  }
}

// Moves the points of a row as little as possible from where they want to be, without overlap: neighbours that would
// overlap join into a block, which stands at the mean of their wishes.
function nearest(row, points, wishes) {
  const blocks = [];
  let offset = 0;
  row.forEach((k, at) => {
    if (at) offset += (points[row[at - 1]].width + points[k].width) / 2 + GAP_X;
    const weight = points[k].up.length ? 1 : 0.05; // inputs give way
    let block = { sum: weight * (wishes[at] - offset), count: weight, members: [[k, offset]] };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).count > block.sum / block.count) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, count: before.count + block.count, members: before.members.concat(block.members) };
    }
    blocks.push(block);
  });
  for (const block of blocks) for (const [k, shift] of block.members) points[k].x = block.sum / block.count + shift;
}

const mean = (xs) => (xs.length ? xs.reduce((a, b) => a + b, 0) / xs.length : undefined);

function median(xs) {
  if (!xs.length) return undefined;
  const sorted = xs.sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
