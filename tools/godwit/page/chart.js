"use strict";

/* A chart of one key of the job's reports: a line of its values in training, with a band from the lowest to the
 * highest where a point stands for several steps, and marks of its values in evaluations. All is drawn on a canvas.
 *
 * A series is an object of columns of equal length: begin, end, min, max, mean. */
class Chart {
  /* `hooks`: zoom(from, to), reset(), moved(step) tell what the user did, options() says how to draw. */
  constructor(title, hooks) {
    this.title = title;
    this.hooks = hooks;
    this.train = null;
    this.evaluate = null;
    this.cursor = null; /* a step; null: the cursor is nowhere */
    this.drag = null; /* [x of the begin, x now] */
    this.figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    this.name = document.createElement("b");
    this.name.textContent = title;
    this.keys = document.createElement("span");
    this.read = document.createElement("span");
    this.read.className = "read";
    caption.append(this.name, this.keys, this.read);
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.figure.append(caption, this.canvas);
    this.visible = true;
    this.asked = false;
    this.watch();
  }

  set(train, evaluate) {
    this.train = train;
    this.evaluate = evaluate;
    this.showKeys();
    this.draw();
  }

  /* The legend is there where there are two kinds of values. */
  showKeys() {
    const both = this.train !== null && this.evaluate !== null;
    if (both === (this.keys.childElementCount > 0)) return;
    this.keys.replaceChildren();
    if (!both) return;
    for (const kind of ["train", "evaluate"]) {
      const key = document.createElement("span");
      key.className = "key " + kind;
      key.textContent = kind + " ";
      this.keys.append(key, " ");
    }
  }

  /* Asks to be drawn, with the next picture of the screen. */
  draw() {
    if (this.asked || !this.visible) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  /* The range of steps that is shown. */
  extent() {
    const range = this.hooks.options().range;
    if (range !== null) return range;
    let from = Infinity, to = -Infinity;
    for (const s of [this.train, this.evaluate]) {
      if (s === null || s.begin.length === 0) continue;
      from = Math.min(from, s.begin[0]);
      to = Math.max(to, s.end[s.end.length - 1]);
    }
    if (!(from <= to)) return [0, 1];
    return from === to ? [from - 1, to + 1] : [from, to];
  }

  /* The highest and lowest value in a range of steps, of what can be drawn. */
  bounds(from, to, log) {
    let low = Infinity, high = -Infinity;
    for (const s of [this.train, this.evaluate]) {
      if (s === null) continue;
      for (let i = 0; i < s.begin.length; i++) {
        if (s.end[i] < from || s.begin[i] > to) continue;
        if (!log || s.min[i] > 0) low = Math.min(low, s.min[i]);
        else if (s.mean[i] > 0) low = Math.min(low, s.mean[i]);
        if (!log || s.max[i] > 0) high = Math.max(high, s.max[i]);
      }
    }
    if (!(low <= high)) return log ? [0.1, 1] : [0, 1];
    if (low === high) {
      const by = low === 0 ? 1 : Math.abs(low) * 0.1;
      return log ? [low / 1.2, high * 1.2] : [low - by, high + by];
    }
    return [low, high];
  }

  /* Values with the noise taken out: a mean in which older values count less and less. `unit` steps take as much of
   * their weight as one point of a curve of single steps. */
  static smooth(s, weight, unit) {
    if (weight === 0) return s.mean;
    let sum = 0, norm = 0, before = s.begin[0];
    return s.mean.map((value, i) => {
      const kept = weight ** (Math.max(1, s.end[i] - before) / unit);
      before = s.end[i];
      sum = kept * sum + (1 - kept) * value;
      norm = kept * norm + (1 - kept);
      return sum / norm;
    });
  }

  static ticks(low, high, most) {
    const span = high - low, raw = span / most, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((f) => f * unit).find((s) => span / s <= most) || 10 * unit;
    const list = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9 && list.length < 20; i++) list.push(i * step);
    return list;
  }

