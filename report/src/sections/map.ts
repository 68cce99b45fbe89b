import { runPicker } from '../chart';
import type { EmbeddingMap, Run } from '../data';
import { neighborsRight, toCsv, weightsIn } from '../derive';
import { announce, csvButton, h, named, whenNear } from '../dom';
import { ink, isDark, kMarkers, lookOfClass, otherClass, sameClass, type Marker } from '../palette';
import type { MapView, State } from '../state';
import { classList, className, classSays, classSwatch, hitSwatch, neighborsOf, pointName } from './map_side';
import { Sheets } from './pictures';
import { nothing, section, type Section } from './section';

const kMaxZoom = 60;

function shape(context: CanvasRenderingContext2D, marker: Marker, x: number, y: number, r: number): void {
  context.beginPath();
  if (marker === 'circle') context.arc(x, y, r, 0, 2 * Math.PI);
  else if (marker === 'rect') context.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
  else if (marker === 'triangle') {
    context.moveTo(x, y - r * 1.15);
    context.lineTo(x + r * 1.1, y + r * 0.85);
    context.lineTo(x - r * 1.1, y + r * 0.85);
    context.closePath();
  } else {
    context.moveTo(x, y - r * 1.25);
    context.lineTo(x + r * 1.25, y);
    context.lineTo(x, y + r * 1.25);
    context.lineTo(x - r * 1.25, y);
    context.closePath();
  }
}

/// The map of one run on a canvas. Places are in units of the map's extent, [-1, 1], y downwards here.
class MapCanvas {
  readonly canvas = h('canvas', {
    tabindex: 0,
    role: 'application',
    'aria-label': 'Map of the embedding. Arrow keys move, plus and minus zoom, 0 shows all, Enter picks the image nearest the middle, Escape lets go.',
  });
  readonly hover = h('div.map-hover', { hidden: true });
  private readonly x: Float32Array;
  private readonly y: Float32Array;
  private readonly right: Uint8Array;
  private view: MapView = { zoom: 1, x: 0, y: 0 };
  private frame = 0;
  private hovered = -1;
  private sprites = new Map<number, HTMLCanvasElement>();
  private spriteKey = '';
  private width = 0;
  private height = 0;

