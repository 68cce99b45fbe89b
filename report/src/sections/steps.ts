// The loss step by step, as it was and smoothed.
import type { LineSeriesOption } from 'echarts/charts';

import { ticks } from '../axis';
import { axisTitle, formatValue, logAxis, Panel, sentence, swatch, tooltip, valueAxis, type Tip } from '../chart';
import type { Run } from '../data';
import { smoothed, stepPoints, toCsv, type StepPoint } from '../derive';
import { h, type Child } from '../dom';
import { ink, lookOfRun, type Look } from '../palette';
import type { State } from '../state';

interface Line {
  run: Run;
  look: Look;
  points: StepPoint[];
  smooth: number[];
}

/// More than a chart has pixels only makes it slow.
const kMostDrawn = 2000;
/// Places that arrow keys stop at.
const kStops = 60;

export const hasSteps = (state: State): boolean => state.runs.some((run) => run.epochs.some((epoch) => epoch.step_losses));

/// How much of the noise is taken away.
export function smoothingControl(state: State): HTMLElement | null {
  if (!hasSteps(state)) return null;
  const input = h('input', { type: 'range', min: 0, max: 0.99, step: 0.01, value: state.saved.smoothing, 'aria-label': 'Smoothing of the loss per step' });
  const shown = h('span', {});
  const tell = () => (shown.textContent = state.saved.smoothing.toFixed(2));
  input.addEventListener('input', () => {
    state.setAxes({ smoothing: Number(input.value) });
    tell();
  });
  tell();
  return h('label.smoothing', { title: 'How much a step counts of what the next one does' }, h('span', {}, 'Smoothing'), input, shown);
}

export function stepPanel(state: State): Panel {
  const lines = (): Line[] => {
    const range = state.range;
    if (!range) return [];
    return state.shown
      .map((run) => {
        const points = stepPoints(run, range);
        return { run, look: lookOfRun(state.lookIndex(run)), points, smooth: smoothed(points.map((point) => point.value), state.saved.smoothing) };
      })
      .filter((line) => line.points.length > 0);
  };
  const nearest = (line: Line, x: number): number => line.points.reduce((best, point, i) => (Math.abs(point.x - x) < Math.abs(line.points[best].x - x) ? i : best), 0);
  const tipAt = (drawn: Line[], x: number): Tip | null => {
    if (drawn.length === 0) return null;
    const at = drawn[0].points[nearest(drawn[0], x)];
    return {
      head: `Epoch ${at.epoch}, step ${at.step}`,
      rows: drawn.map((line) => {
        const i = nearest(line, x);
        return { swatch: swatch(line.look, 18) as Child, name: line.run.name, value: `${formatValue(line.smooth[i], 'number')} (as it was: ${formatValue(line.points[i].value, 'number')})` };
      }),
    };
  };
  const ends = (drawn: Line[]): [number, number] => [Math.min(...drawn.map((line) => line.points[0].x)), Math.max(...drawn.map((line) => line.points[line.points.length - 1].x))];
  const placeOf = (stop: number): number => {
    const [from, to] = ends(lines());
    return from + ((to - from) * stop) / (kStops - 1);
  };
  const thinned = (line: Line, value: (i: number) => number): number[][] => {
    const every = Math.ceil(line.points.length / kMostDrawn);
    return line.points.flatMap((point, i) => (i % every === 0 || i === line.points.length - 1 ? [[point.x, value(i)]] : []));
  };
  return new Panel(state, {
    id: 'step-loss',
    title: 'Loss per step',
    note: 'Smoothed; the faint line is as it was',
    wide: true,
    height: 240,
    epochs: true,
    empty: 'The runs shown have no loss per step in these epochs.',
    epochAt: (x) => (state.range && Number.isFinite(x) ? Math.min(state.range[1], Math.max(state.range[0], Math.ceil(x))) : null),
    stops: () => (lines().length > 0 ? kStops : 0),
    place: placeOf,
    say: (stop) => sentence(tipAt(lines(), placeOf(stop))),
    gist: () =>
      lines()
        .map((line) => `${line.run.name}: ${formatValue(line.smooth[line.smooth.length - 1], 'number')} at the end.`)
        .join(' '),
    csv: () => toCsv([['run', 'epoch', 'step', 'loss', 'smoothed'], ...lines().flatMap((line) => line.points.map((point, i) => [line.run.name, point.epoch, point.step, point.value, line.smooth[i]]))]),
    option: () => {
      const drawn = lines();
      if (drawn.length === 0) return null;
      const of = ink();
      const all = drawn.flatMap((line) => line.points.map((point) => point.value)).sort((a, b) => a - b);
      // One wild step must not flatten the rest.
      const bulk = all.slice(Math.floor(all.length * 0.002), Math.max(1, Math.ceil(all.length * 0.998)));
      const shown = [...bulk, ...drawn.flatMap((line) => line.smooth)].reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
      const log = state.saved.logScale && shown[0] > 0;
      const [from, to] = ends(drawn);
      const axisLabel = { color: of.muted, fontSize: 11 };
      const line = (each: Line, raw: boolean): LineSeriesOption => ({
        type: 'line',
        id: `${each.run.name}${raw ? ' as it was' : ''}`,
        name: each.run.name,
        data: thinned(each, (i) => (raw ? each.points[i].value : each.smooth[i])),
        color: each.look.color,
        showSymbol: false,
        silent: raw,
        z: raw ? 1 : 3,
        lineStyle: { width: raw ? 1 : 2, opacity: raw ? 0.25 : 1, type: raw ? 'solid' : (each.look.dash ?? 'solid'), color: each.look.color },
        emphasis: { disabled: true },
      });
      return {
        tooltip: tooltip((x) => tipAt(drawn, x)),
        xAxis: {
          type: 'value',
          min: Math.floor(from),
          max: Math.ceil(to),
          minInterval: 1,
          ...axisTitle('epoch'),
          axisLine: { lineStyle: { color: of.rule }, onZero: false },
          axisTick: { show: false },
          splitLine: { show: false },
          axisLabel,
        },
        yAxis: log ? logAxis(shown) : valueAxis('number', ticks(shown)),
        series: [...(state.saved.smoothing > 0 ? drawn.map((each) => line(each, true)) : []), ...drawn.map((each) => line(each, false))],
      };
    },
  });
}
