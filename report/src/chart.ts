// Charts of the runs: lines and stacked bars over the epochs.
import type { BarSeriesOption, CustomSeriesOption, LineSeriesOption } from 'echarts/charts';

import { ticks, type Ticks } from './axis';
import type { Epoch, Run } from './data';
import { band, duration, groupName, linesToCsv, places, toCsv, type BandPoint, type Cell } from './derive';
import { h, type Child } from './dom';
import { ink, lookOfRun, partColor, type Look } from './palette';
import { axisText, epochAxis, formatValue, kEpochs, kFont, kTime, logAxis, Panel, sentence, swatch, timeAxis, tooltip, valueAxis, type Tip, type Unit } from './panel';
import type { State } from './state';

export * from './panel';

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

// A run, or several of one experiment with their mean and spread.
interface Line {
  name: string;
  look: Look;
  runs: Run[];
  points: BandPoint[];
}

// Between mean - deviation and mean + deviation.
function bandSeries(line: Line, at: (point: BandPoint) => number, least: number): CustomSeriesOption {
  const points = line.points.filter((point) => point.deviation !== null);
  const edge = [
    ...points.map((point) => [at(point), point.mean + point.deviation!]),
    ...[...points].reverse().map((point) => [at(point), Math.max(least, point.mean - point.deviation!)]),
  ];
  return {
    type: 'custom',
    id: `${line.name} band`,
    name: `${line.name} band`,
    silent: true,
    z: 1,
    data: points.length > 1 ? [[at(points[0]), points[0].mean]] : [],
    renderItem: (_, api) => ({ type: 'polygon', shape: { points: edge.map((place) => api.coord(place)) }, style: { fill: line.look.color, opacity: 0.18 } }),
  };
}