  constructor(
    private readonly state: State,
    private readonly map: EmbeddingMap,
    readonly sheets: Sheets,
    private readonly onPick: (id: number | null) => void,
  ) {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < map.points; ++i) {
      if (!Number.isFinite(map.x[i]) || !Number.isFinite(map.y[i])) continue;
      [x0, x1, y0, y1] = [Math.min(x0, map.x[i]), Math.max(x1, map.x[i]), Math.min(y0, map.y[i]), Math.max(y1, map.y[i])];
    }
    const half = Math.max(x1 - x0, y1 - y0) / 2 || 1;
    this.x = Float32Array.from({ length: map.points }, (_, i) => (map.x[i] - (x0 + x1) / 2) / half);
    this.y = Float32Array.from({ length: map.points }, (_, i) => ((y0 + y1) / 2 - map.y[i]) / half);
    this.right = Uint8Array.from({ length: map.points }, (_, i) => (map.neighbors[i]?.length ? (map.label[map.neighbors[i][0]] === map.label[i] ? 1 : 0) : 2));
    if (state.saved.mapView) this.view = state.saved.mapView;
    this.listen();
    void sheets.load().then(() => this.draw());
  }

  resize(): void {
    const box = this.canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    if (box.width === 0) return;
    [this.width, this.height] = [box.width, box.height];
    this.canvas.width = Math.round(box.width * scale);
    this.canvas.height = Math.round(box.height * scale);
    this.draw();
  }

  draw(): void {
    if (!this.frame)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paint();
      });
  }

  /// How many points have a nearest neighbour of their class (1), of another (0), or none (2).
  count(kind: number): number {
    return this.right.reduce((sum, each) => sum + (each === kind ? 1 : 0), 0);
  }

  /// At once, for paper.
  paintNow(): void {
    this.paint();
  }

  /// Where a point is on the canvas; also for tests.
  place(id: number): [number, number] {
    const unit = this.unit();
    return [this.width / 2 + (this.x[id] - this.view.x) * unit, this.height / 2 + (this.y[id] - this.view.y) * unit];
  }

  zoomBy(factor: number, px = this.width / 2, py = this.height / 2): void {
    const before = this.unit();
    const zoom = Math.min(kMaxZoom, Math.max(1, this.view.zoom * factor));
    const at = [this.view.x + (px - this.width / 2) / before, this.view.y + (py - this.height / 2) / before];
    this.view = { ...this.view, zoom };
    const after = this.unit();
    this.moveTo(at[0] - (px - this.width / 2) / after, at[1] - (py - this.height / 2) / after);
  }

  /// Around the picked image if it is in view, or the middle.
  zoomHere(factor: number): void {
    const chosen = this.state.saved.mapPoint;
    const [x, y] = chosen !== null ? this.place(chosen) : [-1, -1];
    if (x >= 0 && y >= 0 && x <= this.width && y <= this.height) this.zoomBy(factor, x, y);
    else this.zoomBy(factor);
  }

  reset(): void {
    this.view = { zoom: 1, x: 0, y: 0 };
    this.moveTo(0, 0);
  }

  /// Brings a point into view.
  show(id: number): void {
    const [px, py] = this.place(id);
    if (px < 30 || py < 30 || px > this.width - 30 || py > this.height - 30) this.moveTo(this.x[id], this.y[id]);
    else this.draw();
  }

  private unit(): number {
    return (Math.min(this.width, this.height) / 2 - 18) * this.view.zoom;
  }

  private moveTo(x: number, y: number): void {
    const reach = this.view.zoom <= 1 ? 0 : 1;
    const keep = (value: number) => Math.min(reach, Math.max(-reach, value));
    this.view = { zoom: this.view.zoom, x: keep(x), y: keep(y) };
    this.state.saved.mapView = this.view.zoom === 1 ? null : this.view;
    this.state.keep();
    // What was under the pointer is elsewhere now.
    this.hide();
    // Unzoomed, a finger on the map scrolls the page.
    this.canvas.style.touchAction = this.view.zoom > 1 ? 'none' : 'pan-y';
    this.draw();
  }

  private nearest(px: number, py: number, reach: number): number {
    let best = -1;
    let least = reach * reach;
    const unit = this.unit();
    const [left, top] = [px - this.width / 2, py - this.height / 2];
    for (let i = 0; i < this.map.points; ++i) {
      const x = (this.x[i] - this.view.x) * unit - left;
      const y = (this.y[i] - this.view.y) * unit - top;
      const d = x * x + y * y;
      if (d < least) [best, least] = [i, d];
    }
    return best;
  }

  private listen(): void {
    const canvas = this.canvas;
    const pointers = new Map<number, [number, number]>();
    let moved = 0;
    let span = 0;
    const local = (event: MouseEvent): [number, number] => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener('pointerdown', (event) => {
      pointers.set(event.pointerId, local(event));
      canvas.setPointerCapture(event.pointerId);
      moved = 0;
      span = 0;
    });
    canvas.addEventListener('pointermove', (event) => {
      const at = local(event);
      const before = pointers.get(event.pointerId);
      if (!before) return this.hoverAt(at[0], at[1]);
      pointers.set(event.pointerId, at);
      moved += Math.abs(at[0] - before[0]) + Math.abs(at[1] - before[1]);
      if (pointers.size === 1 && moved > 4 && this.view.zoom > 1) {
        this.hide();
        this.moveTo(this.view.x - (at[0] - before[0]) / this.unit(), this.view.y - (at[1] - before[1]) / this.unit());
      } else if (pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        const now = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (span > 0) this.zoomBy(now / span, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
        span = now;
      }
    });
    const up = (event: PointerEvent) => {
      const one = pointers.size === 1;
      if (!pointers.delete(event.pointerId)) return;
      if (event.type !== 'pointerup' || !one || moved > 6) return;
      const [px, py] = local(event);
      const id = this.nearest(px, py, event.pointerType === 'mouse' ? 16 : 26);
      this.onPick(id < 0 ? null : id);
    };
    canvas.addEventListener('pointerup', up);
    canvas.addEventListener('pointercancel', up);
    canvas.addEventListener('pointerleave', () => this.hide());
    canvas.addEventListener(
      'wheel',
      (event) => {
        // Whoever only scrolls past the map is not caught by it.
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
        event.preventDefault();
        this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0022)), ...local(event));
        this.hoverAt(...local(event));
      },
      { passive: false },
    );
    canvas.addEventListener('dblclick', (event) => this.zoomBy(2, ...local(event)));
    canvas.addEventListener('keydown', (event) => {
      const step = 60 / this.unit();
      const act: Record<string, () => void> = {
        ArrowLeft: () => this.moveTo(this.view.x - step, this.view.y),
        ArrowRight: () => this.moveTo(this.view.x + step, this.view.y),
        ArrowUp: () => this.moveTo(this.view.x, this.view.y - step),
        ArrowDown: () => this.moveTo(this.view.x, this.view.y + step),
        '+': () => this.zoomHere(1.5),
        '=': () => this.zoomHere(1.5),
        '-': () => this.zoomHere(1 / 1.5),
        '0': () => this.reset(),
        Enter: () => this.onPick(this.nearest(this.width / 2, this.height / 2, Infinity)),
        Escape: () => this.onPick(null),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !act[event.key]) return;
      event.preventDefault();
      act[event.key]();
    });
  }

  private hide(): void {
    this.hover.hidden = true;
    if (this.hovered >= 0) {
      this.hovered = -1;
      this.draw();
    }
  }

  private hoverAt(px: number, py: number): void {
    const id = this.nearest(px, py, 14);
    this.canvas.style.cursor = id >= 0 ? 'pointer' : this.view.zoom > 1 ? 'grab' : 'default';
    if (id === this.hovered) return;
    if (id < 0) return this.hide();
    this.hovered = id;
    this.hover.replaceChildren(
      ...(this.sheets.exist ? [this.sheets.element(id, pointName(this.map, id), 96)] : []),
      h('span.hover-class', {}, classSwatch(this.map.label[id]), named(className(this.map, this.map.label[id]))),
      named(pointName(this.map, id), 'hover-name'),
    );
    this.hover.hidden = false;
    const [x, y] = this.place(id);
    const [w, t] = [this.hover.offsetWidth, this.hover.offsetHeight];
    this.hover.style.left = `${Math.max(4, x + 16 + w > this.width ? x - w - 16 : x + 16)}px`;
    this.hover.style.top = `${Math.min(this.height - t - 4, Math.max(4, y - t / 2))}px`;
    this.draw();
  }

  // Points are stamped from small pictures of their marks: thousands of paths a frame would not be smooth.
  private sprite(id: number, radius: number, scale: number): HTMLCanvasElement {
    const hit = this.state.saved.mapColoring === 'hit';
    const kind = hit ? this.right[id] : this.map.label[id];
    const known = this.sprites.get(kind);
    if (known) return known;
    const size = Math.ceil((radius * 1.3 + 2) * 2 * scale);
    const sprite = h('canvas', { width: size, height: size });
    const context = sprite.getContext('2d')!;
    context.translate(size / 2, size / 2);
    context.scale(scale, scale);
    if (hit && kind !== 1) {
      context.strokeStyle = kind === 0 ? otherClass() : ink().muted;
      context.lineWidth = Math.max(1.4, radius * 0.5);
      const r = radius * 0.85;
      context.beginPath();
      context.moveTo(-r, -r);
      context.lineTo(r, r);
      if (kind === 0) {
        context.moveTo(r, -r);
        context.lineTo(-r, r);
      }
      context.stroke();
    } else {
      const look = hit ? { color: sameClass(), marker: kMarkers[0], hollow: false } : lookOfClass(kind);
      shape(context, look.marker, 0, 0, look.hollow ? radius * 0.85 : radius);
      context.fillStyle = look.color;
      context.strokeStyle = look.hollow ? look.color : ink().panel;
      context.lineWidth = look.hollow ? Math.max(1.2, radius * 0.42) : 0.7;
      if (!look.hollow) context.fill();
      context.stroke();
    }
    this.sprites.set(kind, sprite);
    return sprite;
  }

  private edgeColor(id: number): string {
    if (this.state.saved.mapColoring === 'hit') return this.right[id] === 1 ? sameClass() : otherClass();
    return lookOfClass(this.map.label[id]).color;
  }

  private paint(): void {
    const context = this.canvas.getContext('2d');
    if (!context || this.width === 0) return;
    const scale = window.devicePixelRatio || 1;
    const of = ink();
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const { zoom } = this.view;
    const few = (2500 / Math.max(400, this.map.points)) ** 0.32;
    const radius = Math.min(6, 2.9 * few * Math.sqrt(Math.min(this.width, this.height) / 560) * zoom ** 0.3);
    const chosen = this.state.saved.mapPoint;
    const only = this.state.saved.mapClass;
    const margin = 60;
    const seen: number[] = [];
    // Thousands of points a frame: no array for each of them.
    const unit = this.unit();
    const [left, top] = [this.width / 2 - this.view.x * unit, this.height / 2 - this.view.y * unit];
    for (let id = 0; id < this.map.points; ++id) {
      const x = left + this.x[id] * unit;
      const y = top + this.y[id] * unit;
      if (x > -margin && y > -margin && x < this.width + margin && y < this.height + margin) seen.push(id);
    }
    const spriteKey = `${radius.toFixed(2)} ${scale} ${isDark()} ${this.state.saved.mapColoring}`;
    if (spriteKey !== this.spriteKey) this.sprites.clear();
    this.spriteKey = spriteKey;
    const stamp = (id: number) => {
      const sprite = this.sprite(id, radius, scale);
      const size = sprite.width / scale;
      context.drawImage(sprite, left + this.x[id] * unit - size / 2, top + this.y[id] * unit - size / 2, size, size);
    };
    const faded = (id: number) => only !== null && this.map.label[id] !== only && this.map.label[id] !== this.state.saved.mapOther;
    context.globalAlpha = 0.13;
    if (only !== null) for (const id of seen) if (faded(id)) stamp(id);
    context.globalAlpha = 0.92;
    for (const id of seen) if (!faded(id)) stamp(id);
    context.globalAlpha = 1;

    const neighbors = chosen !== null ? (this.map.neighbors[chosen] ?? []) : [];
    const right = chosen !== null ? neighborsRight(this.map.label, neighbors, chosen) : [];
    if (chosen !== null) {
      const [x, y] = this.place(chosen);
      neighbors.forEach((neighbor, i) => {
        const [nx, ny] = this.place(neighbor);
        context.strokeStyle = right[i] ? sameClass() : otherClass();
        context.lineWidth = 1.6;
        context.setLineDash(right[i] ? [] : [4, 4]);
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(nx, ny);
        context.stroke();
      });
      context.setLineDash([]);
    }

    const thumb = Math.round(Math.min(64, 15 * zoom ** 0.55));
    const pictured = new Set<number>();
    if (zoom >= 2.5 && this.sheets.exist) {
      // A picture is drawn where no earlier one covers its place, so that pictures never hide each other.
      const taken = new Map<string, [number, number][]>();
      const cell = thumb + 3;
      const place = (id: number): void => {
        const [x, y] = this.place(id);
        const [cx, cy] = [Math.floor(x / cell), Math.floor(y / cell)];
        for (let i = cx - 1; i <= cx + 1; ++i)
          for (let j = cy - 1; j <= cy + 1; ++j)
            for (const [ox, oy] of taken.get(`${i},${j}`) ?? []) if (Math.abs(ox - x) < cell && Math.abs(oy - y) < cell) return;
        if (!this.sheets.draw(context, id, x - thumb / 2, y - thumb / 2, thumb)) return;
        pictured.add(id);
        const key = `${cx},${cy}`;
        taken.set(key, [...(taken.get(key) ?? []), [x, y]]);
        context.strokeStyle = this.edgeColor(id);
        context.lineWidth = 2;
        context.strokeRect(x - thumb / 2, y - thumb / 2, thumb, thumb);
      };
      for (const id of chosen !== null ? [chosen, ...neighbors] : []) place(id);
      for (const id of seen) if (!faded(id)) place(id);
    }

    const around = (id: number, stroke: string, width: number, dash: number[] = []) => {
      const [x, y] = this.place(id);
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dash);
      context.beginPath();
      if (pictured.has(id)) context.rect(x - thumb / 2 - 3, y - thumb / 2 - 3, thumb + 6, thumb + 6);
      else context.arc(x, y, radius + 4, 0, 2 * Math.PI);
      context.stroke();
      context.setLineDash([]);
    };
    neighbors.forEach((neighbor, i) => around(neighbor, right[i] ? sameClass() : otherClass(), 1.6, right[i] ? [] : [4, 3]));
    if (chosen !== null) around(chosen, of.ink, 2.4);
    if (this.hovered >= 0) around(this.hovered, of.ink, 1.5);
  }
}

