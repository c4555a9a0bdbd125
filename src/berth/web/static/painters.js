// Two ways to draw the same picture: on a canvas, which stays fluid with thousands of nodes, and as SVG to keep.

import { s, sheet } from "./dom.js";

export class CanvasPainter {
  constructor(canvas, width, height) {
    const ratio = Math.min(window.devicePixelRatio || 1, width * height > 12e6 ? 1 : 2);
    canvas.width = Math.ceil(width * ratio);
    canvas.height = Math.ceil(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.context = canvas.getContext("2d");
    this.context.scale(ratio, ratio);
    this.context.textBaseline = "middle";
  }

  rect(x, y, w, h, { fill, stroke, line = 1, radius = 0, dash }) {
    const c = this.context;
    c.beginPath();
    if (radius && c.roundRect) c.roundRect(x, y, w, h, radius);
    else c.rect(x, y, w, h);
    if (fill) { c.fillStyle = fill; c.fill(); }
    if (stroke) this.#stroke(stroke, line, dash);
  }

  line(x1, y1, x2, y2, stroke, width = 1) {
    const c = this.context;
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
    this.#stroke(stroke, width);
  }

  #stroke(stroke, width, dash = []) {
    this.context.setLineDash(dash);
    this.context.lineWidth = width;
    this.context.strokeStyle = stroke;
    this.context.stroke();
  }

  text(x, y, text, { fill, size = 12, weight = 400, room = Infinity, align = "left" }) {
    const c = this.context;
    c.font = `${weight} ${size}px system-ui, sans-serif`;
    c.fillStyle = fill;
    c.textAlign = align;
    c.fillText(fitted(text, room, (each) => c.measureText(each).width), x, y);
  }
}

export class SvgPainter {
  constructor(width, height, background) {
    this.svg = sheet(width, height, background);
  }

  rect(x, y, w, h, { fill = "none", stroke, line = 1, radius = 0, dash }) {
    this.svg.append(s("rect", { x, y, width: w, height: h, fill, stroke, "stroke-width": stroke ? line : undefined, rx: radius || undefined, "stroke-dasharray": dash?.join(" ") }));
  }

  line(x1, y1, x2, y2, stroke, width = 1) {
    this.svg.append(s("line", { x1, y1, x2, y2, stroke, "stroke-width": width }));
  }

  text(x, y, text, { fill, size = 12, weight = 400, room = Infinity, align = "left" }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    this.svg.append(s("text", { x, y: y + size * 0.36, fill, "font-size": size, "font-weight": weight, "text-anchor": anchor },
      fitted(text, room, (each) => each.length * size * 0.56)));
  }
}

function fitted(text, room, width) {
  if (width(text) <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (width(`${text.slice(0, middle)}…`) <= room) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
