// The start: put in what never changes, then show everything once.

get("title").textContent = data.title || "chainrule";
get("subtitle").textContent = data.source && data.source.file ? `${data.source.file}:${firstLine}` : "";
get("tab-flat").hidden = !flatLines.length;
get("tab-source").hidden = !sourceLines.length && flatLines.length > 0;
get("graph-kinds").hidden = steps.length < 24;
options("output", backward.map((_, k) => nameOfOutput(k)), 0);
options("direction", directions, 0);
state.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
measureTable();
handleControls();
handleGraph();
for (const view of views) view(new Set([...Object.keys(state)]));