export function linePanel(state: State, options: LineOptions): Panel {
  const lines = (): Line[] => {
    const range = state.range;
    if (!range) return [];
    return state.lines
      .map((runs) => ({
        name: groupName(runs),
        look: lookOfRun(state.lookIndex(runs[0])),
        runs,
        points: band(runs.map((run) => places(run, options.pick, range, state.saved.overTime))),
      }))
      .filter((line) => line.points.length > 0);
  };
  const overTime = () => state.saved.overTime;
  const targetsOf = (drawn: Line[]): Map<number, Run[]> => {
    const targets = new Map<number, Run[]>();
    for (const run of drawn.flatMap((line) => line.runs)) {
      const target = options.target?.(run) ?? null;
      if (target !== null) targets.set(target, [...(targets.get(target) ?? []), run]);
    }
    return targets;
  };
  const valueText = (point: BandPoint): string =>
    formatValue(point.mean, options.unit) + (point.deviation !== null ? ` ± ${formatValue(point.deviation, options.unit)}` : '') + (overTime() ? ` (epoch ${point.epoch})` : '');
  const nearest = (line: Line, x: number): BandPoint | undefined =>
    overTime() ? line.points.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best)) : line.points.find((point) => point.epoch === x);
  const tipAt = (drawn: Line[], x: number): Tip => {
    const rows = drawn.flatMap((line) => {
      const point = nearest(line, x);
      return point ? [{ swatch: swatch(line.look, 18) as Child, name: line.name, value: valueText(point) }] : [];
    });
    for (const [target] of targetsOf(drawn)) rows.push({ swatch: swatch({ color: ink().muted, dash: [3, 3] }, 18), name: 'target', value: formatValue(target, options.unit) });
    return { head: overTime() ? `${duration(x)} after the start` : `Epoch ${x}`, rows };
  };
  // Places that arrow keys stop at: all epochs, or all moments at which some epoch ended.
  const moments = (): number[] => [...new Set(lines().flatMap((line) => line.points.map((point) => point.x)))].sort((a, b) => a - b);
  const stopAt = (stop: number): number => (overTime() ? moments()[stop] : state.range![0] + stop);
  return new Panel(state, {
    ...options,
    epochs: true,
    group: () => (overTime() ? kTime : kEpochs),
    stops: () => (overTime() ? moments().length : state.range ? state.range[1] - state.range[0] + 1 : 0),
    place: (stop) => (overTime() ? moments()[stop] : stop),
    epochAt: (x) => {
      if (!overTime()) return state.range && Number.isFinite(x) ? state.range[0] + Math.min(state.range[1] - state.range[0], Math.max(0, Math.round(x))) : null;
      const all = lines().flatMap((line) => line.points);
      return all.length > 0 ? all.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best)).epoch : null;
    },
    say: (stop) => sentence(tipAt(lines(), stopAt(stop))),
    gist: () =>
      lines()
        .map((line) => `${line.name}: ${valueText(line.points[line.points.length - 1])} at epoch ${line.points[line.points.length - 1].epoch}.`)
        .join(' '),
    csv: () => linesToCsv(lines().map((line) => ({ name: line.name, points: line.points.map((point) => [point.epoch, point.mean]) }))),
    option: () => {
      const drawn = lines();
      const range = state.range;
      if (!range || drawn.length === 0) return null;
      const of = ink();
      const targets = targetsOf(drawn);
      const goals = [...targets.keys()];
      const values = [...goals, ...drawn.flatMap((line) => line.points.flatMap((point) => [point.mean - (point.deviation ?? 0), point.mean + (point.deviation ?? 0)]))];
      const log = state.saved.logScale && options.unit === 'number' && values.every((value) => value > 0);
      const limits = options.limits ?? ticks(values, { time: options.unit === 'seconds' });
      const at = (point: BandPoint) => (overTime() ? point.x : point.epoch - range[0]);
      const line = ({ name, look, points }: Line, i: number): LineSeriesOption => ({
        type: 'line',
        id: name,
        name,
        data: points.map((point) => [at(point), point.mean]),
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
                  lineStyle: { color: goals.length > 1 ? lookOfRun(state.lookIndex(targets.get(goal)![0])).color : of.muted, type: [3, 3], width: 1.2 },
                  label: { formatter: `target ${axisText(goal, options.unit)}`, position: 'insideEndTop', color: of.muted, fontSize: 11, fontFamily: kFont },
                })),
              }
            : undefined,
      });
      return {
        ...(overTime() ? { grid: { left: 50, right: 26, top: 14, bottom: 38, outerBoundsMode: 'none' as const } } : {}),
        tooltip: tooltip((x) => tipAt(drawn, x)),
        xAxis: overTime() ? timeAxis(drawn.flatMap((each) => each.points.map((point) => point.x))) : epochAxis(range, false),
        yAxis: log ? logAxis(values) : valueAxis(options.unit, limits),
        series: [...drawn.map(line), ...drawn.filter((each) => each.runs.length > 1).map((each) => bandSeries(each, at, log ? Math.min(...values) : -Infinity))],
      };
    },
  });
}

// ---- stacked bars

export interface StackPart {
  key: string;
  name: string;
  /// Of the parts' palette.
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
  return { color: partColor(part.color), decal: decal ? { ...decal, color: 'rgba(255,255,255,.26)' } : undefined, borderColor: ink().page, borderWidth: 0.6 };
}

export function stackKey(part: StackPart, value = ''): HTMLElement {
  const box = h(`span.box.decal-${part.decal % kDecals.length}`, { 'aria-hidden': 'true' });
  box.style.backgroundColor = partColor(part.color);
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
  const tipAt = (of: NonNullable<ReturnType<typeof content>>, at: number): Tip | null => {
    const epoch = of.epochs.find((item) => item.epoch === at);
    if (!epoch) return null;
    const rows = of.parts.flatMap((part) => {
      const value = options.pick(epoch, part.key);
      return value === null ? [] : [{ swatch: stackKey({ ...part, name: '' }) as Child, name: part.name, value: formatValue(value, options.unit) }];
    });
    return rows.length > 0 ? { head: `Epoch ${at}`, rows: rows.reverse() } : null;
  };
  return new Panel(state, {
    ...options,
    epochs: true,
    after: ['runs', 'range'],
    group: () => kEpochs,
    say: (stop) => {
      const of = content();
      return of ? sentence(tipAt(of, of.range[0] + stop)) : '';
    },
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
          ...tooltip((at) => tipAt(of, at)),
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
