// The controls: buttons, slider, keys, search, language and theme; and what a screen reader is told.

let timer = 0;

function playOn() {
  clearTimeout(timer);
  if (!state.playing) return;
  timer = setTimeout(() => {
    if (state.frame >= frames()) return change({ playing: false });
    goTo(state.frame + 1);
    playOn();
  }, 1100 / state.speed);
}

function togglePlay() {
  if (!state.playing && state.frame >= frames()) goTo(0);
  change({ playing: !state.playing });
}

const halt = (frame) => {
  change({ playing: false });
  goTo(frame);
};

// Tells a screen reader about a step: shortly after the last change, so that quick steps are not all read out.
let telling = 0;
function tell(k) {
  clearTimeout(telling);
  telling = setTimeout(() => (get("live").textContent = toldOf(k)), 120);
}

function toldOf(k) {
  if (k < 0) return say("start");
  const s = steps[k];
  const told = WORDS[state.language].told;
  if (!hasValue(k)) return `${s.id} = ${s.text}: ${say("notYet")}`;
  if (state.mode === "forward") return told.dual(named(k), rounded(valueOf(k)), rounded(gradientOf(k)));
  if (goingBack() && hasGradient(k)) return told.backward(named(k), rounded(gradientOf(k)), pathsOf(k).length);
  return told.forward(named(k), s.text, rounded(valueOf(k)));
}

// -- search --------------------------------------------------------------------------------------------------

const haystack = steps.map((s) => [s.id, s.name, s.text, s.op, s.gate, s.line == null ? "" : sourceLines[s.line - firstLine]].join("\n").toLowerCase());
let hits = [];
let hitSet = new Set();

const isFound = (k) => hitSet.has(k);

function searchFor(query) {
  const words = query.trim().toLowerCase();
  hits = words ? [...steps.keys()].filter((k) => haystack[k].includes(words)) : [];
  hitSet = new Set(hits);
  change({ query: words });
  if (!hits.length) return;
  change({ chosen: hits.find((k) => k >= shown()) ?? hits[0] });
  tell(state.chosen);
}

function nextHit(by) {
  if (!hits.length) return;
  const at = hits.indexOf(state.chosen);
  const k = hits[(at + by + hits.length) % hits.length];
  change({ chosen: k });
  tell(k);
}

// -- keys ----------------------------------------------------------------------------------------------------

const KEYS = {
  ArrowRight: () => halt(state.frame + 1),
  ArrowLeft: () => halt(state.frame - 1),
  Home: () => halt(0),
  End: () => halt(frames()),
  " ": togglePlay,
  Escape: () => change({ chosen: -1 }),
  "/": () => get("search").focus(),
  "+": () => zoomGraph(1.25),
  "=": () => zoomGraph(1.25),
  "-": () => zoomGraph(0.8),
  0: () => fitGraph(),
  m: () => setMode(state.mode === "forward" ? "reverse" : "forward"),
  "?": () => get("keys").showModal(),
};

function pressed(event) {
  const on = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey || get("keys").open) return;
  if (on.matches("select") || (on.matches("input[type=search]") && event.key !== "Escape")) return;
  if (on.matches("input[type=range]") && /^(Arrow|Home|End|Page)/.test(event.key)) return;
  if (on.matches("button") && event.key === " ") return;
  const act = KEYS[event.key] || KEYS[event.key.toLowerCase()];
  if (!act || event.shiftKey && event.key.startsWith("Arrow")) return;
  event.preventDefault();
  act();
}

function handleControls() {
  const press = (id, act) => get(id).addEventListener("click", act);
  press("first", () => halt(0));
  press("back", () => halt(state.frame - 1));
  press("next", () => halt(state.frame + 1));
  press("last", () => halt(frames()));
  press("play", togglePlay);
  press("mode-reverse", () => setMode("reverse"));
  press("mode-forward", () => setMode("forward"));
  press("language", () => change({ language: state.language === "en" ? "zh" : "en" }));
  press("theme", () => change({ theme: state.theme === "light" ? "dark" : "light" }));
  press("help", () => get("keys").showModal());
  get("slider").addEventListener("input", (event) => halt(Number(event.target.value)));
  get("speed").addEventListener("change", (event) => change({ speed: Number(event.target.value) }));
  get("output").addEventListener("change", (event) => change({ output: Number(event.target.value), frame: Math.min(state.frame, steps.length), chosen: -1 }));
  get("direction").addEventListener("change", (event) => change({ direction: Number(event.target.value) }));
  get("search").addEventListener("input", (event) => searchFor(event.target.value));
  get("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      event.target.value = "";
      searchFor("");
      get("player").focus();
    }
  });
  document.addEventListener("keydown", pressed);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => change({ theme: dark.matches ? "dark" : "light" }));
}

