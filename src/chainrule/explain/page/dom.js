// Making elements. Texts become text nodes: nothing from the data is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";
const get = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
}

const cut = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");

// A number, or several within one text, with at most `digits` significant digits.
function rounded(text, digits = 6) {
  return String(text).replace(/\d+\.\d*(?:e[+-]?\d+)?/gi, (found) => {
    const plain = found.replace(/e.*/i, "").replace(".", "").replace(/^0+/, "");
    return plain.length <= digits ? found : String(Number(Number(found).toPrecision(digits)));
  });
}

// Makes an element like a fresh one and keeps what is equal, so that pointers and readers don't lose their place.
function renew(element, fresh) {
  if (element.isEqualNode(fresh)) return;
  for (const { name, value } of [...fresh.attributes]) if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  if (element.childNodes.length !== fresh.childNodes.length) return element.replaceChildren(...fresh.cloneNode(true).childNodes);
  [...fresh.cloneNode(true).childNodes].forEach((child, k) => {
    if (!element.childNodes[k].isEqualNode(child)) element.childNodes[k].replaceWith(child);
  });
}

// Whether a click is the second on the same thing: the graph around a step is made anew after the first.
const lastClick = { what: null, time: 0 };

function isSecond(what, event) {
  const second = lastClick.what === what && event.timeStamp - lastClick.time < 450;
  Object.assign(lastClick, { what: second ? null : what, time: event.timeStamp });
  return second;
}

// The text of a large array: what it is, its shape, its norm, and its first entries.
const ARRAY = /^(diagonal )?([\d×]+), norm ([^:]+): (.*)$/;

// An array by its shape and norm alone, where there is no room for more.
function brief(text, digits = 17) {
  const array = ARRAY.exec(text);
  return array ? `${array[2]} ‖${rounded(array[3], digits)}‖` : rounded(text, digits);
}
