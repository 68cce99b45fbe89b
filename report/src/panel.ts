// Panels: a titled figure with one ECharts chart, drawn when it comes into view, and its numbers as CSV. What all charts share.
import { BarChart, CustomChart, LineChart, type BarSeriesOption, type CustomSeriesOption, type LineSeriesOption } from 'echarts/charts';
import { GridComponent, MarkLineComponent, TooltipComponent } from 'echarts/components';
import type { GridComponentOption, TooltipComponentOption } from 'echarts/components';
import * as echarts from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';

import { ticks, timeText, type Ticks } from './axis';
import { decimal, duration, percent } from './derive';
import { announce, csvButton, h, isDrawnAhead, whenNear, type Child } from './dom';
import { ink } from './palette';
import type { Change, State } from './state';

echarts.use([LineChart, BarChart, CustomChart, GridComponent, TooltipComponent, MarkLineComponent, CanvasRenderer]);

export type Option = echarts.ComposeOption<LineSeriesOption | BarSeriesOption | CustomSeriesOption | GridComponentOption | TooltipComponentOption>;
export type Unit = 'percent' | 'number' | 'seconds';

/// By panel; tests ask them for their data.
export const charts = new Map<string, echarts.ECharts>();

const panels = new Set<Panel>();
let printing = false;

/// Before printing, everything is drawn in its final state; afterwards charts may move again.
export function drawForPrint(on: boolean): void {
  printing = on;
  if (on) for (const panel of panels) panel.drawNow();
}

// Hovering one chart shows the same place in all others of its group.
export const kEpochs = 'epochs';
export const kTime = 'time';
echarts.connect(kEpochs);
echarts.connect(kTime);

export const kFont = '"Inter Variable", system-ui, sans-serif';
const calm = matchMedia('(prefers-reduced-motion: reduce)');

export const formatValue = (value: number, unit: Unit): string => (unit === 'percent' ? percent(value) : unit === 'seconds' ? duration(value) : decimal(value));

export const axisText = (value: number, unit: Unit): string =>
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
  /// Which others show the same place when this one is hovered.
  group?: () => string;
  /// What is at a stop, in words for those who listen.
  say?: (stop: number) => string;
  /// All of it in a sentence.
  gist?: () => string;
  /// Data places along the axis, for the arrow keys.
  stops?: () => number;
  /// The epoch at a place on the axis, where that is not counted in epochs.
  epochAt?: (x: number) => number | null;
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
    this.plot = h('div.plot', { tabindex: 0, role: 'application', 'aria-roledescription': 'chart', 'aria-label': options.title, id: `plot-${options.id}` });
    this.plot.style.height = `${options.height ?? 210}px`;
    this.legend = h('div.key');
    this.element = h(
      `figure.panel${options.wide ? '.wide' : ''}`,
      { id: `panel-${options.id}` },
      h('figcaption', {}, h('div', {}, h('h3', {}, options.title), options.note ? h('p.note', {}, options.note) : null), csvButton(options.title, options.csv)),
      options.legend ? this.legend : null,
      this.plot,
    );
    panels.add(this);
    whenNear(this.element, () => {
      this.near = true;
      this.draw();
    });
    state.onChange((change) => {
      if (this.near && (change === 'theme' || (options.after ?? ['runs', 'range', 'axes']).includes(change))) this.draw(change === 'histogram');
    });
    new ResizeObserver(() => this.chart?.resize()).observe(this.plot);
    this.plot.addEventListener('keydown', (event) => this.step(event));
    this.plot.addEventListener('blur', () => this.chart?.dispatchAction({ type: 'hideTip' }));
    if (options.epochs) this.zoomable();
  }

  /// In its final state at once.
  drawNow(): void {
    this.draw();
    this.chart?.getZr().flush();
  }

  private draw(merge = false): void {
    const gist = this.options.gist?.() ?? '';
    this.plot.setAttribute('aria-label', `${this.options.title}. ${gist}${gist ? ' ' : ''}Left and right arrow keys read its values.`);
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
    this.chart.group = this.options.group?.() ?? this.options.id;
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
    if (this.options.say) announce(this.options.say(this.stop));
  }

  // Dragging over the plot zooms to those epochs, in all panels; a double click shows all again.
  private zoomable(): void {
    const band = h('div.band', { hidden: true });
    const epochAt = (x: number): number | null => {
      const range = this.state.range;
      if (!this.chart || !range) return null;
      const at = this.chart.convertFromPixel({ xAxisIndex: 0 }, x) as unknown as number;
      if (this.options.epochAt) return this.options.epochAt(at);
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
    animation: !calm.matches && !printing && !isDrawnAhead(),
    animationDuration: 250,
    animationDurationUpdate: 200,
    textStyle: { fontFamily: kFont, color: of.ink },
    grid: { left: 50, right: 14, top: 14, bottom: 38, outerBoundsMode: 'none' },
  };
}

export interface Tip {
  head: string;
  rows: { swatch: Child; name: string; value: string }[];
}

export const sentence = (tip: Tip | null): string => (tip ? `${tip.head}: ${tip.rows.map((row) => `${row.name} ${row.value}`).join(', ')}` : 'nothing here');

export function tooltip(rows: (at: number) => Tip | null): TooltipComponentOption {
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
export const axisTitle = (name: string) => ({ name, nameLocation: 'middle' as const, nameGap: 23, nameTextStyle: axisLabel() });

export function epochAxis(range: [number, number], bars: boolean): Option['xAxis'] {
  const of = ink();
  const epochs = Array.from({ length: range[1] - range[0] + 1 }, (_, i) => String(range[0] + i));
  return {
    type: 'category',
    data: epochs,
    ...axisTitle('epoch'),
    boundaryGap: bars,
    axisLine: { lineStyle: { color: of.rule }, onZero: false },
    axisTick: { show: false },
    axisLabel: { ...axisLabel(), hideOverlap: true, margin: 9 },
  };
}

export function timeAxis(seconds: number[]): Option['xAxis'] {
  const of = ink();
  return {
    type: 'value',
    ...ticks(seconds, { zero: true, time: true, count: 5 }),
    ...axisTitle('time since the start'),
    axisLine: { lineStyle: { color: of.rule }, onZero: false },
    axisTick: { show: false },
    splitLine: { show: false },
    axisLabel: { ...axisLabel(), hideOverlap: true, formatter: timeText },
  };
}

export function logAxis(values: number[]) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const base = high / low > 30 ? 10 : 2;
  const power = (value: number, round: (x: number) => number) => base ** round(Math.log(value) / Math.log(base) + (round === Math.floor ? 1e-9 : -1e-9));
  return {
    type: 'log' as const,
    logBase: base,
    min: power(low, Math.floor),
    max: Math.max(power(high, Math.ceil), power(low, Math.floor) * base),
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { ...axisLabel(), formatter: (value: number) => decimal(Number(value.toPrecision(2))) },
    splitLine: { lineStyle: { color: ink().rule, width: 1 } },
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