// -- what they show ------------------------------------------------------------------------------------------

function options(id, names, chosen) {
  get(id).replaceChildren(...names.map((n, k) => make("option", { value: k, selected: k === chosen ? "" : null }, n)));
}

const noteText = (note) => WORDS[state.language].notes.reduce((text, [from, to]) => text.replace(from, to), note);

function showWords() {
  document.documentElement.lang = state.language === "zh" ? "zh-CN" : "en";
  for (const e of document.querySelectorAll("[data-word]")) e.textContent = say(e.dataset.word);
  for (const e of document.querySelectorAll("[data-label]")) e.setAttribute("aria-label", say(e.dataset.label));
  for (const e of document.querySelectorAll("button[data-label]")) e.title = say(e.dataset.label);
  get("search").placeholder = say("searchHint");
  get("language").textContent = say("language");
  get("language").setAttribute("aria-label", say("languageName"));
  get("language").title = say("languageName");
  get("keys-list").replaceChildren(...WORDS[state.language].keys.map(([key, what]) => make("div", {}, make("dt", {}, key), make("dd", {}, what))));
  const warning = nonfinite >= 0 ? [`${say("nonfinite")}: ${steps[nonfinite].id} = ${steps[nonfinite].text}`] : [];
  get("notes").replaceChildren(...[...warning, ...(data.notes || []).map(noteText)].map((n) => make("p", {}, n)));
}

views.push((changed) => {
  if (touched(changed, "language")) showWords();
  if (touched(changed, "theme")) {
    document.documentElement.dataset.theme = state.theme;
    get("theme").textContent = state.theme === "light" ? "☾" : "☀";
  }
  if (touched(changed, "mode", "language", "output")) {
    for (const mode of ["reverse", "forward"]) get(`mode-${mode}`).setAttribute("aria-pressed", state.mode === mode);
    get("mode-forward").disabled = !directions.length;
    get("mode-reverse").disabled = !backward.length;
    get("pick-output").hidden = state.mode === "forward" || backward.length < 2;
    get("pick-direction").hidden = state.mode === "reverse" || directions.length < 2;
    const [n, m] = [steps.length, frames() - steps.length];
    const slider = get("slider");
    slider.max = n + m;
    slider.style.setProperty("--turn", `${(100 * n) / (n + m || 1)}%`);
    get("legend-forward").style.flexGrow = n;
    get("legend-backward").style.flexGrow = m;
    get("legend-forward").textContent = say(state.mode === "forward" ? "dualPass" : "forwardPass");
    get("legend-backward").textContent = m ? say("backwardPass") : "";
    document.documentElement.dataset.mode = state.mode;
  }
  if (touched(changed, "playing", "speed")) {
    playOn();
    get("play-shape").setAttribute("d", state.playing ? "M3 2h4v12H3zM9 2h4v12H9z" : "M4 2l10 6-10 6z");
  }
  if (touched(changed, "playing", "language")) {
    get("play").setAttribute("aria-label", say(state.playing ? "pause" : "play"));
    get("play").title = say(state.playing ? "pause" : "play");
  }
  if (touched(changed, "frame", "mode", "language", "output")) {
    const told = state.frame === 0 ? say("start") : placeText();
    get("slider").value = state.frame;
    get("slider").setAttribute("aria-valuetext", told);
    get("count").textContent = say("count", state.frame, frames());
    for (const id of ["first", "back"]) get(id).setAttribute("aria-disabled", state.frame === 0);
    for (const id of ["last", "next"]) get(id).setAttribute("aria-disabled", state.frame === frames());
    document.documentElement.dataset.pass = goingBack() ? "backward" : "forward";
  }
  if (touched(changed, "query", "chosen", "language"))
    get("found").textContent = state.query ? say("found", hits.indexOf(state.chosen) + 1 || 1, hits.length) : "";
  if (touched(changed, "frame", "mode", "direction", "output")) tell(current());
});
