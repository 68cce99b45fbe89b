// Panels: a titled figure with one ECharts chart, drawn when it comes into view, and its numbers as CSV.
import { BarChart, LineChart, type BarSeriesOption, type LineSeriesOption } from 'echarts/charts';
import { GridComponent, MarkLineComponent, TooltipComponent } from 'echarts/components';
import type { GridComponentOption, TooltipComponentOption } from 'echarts/components';
import * as echarts from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';

import { ticks, timeText, type Ticks } from './axis';
import type { Epoch, Run } from './data';
import { decimal, duration, linesToCsv, percent, points, toCsv, type Cell, type Point } from './derive';
import { csvButton, h, whenNear, type Child } from './dom';
import { color, ink, lookOfRun } from './palette';
import type { Change, State } from './state';

echarts.use([LineChart, BarChart, GridComponent, TooltipComponent, MarkLineComponent, CanvasRenderer]);

export type Option = echarts.ComposeOption<LineSeriesOption | BarSeriesOption | GridComponentOption | TooltipComponentOption>;
export type Unit = 'percent' | 'number' | 'seconds';

/// By panel; tests ask them for their data.
export const charts = new Map<string, echarts.ECharts>();

export const kFont = '"Inter Variable", system-ui, sans-serif';
const calm = matchMedia('(prefers-reduced-motion: reduce)');

export const formatValue = (value: number, unit: Unit): string => (unit === 'percent' ? percent(value) : unit === 'seconds' ? duration(value) : decimal(value));

const axisText = (value: number, unit: Unit): string =>
  unit === 'percent' ? `${Number((value * 100).toFixed(2))} %` : unit === 'seconds' ? timeText(value) : decimal(value);

// ---- one panel

export interface PanelOptions {
  id: string;
  title: string;
  note?: string;
  wide?: boolean;
  height?: number;
  /// Drawn anew after these changes, besides the theme.
  after?: Change[];
  /// Null: nothing to show, which `empty` then says.
  option: () => Option | null;
  empty?: string;
  csv: () => string;
  /// Under the title, drawn with the chart.
  legend?: () => Child[];
  /// Epochs from left to right: dragging and Ctrl + wheel zoom all such panels.
  epochs?: boolean;
  /// Data places along the axis, for the arrow keys.
  stops?: () => number;
  /// Where on the axis a stop is, if not at its own number.
  place?: (stop: number) => number;
}

export class Panel {
  readonly element: HTMLElement;
  private readonly plot: HTMLElement;
  private readonly legend: HTMLElement;
  private chart: echarts.ECharts | null = null;
  private near = false;
  private stop = -1;

  constructor(
    private readonly state: State,
    private readonly options: PanelOptions,
  ) {
    this.plot = h('div.plot', { tabindex: 0, role: 'img', 'aria-label': `Chart: ${options.title}. Arrow keys step through its values.`, id: `plot-${options.id}` });
    this.plot.style.height = `${options.height ?? 210}px`;
    this.legend = h('div.key');
    this.element = h(
      `figure.panel${options.wide ? '.wide' : ''}`,
      { id: `panel-${options.id}` },
      h('figcaption', {}, h('div', {}, h('h3', {}, options.title), options.note ? h('p.note', {}, options.note) : null), csvButton(options.title, options.csv)),
      options.legend ? this.legend : null,
      this.plot,
    );
    whenNear(this.element, () => {
      this.near = true;
      this.draw();
    });
    state.onChange((change) => {
      if (this.near && (change === 'theme' || (options.after ?? ['runs', 'range']).includes(change))) this.draw(change === 'histogram');
    });
    new ResizeObserver(() => this.chart?.resize()).observe(this.plot);
    this.plot.addEventListener('keydown', (event) => this.step(event));
    this.plot.addEventListener('blur', () => this.chart?.dispatchAction({ type: 'hideTip' }));
    if (options.epochs) this.zoomable();
  }

