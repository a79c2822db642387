// A long list of rows of one height, of which only those in sight are in the document.

class Rows {
  // `count()` and `row(k)` give the rows and `width()` their width in characters; `head` is an element that stays on top.
  // `pick(k, way)` answers the arrow keys, `enter()` the enter key, `click(k, twice)` and `hover(k)` the pointer.
  constructor(root, { height, count, row, head = null, width = () => 0, pick, enter, click, hover }) {
    Object.assign(this, { root, height, count, row, head, width, pick, enter });
    this.space = make("div", { class: "space", role: "presentation" });
    this.at = -1;
    this.top = 0; // where it is scrolled to, and how high it is: to ask the document would have it laid out anew
    this.room = root.clientHeight;
    root.replaceChildren(...(head ? [head] : []), this.space);
    root.addEventListener("scroll", () => {
      if (root.scrollTop === this.top) return;
      this.top = root.scrollTop;
      this.show();
    }, { passive: true });
    new ResizeObserver(() => {
      this.room = root.clientHeight;
      this.show();
    }).observe(root);
    root.addEventListener("keydown", (event) => this.key(event));
    const under = (event) => {
      const row = event.target.closest("[data-row]");
      return row ? Number(row.dataset.row) : -1;
    };
    root.addEventListener("click", (event) => {
      const k = under(event);
      if (k >= 0) click(k, isSecond(`${root.id} ${k}`, event));
    });
    root.addEventListener("pointerover", (event) => event.pointerType !== "touch" && hover(under(event)));
    root.addEventListener("pointerleave", () => hover(-1));
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.room / this.height) - 2);
    const by = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page }[event.key];
    if (event.key === "Enter") this.enter();
    else if (by && !event.shiftKey) this.pick(Math.min(this.count() - 1, Math.max(0, this.at + by)), Math.sign(by));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Fills in the rows that are in sight, and a few more on either side.
  show() {
    const first = Math.max(0, Math.floor(this.top / this.height) - 4);
    const last = Math.min(this.count(), Math.ceil((this.top + (this.room || 400)) / this.height) + 4);
    this.space.style.height = `${this.count() * this.height}px`;
    const width = this.width();
    this.space.style.minWidth = width ? `${width}ch` : "";
    const before = new Map([...this.space.children].map((r) => [Number(r.dataset.row), r]));
    for (const [k, row] of before) if (k < first || k >= last) row.remove();
    let active = null;
    for (let k = first; k < last; k++) {
      const element = this.row(k);
      element.dataset.row = k;
      element.style.top = `${k * this.height}px`;
      element.style.height = `${this.height}px`;
      const same = before.get(k);
      if (same) renew(same, element);
      else this.space.insertBefore(element, this.space.children[k - first] ?? null); // the reader's order is that of the rows
      if (element.getAttribute("aria-selected") === "true") active = element;
    }
    if (active) this.root.setAttribute("aria-activedescendant", active.id);
    else this.root.removeAttribute("aria-activedescendant");
  }

  // Scrolls as little as needed to have row `k` in sight.
  follow(k) {
    this.at = k;
    if (k < 0) return;
    const room = this.room - (this.head ? 30 : 0);
    const margin = Math.min(this.height * 1.5, room / 3);
    const [least, most] = [(k + 1) * this.height + margin - room, k * this.height - margin];
    if (this.top >= least && this.top <= most) return;
    const end = Math.max(0, this.count() * this.height - room);
    this.scrollTo(Math.min(end, Math.max(0, this.top > most ? most : least)));
  }

  scrollTo(top) {
    this.top = top;
    this.space.style.height = `${this.count() * this.height}px`;
    this.root.scrollTop = top;
  }
}
