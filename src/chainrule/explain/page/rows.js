// A long list of rows of one height, of which only those in sight are in the document.

class Rows {
  // `count()` and `row(k)` give the rows and `width()` their width in characters; `head` is an element that stays on top.
  // `pick(k, way)` answers the arrow keys, `enter()` the enter key, `click(k, times)` and `hover(k)` the pointer.
  constructor(root, { height, count, row, head = null, width = () => 0, pick, enter, click, hover }) {
    Object.assign(this, { root, height, count, row, head, width, pick, enter });
    this.space = make("div", { class: "space", role: "presentation" });
    this.at = -1;
    root.replaceChildren(...(head ? [head] : []), this.space);
    root.addEventListener("scroll", () => this.show(), { passive: true });
    new ResizeObserver(() => this.show()).observe(root);
    root.addEventListener("keydown", (event) => this.key(event));
    const under = (event) => {
      const row = event.target.closest("[data-row]");
      return row ? Number(row.dataset.row) : -1;
    };
    root.addEventListener("click", (event) => under(event) >= 0 && click(under(event), event.detail));
    root.addEventListener("pointerover", (event) => hover(under(event)));
    root.addEventListener("pointerleave", () => hover(-1));
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.height) - 2);
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page }[event.key];
    if (event.key === "Enter") this.enter();
    else if (by && !event.shiftKey) this.pick(Math.min(this.count() - 1, Math.max(0, this.at + by)), Math.sign(by));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Fills in the rows that are in sight, and a few more on either side.
  show() {
    const { scrollTop, clientHeight } = this.root;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - 6);
    const last = Math.min(this.count(), Math.ceil((scrollTop + (clientHeight || 400)) / this.height) + 6);
    this.space.style.height = `${this.count() * this.height}px`;
    const width = this.width();
    this.space.style.minWidth = width ? `${width}ch` : "";
    const rows = [];
    for (let k = first; k < last; k++) {
      const element = this.row(k);
      element.dataset.row = k;
      element.style.top = `${k * this.height}px`;
      element.style.height = `${this.height}px`;
      rows.push(element);
    }
    this.space.replaceChildren(...rows);
    const active = rows.find((r) => r.getAttribute("aria-selected") === "true");
    if (active) this.root.setAttribute("aria-activedescendant", active.id);
    else this.root.removeAttribute("aria-activedescendant");
  }

  // Scrolls as little as needed to have row `k` in sight.
  follow(k) {
    this.at = k;
    if (k < 0) return;
    const room = this.root.clientHeight - (this.head ? this.head.offsetHeight : 0);
    const top = k * this.height;
    const margin = Math.min(this.height * 1.5, room / 3);
    if (top - margin < this.root.scrollTop) this.root.scrollTop = top - margin;
    else if (top + this.height + margin > this.root.scrollTop + room) this.root.scrollTop = top + this.height + margin - room;
  }
}