  private draw(merge = false): void {
    const option = this.options.option();
    if (this.options.legend) this.legend.replaceChildren(...this.options.legend().filter((child): child is Node => child instanceof Node));
    if (!option) {
      this.chart?.dispose();
      this.chart = null;
      charts.delete(this.options.id);
      this.plot.replaceChildren(h('p.nothing', {}, this.options.empty ?? 'The runs shown have no such numbers.'));
      return;
    }
    if (!this.chart) {
      this.plot.replaceChildren();
      this.chart = echarts.init(this.plot, null, { renderer: 'canvas' });
      charts.set(this.options.id, this.chart);
    }
    this.chart.setOption({ ...base(), ...option }, { notMerge: !merge });
  }

  private step(event: KeyboardEvent): void {
    const stops = this.options.stops?.() ?? 0;
    if (!this.chart || stops === 0) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === 'Escape') this.chart.dispatchAction({ type: 'hideTip' });
    if (by === undefined) return;
    event.preventDefault();
    this.stop = Math.min(stops - 1, Math.max(0, this.stop + by));
    const x = this.chart.convertToPixel({ xAxisIndex: 0 }, this.options.place?.(this.stop) ?? this.stop);
    this.chart.dispatchAction({ type: 'showTip', x, y: this.plot.clientHeight / 2 });
  }

  // Dragging over the plot zooms to those epochs, in all panels; a double click shows all again.
  private zoomable(): void {
    const band = h('div.band', { hidden: true });
    const epochAt = (x: number): number | null => {
      const range = this.state.range;
      if (!this.chart || !range) return null;
      const at = this.chart.convertFromPixel({ xAxisIndex: 0 }, x) as unknown as number;
      return Number.isFinite(at) ? range[0] + Math.min(range[1] - range[0], Math.max(0, Math.round(at))) : null;
    };
    let from: number | null = null;
    const local = (event: MouseEvent) => event.clientX - this.plot.getBoundingClientRect().left;
    this.plot.addEventListener('pointerdown', (event) => {
      if (event.pointerType !== 'mouse' || event.button !== 0 || !this.chart) return;
      from = local(event);
      this.plot.setPointerCapture(event.pointerId);
    });
    this.plot.addEventListener('pointermove', (event) => {
      if (from === null || Math.abs(local(event) - from) < 6) return;
      if (!band.isConnected) this.plot.append(band);
      band.hidden = false;
      band.style.left = `${Math.min(from, local(event))}px`;
      band.style.width = `${Math.abs(local(event) - from)}px`;
    });
    const end = (event: PointerEvent) => {
      if (from === null) return;
      const [a, b] = [epochAt(from), epochAt(local(event))];
      const dragged = !band.hidden && event.type === 'pointerup';
      from = null;
      band.hidden = true;
      if (dragged && a !== null && b !== null && a !== b) this.state.setRange([a, b]);
    };
    this.plot.addEventListener('pointerup', end);
    this.plot.addEventListener('pointercancel', end);
    this.plot.addEventListener('dblclick', () => this.state.setRange(null));
    this.plot.addEventListener(
      'wheel',
      (event) => {
        const range = this.state.range;
        const middle = epochAt(local(event));
        if (!event.ctrlKey || !range || middle === null) return;
        event.preventDefault();
        const factor = event.deltaY < 0 ? 0.7 : 1 / 0.7;
        const next = (end: number) => Math.round(middle + (end - middle) * factor);
        if (event.deltaY > 0) this.state.setRange([Math.min(range[0] - 1, next(range[0])), Math.max(range[1] + 1, next(range[1]))]);
        else if (range[1] - range[0] > 1) this.state.setRange([next(range[0]), Math.max(next(range[0]) + 1, next(range[1]))]);
      },
      { passive: false },
    );
  }
}

// ---- the look all charts share

function base(): Option {
  const of = ink();
  return {
    animation: !calm.matches,
    animationDuration: 250,
    animationDurationUpdate: 200,
    textStyle: { fontFamily: kFont, color: of.ink },
    grid: { left: 50, right: 14, top: 14, bottom: 26, outerBoundsMode: 'none' },
  };
}