/// The canvas now shown; tests ask it where points are.
export let currentMap: { run: Run; place: (id: number) => [number, number] } | null = null;

export function map(state: State): Section {
  const has = (run: Run) => run.map !== null;
  const lead = 'The evaluated images laid out by t-SNE: near points are alike to the network. Click an image to see its nearest neighbours.';
  if (!state.runs.some(has)) return section('map', 'Map of the embedding', '', [], nothing('None of these runs has a map. Maps are made from the embeddings that a run keeps at its last evaluation.'));
  const holder = h('div.map-holder');
  let drawnRun: Run | null = null;
  let canvas: MapCanvas | null = null;
  let redraw = () => {};

  const build = () => {
    const run = state.focus(has);
    if (run === drawnRun) return;
    if (drawnRun) {
      state.saved.mapView = null;
      state.saved.mapPoint = null;
      state.saved.mapClass = null;
      state.saved.mapOther = null;
    }
    drawnRun = run;
    canvas = null;
    currentMap = null;
    redraw = () => {};
    if (!run) return holder.replaceChildren(nothing('The runs shown have no map.'));
    const of = run.map!;
    if (state.saved.mapPoint !== null && state.saved.mapPoint >= of.points) state.saved.mapPoint = null;
    const sheets = new Sheets(of);
    const side = h('div.map-side');
    const pick = (id: number | null) => {
      state.saved.mapPoint = id;
      state.keep();
      drawSide();
      if (id !== null) {
        canvas?.show(id);
        announce(`${pointName(of, id)}, ${className(of, of.label[id])}`);
      } else canvas?.draw();
    };
    const made = new MapCanvas(state, of, sheets, pick);
    canvas = made;
    currentMap = { run, place: (id) => made.place(id) };

    const drawSide = () => {
      const id = state.saved.mapPoint;
      side.replaceChildren(...(id === null ? [] : [neighborsOf(of, sheets, id, pick)]), ...classSays(state, run), classList(state, of, run));
    };
    drawSide();
    redraw = () => {
      drawSide();
      made.draw();
    };

    const button = (label: string, title: string, act: () => void) => h('button', { type: 'button', title, 'aria-label': title, onclick: act }, label);
    const coloring = h('div.segments', { role: 'group', 'aria-label': 'Colour of the points' });
    const drawColoring = () =>
      coloring.replaceChildren(
        ...(['class', 'hit'] as const).map((mode) => {
          const item = h('button', { type: 'button', 'aria-pressed': String(state.saved.mapColoring === mode) }, mode === 'class' ? 'by class' : 'nearest right or wrong');
          item.addEventListener('click', () => {
            state.saved.mapColoring = mode;
            state.keep();
            drawColoring();
            (coloring.children[mode === 'class' ? 0 : 1] as HTMLElement).focus();
            showKey();
            made.draw();
          });
          return item;
        }),
      );
    drawColoring();
    const hits = [0, 1, 2].map((kind) => made.count(kind));
    const key = h(
      'div.key',
      {},
      h('span.key-item', {}, hitSwatch(1), `nearest other shows the same class (${hits[1].toLocaleString('en')})`),
      h('span.key-item', {}, hitSwatch(0), `another class (${hits[0].toLocaleString('en')})`),
      hits[2] > 0 ? h('span.key-item', {}, hitSwatch(2), `no neighbour known (${hits[2].toLocaleString('en')})`) : null,
    );
    const showKey = () => (key.hidden = state.saved.mapColoring !== 'hit');
    showKey();
    const frame = h(
      'div.map-frame',
      {},
      made.canvas,
      made.hover,
      h('div.map-buttons', {}, button('+', 'Zoom in', () => made.zoomHere(1.6)), button('−', 'Zoom out', () => made.zoomHere(1 / 1.6)), button('⤢', 'Show the whole map', () => made.reset())),
    );
    holder.replaceChildren(
      h(
        'div.bar',
        {},
        h('p.note', {}, `${of.points.toLocaleString('en')} ${of.of > of.points ? `of ${of.of.toLocaleString('en')} ` : ''}images of ${new Set(of.label.slice(0, of.points)).size} classes${of.evaluated_on ? ` (${of.evaluated_on})` : ''}${weightsIn(of)}. ${matchMedia('(pointer: coarse)').matches ? 'Two fingers zoom.' : 'Ctrl + wheel zooms, or a click and the wheel.'}`),
        of.neighbors.length > 0 ? coloring : null,
      ),
      key,
      h('div.map-body', {}, frame, side),
    );
    new ResizeObserver(() => made.resize()).observe(made.canvas);
  };

  whenNear(holder, build);
  state.onChange((change) => {
    if (change === 'runs' && (drawnRun || currentMap || holder.hasChildNodes())) build();
    if (change === 'map') redraw();
    if (change === 'theme' && drawnRun) {
      drawnRun = null;
      build();
      canvas?.resize();
      canvas?.paintNow();
    }
  });
  const csv = () => {
    const run = state.focus(has);
    if (!run) return '';
    const of = run.map!;
    return toCsv([['id', 'name', 'class', 'x', 'y'], ...Array.from({ length: of.points }, (_, i) => [i, pointName(of, i), className(of, of.label[i]), of.x[i], of.y[i]])]);
  };
  return section('map', 'Map of the embedding', lead, [runPicker(state, has, 'Run whose map is shown'), csvButton('Map', csv)], holder);
}