  static logTicks(low, high) {
    const list = [];
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / 6));
    for (let e = first; e <= last; e += every)
      for (const f of last - first <= 2 ? [1, 2, 5] : [1]) {
        const value = f * 10 ** e;
        if (value >= low && value <= high) list.push(value);
      }
    return list.length > 1 ? list : [low, high];
  }

  paint() {
    const canvas = this.canvas, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (width === 0 || height === 0) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const g = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue("--" + name).trim();
    const options = this.hooks.options();
    const [from, to] = this.extent();
    const [low, high] = this.bounds(from, to, options.log);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const yTicks = options.log ? Chart.logTicks(low, high) : Chart.ticks(low, high, 5);
    const left = Math.min(70, 10 + Math.max(...yTicks.map((t) => g.measureText(Chart.number(t)).width)));
    const area = { left, right: width - 8, top: 6, bottom: height - 20 };
    const scaleX = (area.right - area.left) / (to - from);
    const place = options.log ? Math.log10 : (v) => v;
    const base = place(low), spanY = place(high) - base || 1;
    const pad = 0.06 * (area.bottom - area.top);
    const scaleY = (area.bottom - area.top - 2 * pad) / spanY;
    const x = (step) => area.left + (step - from) * scaleX;
    const y = (value) => area.bottom - pad - (place(value) - base) * scaleY;
    this.geometry = { area, from, to, scaleX };

    g.strokeStyle = color("grid");
    g.fillStyle = color("soft");
    g.lineWidth = 1;
    g.textBaseline = "middle";
    g.textAlign = "right";
    for (const t of yTicks) {
      const at = Math.round(y(t)) + 0.5;
      if (at < area.top - 1 || at > area.bottom + 1) continue;
      g.beginPath();
      g.moveTo(area.left, at);
      g.lineTo(area.right, at);
      g.stroke();
      g.fillText(Chart.number(t), area.left - 5, at);
    }
    g.textBaseline = "top";
    const xTicks = Chart.ticks(from, to, Math.max(2, Math.floor((area.right - area.left) / 90)));
    for (const t of xTicks) {
      if (t !== Math.round(t)) continue;
      const text = Chart.step(t), half = g.measureText(text).width / 2;
      g.textAlign = x(t) + half > width ? "right" : x(t) - half < 0 ? "left" : "center";
      g.fillText(text, Math.min(x(t), width - 1), area.bottom + 5);
    }
    g.save();
    g.beginPath();
    g.rect(area.left, 0, area.right - area.left + 1, area.bottom + 2);
    g.clip();
    const fits = (v) => !options.log || v > 0;
    if (this.train !== null) this.paintLine(g, this.train, x, y, fits, color("a"), options.smoothing);
    if (this.evaluate !== null) this.paintMarks(g, this.evaluate, x, y, fits, color("b"));
    if (this.drag !== null) {
      g.fillStyle = color("strong");
      g.globalAlpha = 0.2;
      g.fillRect(Math.min(...this.drag), area.top, Math.abs(this.drag[1] - this.drag[0]), area.bottom - area.top);
      g.globalAlpha = 1;
    }
    if (this.cursor !== null) {
      g.strokeStyle = color("soft");
      g.setLineDash([3, 3]);
      g.beginPath();
      g.moveTo(x(this.cursor), area.top);
      g.lineTo(x(this.cursor), area.bottom);
      g.stroke();
      g.setLineDash([]);
    }
    g.restore();
    this.showReading();
  }

  paintLine(g, s, x, y, fits, color, smoothing) {
    const middle = (i) => x((s.begin[i] + s.end[i]) / 2);
    g.fillStyle = g.strokeStyle = color;
    g.globalAlpha = smoothing > 0 ? 0.12 : 0.22;
    g.beginPath();
    for (let i = 0; i < s.begin.length; i++) {
      if (s.end[i] === s.begin[i] || !fits(s.min[i])) continue;
      const top = y(s.max[i]), width = Math.max(1, x(s.end[i] + 1) - x(s.begin[i]));
      g.rect(x(s.begin[i]), top, width, Math.max(1, y(s.min[i]) - top));
    }
    g.fill();
    const line = (values) => {
      let open = false;
      g.beginPath();
      for (let i = 0; i < values.length; i++) {
        if (!fits(values[i])) {
          open = false;
          continue;
        }
        /* Where steps are missing, no line leads to the next. */
        const apart = i > 0 && s.begin[i] - s.end[i - 1] > 3 * (s.end[i] - s.begin[i] + 1) + this.usualGap(s);
        if (open && !apart) g.lineTo(middle(i), y(values[i]));
        else g.moveTo(middle(i), y(values[i]));
        open = true;
      }
      g.stroke();
    };
    g.lineJoin = "round";
    if (smoothing > 0) {
      g.globalAlpha = 0.3;
      g.lineWidth = 1;
      line(s.mean);
    }
    g.globalAlpha = 1;
    g.lineWidth = 1.8;
    line(Chart.smooth(s, smoothing, Math.max(1, (this.geometry.to - this.geometry.from) / 400)));
    if (s.begin.length === 1 && fits(s.mean[0])) {
      g.beginPath();
      g.arc(middle(0), y(s.mean[0]), 3, 0, 7);
      g.fill();
    }
  }

  /* The usual distance of neighbours, which is more than one where evaluations are in between. */
  usualGap(s) {
    const last = s.begin.length - 1;
    return last < 1 ? 1 : 4 * Math.max(1, (s.begin[last] - s.begin[0]) / last - (s.end[1] - s.begin[1])); /* the first point is of one step */
  }

  paintMarks(g, s, x, y, fits, color) {
    g.strokeStyle = g.fillStyle = color;
    g.lineWidth = 1.2;
    g.setLineDash([2, 3]);
    g.beginPath();
    for (let i = 0, open = false; i < s.begin.length; i++) {
      if (!fits(s.mean[i])) continue;
      const at = [x((s.begin[i] + s.end[i]) / 2), y(s.mean[i])];
      if (open) g.lineTo(...at);
      else g.moveTo(...at);
      open = true;
    }
    g.stroke();
    g.setLineDash([]);
    const size = s.begin.length > 60 ? 2.5 : 4;
    for (let i = 0; i < s.begin.length; i++) {
      if (!fits(s.mean[i])) continue;
      const cx = x((s.begin[i] + s.end[i]) / 2), cy = y(s.mean[i]);
      g.beginPath();
      g.moveTo(cx, cy - size);
      g.lineTo(cx + size, cy);
      g.lineTo(cx, cy + size);
      g.lineTo(cx - size, cy);
      g.closePath();
      g.fill();
    }
  }

  /* The point of a series that is closest to a step; -1: it has none. */
  static near(s, step) {
    if (s === null || s.begin.length === 0) return -1;
    let low = 0, high = s.begin.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (s.end[middle] < step) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && Math.abs(step - s.end[low - 1]) < Math.abs(s.begin[low] - step)) low--;
    return low;
  }

  showReading() {
    const parts = [];
    for (const [kind, s] of [["", this.train], ["evaluate ", this.evaluate]]) {
      const i = this.cursor === null && s !== null ? s.begin.length - 1 : Chart.near(s, this.cursor);
      if (i < 0) continue;
      const one = s.begin[i] === s.end[i];
      const at = one ? Chart.step(s.begin[i]) : Chart.step(s.begin[i]) + "–" + Chart.step(s.end[i]);
      const value = one ? Chart.number(s.mean[i], 6)
        : Chart.number(s.mean[i], 5) + " (" + Chart.number(s.min[i]) + " to " + Chart.number(s.max[i]) + ")";
      parts.push(kind + value + " at " + at);
    }
    const text = parts.join(", ");
    if (this.read.textContent !== text) this.read.textContent = text;
    this.canvas.setAttribute("aria-label", this.title + ": " + (text || "no values"));
  }

  /* A number in few digits. */
  static number(value, digits = 4) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e15 || size < 1e-4) return value.toExponential(Math.min(2, digits - 1)).replace("e+", "e");
    const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]];
    for (const [unit, letter] of units)
      if (size >= unit) {
        const by = letter === "k" ? 1e3 : unit;
        return String(Number((value / by).toPrecision(digits))) + letter;
      }
    return String(Number(value.toPrecision(digits)));
  }

  static step(step) {
    return step < 1e6 ? String(step) : step.toLocaleString("en").replaceAll(",", "\u202f");
  }

  /* What the user does. */

  watch() {
    const canvas = this.canvas;
    const stepAt = (px) => {
      const g = this.geometry;
      return g ? Math.round(Math.min(g.to, Math.max(g.from, g.from + (px - g.area.left) / g.scaleX))) : 0;
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.geometry) return;
      this.drag = [event.offsetX, event.offsetX];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.drag !== null) this.drag[1] = event.offsetX;
      this.hooks.moved(stepAt(event.offsetX));
    });
    canvas.addEventListener("pointerup", () => {
      const drag = this.drag;
      this.drag = null;
      if (drag !== null && Math.abs(drag[1] - drag[0]) > 8)
        this.hooks.zoom(stepAt(Math.min(...drag)), stepAt(Math.max(...drag)));
      this.draw();
    });
    canvas.addEventListener("pointercancel", () => {
      this.drag = null;
      this.draw();
    });
    canvas.addEventListener("pointerleave", () => this.hooks.moved(null));
    canvas.addEventListener("blur", () => this.hooks.moved(null));
    canvas.addEventListener("dblclick", () => this.hooks.reset());
    canvas.addEventListener("keydown", (event) => this.key(event));
    new IntersectionObserver((entries) => {
      this.visible = entries[entries.length - 1].isIntersecting;
      this.draw();
    }, { rootMargin: "200px" }).observe(canvas);
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  key(event) {
    const [from, to] = this.extent(), span = to - from, step = Math.max(1, Math.round(span / 50));
    const at = this.cursor === null ? to : this.cursor;
    const zoom = (factor) => {
      const half = Math.max(2, span * factor) / 2;
      this.hooks.zoom(Math.max(0, Math.round(at - half)), Math.round(at + half));
    };
    const moves = { ArrowLeft: at - step, ArrowRight: at + step, Home: from, End: to };
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in moves) this.hooks.moved(Math.min(to, Math.max(from, moves[event.key])));
    else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "Escape") this.hooks.reset();
    else return;
    event.preventDefault();
  }
}