export function tooltip(rows: (at: number) => { head: string; rows: { swatch: Child; name: string; value: string }[] } | null): TooltipComponentOption {
  const of = ink();
  return {
    trigger: 'axis',
    confine: true,
    transitionDuration: 0,
    backgroundColor: of.panel,
    borderColor: of.rule,
    borderWidth: 1,
    padding: [8, 10],
    textStyle: { color: of.ink, fontFamily: kFont, fontSize: 12 },
    extraCssText: 'box-shadow: 0 4px 18px rgba(0,0,0,.14); border-radius: 6px; max-width: 320px; white-space: normal;',
    axisPointer: { type: 'line', lineStyle: { color: of.muted, width: 1, type: 'solid', opacity: 0.6 }, z: 0 },
    formatter: (params) => {
      const first = Array.isArray(params) ? params[0] : params;
      const at = Number((first as { axisValue?: unknown }).axisValue ?? first?.dataIndex ?? 0);
      const shown = rows(at);
      if (!shown) return '';
      return h(
        'div.tip',
        {},
        h('strong', {}, shown.head),
        h('div.tip-rows', {}, ...shown.rows.flatMap((row) => [h('span.tip-swatch', {}, row.swatch), h('span.tip-name', { dir: 'auto' }, row.name), h('span.tip-value', {}, row.value)])),
      );
    },
  };
}

const axisLabel = () => ({ color: ink().muted, fontSize: 11, fontFamily: kFont });

export function epochAxis(range: [number, number], bars: boolean): Option['xAxis'] {
  const of = ink();
  const epochs = Array.from({ length: range[1] - range[0] + 1 }, (_, i) => String(range[0] + i));
  return {
    type: 'category',
    data: epochs,
    boundaryGap: bars,
    axisLine: { lineStyle: { color: of.rule }, onZero: false },
    axisTick: { show: false },
    axisLabel: { ...axisLabel(), hideOverlap: true, margin: 9 },
  };
}

export function valueAxis(unit: Unit, at: Ticks) {
  return {
    type: 'value' as const,
    ...at,
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { ...axisLabel(), formatter: (value: number) => axisText(value, unit) },
    splitLine: { lineStyle: { color: ink().rule, width: 1 } },
  };
}

export function swatch(look: { color: string; dash?: number[] | null; marker?: string }, width = 26): SVGElement {
  const y = 6;
  const middle = width / 2;
  const element = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  element.setAttribute('width', String(width));
  element.setAttribute('height', '12');
  element.setAttribute('aria-hidden', 'true');
  element.setAttribute('class', 'swatch');
  const part = (tag: string, attributes: Record<string, string | number>) => {
    const child = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) child.setAttribute(name, String(value));
    element.append(child);
  };
  part('line', { x1: 0, x2: width, y1: y, y2: y, stroke: look.color, 'stroke-width': 2, ...(look.dash ? { 'stroke-dasharray': look.dash.join(' '), 'stroke-dashoffset': look.dash[0] / 2 - middle } : {}) });
  if (look.marker === 'circle') part('circle', { cx: middle, cy: y, r: 3.6, fill: look.color });
  if (look.marker === 'rect') part('rect', { x: middle - 3.4, y: y - 3.4, width: 6.8, height: 6.8, fill: look.color });
  if (look.marker === 'triangle') part('path', { d: `M${middle} ${y - 4.6}l4.6 8h-9.2z`, fill: look.color });
  if (look.marker === 'diamond') part('path', { d: `M${middle} ${y - 5}l5 5l-5 5l-5-5z`, fill: look.color });
  return element;
}

// ---- lines of the runs over the epochs

export interface LineOptions {
  id: string;
  title: string;
  note?: string;
  unit: Unit;
  wide?: boolean;
  height?: number;
  pick: (epoch: Epoch) => number | null;
  target?: (run: Run) => number | null;
  limits?: Ticks;
}

export function linePanel(state: State, options: LineOptions): Panel {
  const lines = (): { run: Run; points: Point[] }[] => {
    const range = state.range;
    if (!range) return [];
    return state.shown.map((run) => ({ run, points: points(run, options.pick, range) })).filter((line) => line.points.length > 0);
  };
  return new Panel(state, {
    ...options,
    epochs: true,
    stops: () => (state.range ? state.range[1] - state.range[0] + 1 : 0),
    csv: () => linesToCsv(lines().map((line) => ({ name: line.run.name, points: line.points }))),
    option: () => {
      const drawn = lines();
      const range = state.range;
      if (!range || drawn.length === 0) return null;
      const of = ink();
      const targets = new Map<number, Run[]>();
      for (const { run } of drawn) {
        const target = options.target?.(run) ?? null;
        if (target !== null) targets.set(target, [...(targets.get(target) ?? []), run]);
      }
      const goals = [...targets.keys()];
      const limits = options.limits ?? ticks([...goals, ...drawn.flatMap((line) => line.points.map((point) => point[1]))], { time: options.unit === 'seconds' });
      return {
        tooltip: tooltip((epoch) => {
          const rows = drawn.flatMap(({ run, points }) => {
            const value = points.find((point) => point[0] === epoch)?.[1];
            return value === undefined ? [] : [{ swatch: swatch(lookOfRun(run.index), 18), name: run.name, value: formatValue(value, options.unit) }];
          });
          for (const [target] of targets) rows.push({ swatch: swatch({ color: of.muted, dash: [3, 3] }, 18), name: 'target', value: formatValue(target, options.unit) });
          return { head: `Epoch ${epoch}`, rows };
        }),
        xAxis: epochAxis(range, false),
        yAxis: valueAxis(options.unit, limits),
        series: drawn.map(({ run, points }, i): LineSeriesOption => {
          const look = lookOfRun(run.index);
          return {
            type: 'line',
            id: run.name,
            name: run.name,
            data: points.map(([epoch, value]) => [epoch - range[0], value]),
            color: look.color,
            symbol: look.marker,
            symbolSize: points.length > 60 ? 0 : points.length > 30 ? 4 : 6,
            showSymbol: true,
            showAllSymbol: true,
            lineStyle: { width: 2, type: look.dash ?? 'solid', color: look.color },
            emphasis: { disabled: true },
            clip: false,
            markLine:
              i === 0 && goals.length > 0
                ? {
                    silent: true,
                    symbol: 'none',
                    animation: false,
                    data: goals.map((goal) => ({
                      yAxis: goal,
                      lineStyle: { color: goals.length > 1 ? lookOfRun(targets.get(goal)![0].index).color : of.muted, type: [3, 3], width: 1.2 },
                      label: { formatter: `target ${axisText(goal, options.unit)}`, position: 'insideEndTop', color: of.muted, fontSize: 11, fontFamily: kFont },
                    })),
                  }
                : undefined,
          };
        }),
      };
    },
  });
}

// ---- stacked bars

export interface StackPart {
  key: string;
  name: string;
  /// Of the palette.
  color: number;
  decal: number;
}

export const kDecals = [
  null,
  { symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: Math.PI / 4 },
  { symbol: 'circle', dashArrayX: [[6, 6], [0, 6, 6, 0]], dashArrayY: [6, 0], symbolSize: 0.5 },
  { symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [2, 5], rotation: -Math.PI / 4 },
  { symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [1, 4] },
];

export function stackItem(part: StackPart): BarSeriesOption['itemStyle'] {
  const decal = kDecals[part.decal % kDecals.length];
  return { color: color(part.color), decal: decal ? { ...decal, color: 'rgba(255,255,255,.26)' } : undefined, borderColor: ink().page, borderWidth: 0.6 };
}

export function stackKey(part: StackPart, value = ''): HTMLElement {
  const box = h(`span.box.decal-${part.decal % kDecals.length}`, { 'aria-hidden': 'true' });
  box.style.backgroundColor = color(part.color);
  return h('span.key-item', {}, box, part.name, value ? h('span.key-value', {}, value) : null);
}

export interface EpochStackOptions {
  id: string;
  title: string;
  note?: string;
  unit: Unit;
  wide?: boolean;
  height?: number;
  limits?: Ticks;
  run: () => Run | null;
  parts: (run: Run) => StackPart[];
  pick: (epoch: Epoch, key: string) => number | null;
  summary?: (run: Run, part: StackPart) => string;
  empty?: string;
}

export function epochStackPanel(state: State, options: EpochStackOptions): Panel {
  const content = () => {
    const run = options.run();
    const range = state.range;
    if (!run || !range) return null;
    const parts = options.parts(run);
    const epochs = run.epochs.filter((epoch) => epoch.epoch >= range[0] && epoch.epoch <= range[1]);
    const any = epochs.some((epoch) => parts.some((part) => options.pick(epoch, part.key) !== null));
    return any ? { run, range, parts, epochs } : null;
  };
  return new Panel(state, {
    ...options,
    epochs: true,
    stops: () => (state.range ? state.range[1] - state.range[0] + 1 : 0),
    csv: () => {
      const of = content();
      const rows: Cell[][] = of ? of.epochs.map((epoch) => [epoch.epoch, ...of.parts.map((part) => options.pick(epoch, part.key))]) : [];
      return toCsv([['epoch', ...(of?.parts.map((part) => part.name) ?? [])], ...rows]);
    },
    legend: () => {
      const of = content();
      return of ? of.parts.map((part) => stackKey(part, options.summary?.(of.run, part))) : [];
    },
    option: () => {
      const of = content();
      if (!of) return null;
      const { range, parts, epochs } = of;
      const sums = epochs.map((epoch) => parts.reduce((sum, part) => sum + (options.pick(epoch, part.key) ?? 0), 0));
      return {
        tooltip: {
          ...tooltip((at) => {
            const epoch = epochs.find((item) => item.epoch === at);
            if (!epoch) return null;
            const rows = parts.flatMap((part) => {
              const value = options.pick(epoch, part.key);
              return value === null ? [] : [{ swatch: stackKey({ ...part, name: '' }), name: part.name, value: formatValue(value, options.unit) }];
            });
            return rows.length > 0 ? { head: `Epoch ${at}`, rows: rows.reverse() } : null;
          }),
          axisPointer: { type: 'shadow', shadowStyle: { color: ink().muted, opacity: 0.12 } },
        },
        xAxis: epochAxis(range, true),
        yAxis: valueAxis(options.unit, options.limits ?? ticks(sums, { zero: true, time: options.unit === 'seconds' })),
        series: parts.map((part): BarSeriesOption => ({
          type: 'bar',
          id: part.key,
          name: part.name,
          stack: 'all',
          barCategoryGap: '30%',
          barMaxWidth: 44,
          data: epochs.flatMap((epoch) => {
            const value = options.pick(epoch, part.key);
            return value === null ? [] : [[epoch.epoch - range[0], value]];
          }),
          itemStyle: stackItem(part),
          emphasis: { disabled: true },
        })),
      };
    },
  });
}

/// Chooses the run that a section of one run is about; nothing to choose, nothing shown but its name.
export function runPicker(state: State, has: (run: Run) => boolean, label: string): HTMLElement {
  const holder = h('span.picker');
  const draw = () => {
    const able = state.shown.filter(has);
    const run = state.focus(has);
    if (state.runs.length < 2 || !run) {
      holder.replaceChildren();
      return;
    }
    const select = h('select', { 'aria-label': label, dir: 'auto' }, ...able.map((item) => h('option', { value: item.index, selected: item === run }, item.name)));
    select.addEventListener('change', () => state.setFocus(state.runs[Number(select.value)]));
    const held = holder.contains(document.activeElement);
    holder.replaceChildren(h('label', {}, h('span', {}, 'Run'), select));
    if (held) select.focus();
  };
  draw();
  state.onChange((change) => {
    if (change === 'runs') draw();
  });
  return holder;
}
