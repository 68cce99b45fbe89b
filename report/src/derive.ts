// What the page computes from the document. No drawing here.
import type { Epoch, Histograms, Numbers, Run, Scalar } from './data';

export const kMetrics = ['recall@1', 'recall@2', 'recall@4', 'recall@8', 'nmi'] as const;

export const metricName = (metric: string): string => (metric === 'nmi' ? 'NMI' : metric.replace('recall@', 'Recall@'));

export const metric =
  (name: string) =>
  (epoch: Epoch): number | null =>
    epoch.metrics?.[name] ?? null;

// ---- metrics of a run

export interface Evaluation {
  epoch: number;
  split: string | null;
  metrics: Numbers;
}

const evaluations = (run: Run): Evaluation[] =>
  run.epochs.flatMap((epoch) => (epoch.metrics ? [{ epoch: epoch.epoch, split: epoch.evaluated_on, metrics: epoch.metrics }] : []));

export function lastEvaluation(run: Run): Evaluation | null {
  return evaluations(run).pop() ?? null;
}

/// The first of the epochs with the highest value.
export function bestEvaluation(run: Run, name = 'recall@1'): Evaluation | null {
  let best: Evaluation | null = null;
  for (const evaluation of evaluations(run)) {
    const value = evaluation.metrics[name];
    if (value !== undefined && (best === null || value > best.metrics[name])) best = evaluation;
  }
  return best;
}

export function epochSeconds(epoch: Epoch): number | null {
  const stages = Object.values(epoch.stage_seconds);
  if (stages.length > 0) return stages.reduce((sum, seconds) => sum + seconds, 0);
  return epoch.seconds;
}

export function totalSeconds(run: Run): number | null {
  const known = run.epochs.map(epochSeconds).filter((seconds): seconds is number => seconds !== null);
  return known.length > 0 ? known.reduce((sum, seconds) => sum + seconds, 0) : null;
}

export const lastEpoch = (run: Run): number | null => (run.epochs.length > 0 ? run.epochs[run.epochs.length - 1].epoch : null);

export function status(run: Run): string {
  const last = lastEpoch(run);
  const of = run.epochs_planned !== null ? ` of ${run.epochs_planned}` : '';
  if (last === null) return 'no epoch yet';
  return run.finished ? `finished, ${last} ${last === 1 ? 'epoch' : 'epochs'}` : `not finished, epoch ${last}${of}`;
}

// ---- settings

export interface SettingRow {
  name: string;
  values: (Scalar | undefined)[];
}

export function allSettings(runs: Run[]): SettingRow[] {
  const names = new Set(runs.flatMap((run) => Object.keys(run.settings)));
  return [...names].map((name) => ({ name, values: runs.map((run) => run.settings[name]) }));
}

export function differingSettings(runs: Run[]): SettingRow[] {
  return allSettings(runs).filter((row) => row.values.some((value) => value !== row.values[0]));
}

// ---- mining

/// What became of an epoch's triplets, in the order they are stacked. `fallback`: random because the lists gave nothing.
export const kTripletKinds = [
  { key: 'mined', name: 'mined', group: 'mined' },
  { key: 'mined_outside_positive', name: 'mined, positive from outside the list', group: 'mined' },
  { key: 'mined_nearer_positive', name: 'mined, nearer positive', group: 'mined' },
  { key: 'random_no_negative', name: 'random: no negative beyond the bound', group: 'fallback' },
  { key: 'random_no_positive', name: 'random: no positive in the list', group: 'fallback' },
  { key: 'random_no_farther_positive', name: 'random: no farther positive', group: 'fallback' },
  { key: 'random_by_share', name: 'random by choice', group: 'chosen' },
] as const;

export function tripletShare(epoch: Epoch, group: 'mined' | 'fallback' | 'chosen'): number | null {
  if (!epoch.mining) return null;
  const parts = kTripletKinds.filter((kind) => kind.group === group).map((kind) => epoch.mining![kind.key]);
  if (!epoch.mining.triplets || parts.every((part) => part === undefined)) return null;
  return parts.reduce((sum, part) => sum + (part ?? 0), 0) / epoch.mining.triplets;
}

export function kindShare(epoch: Epoch, key: string): number | null {
  const count = epoch.mining?.[key];
  return count === undefined || !epoch.mining!.triplets ? null : count / epoch.mining!.triplets;
}

// ---- stages and loss parts

const kStageOrder = ['steps', 'embedding', 'lists', 'selection', 'evaluation'];

export function stageNames(runs: Run[]): string[] {
  const names = new Set(runs.flatMap((run) => run.epochs.flatMap((epoch) => Object.keys(epoch.stage_seconds))));
  const rank = (name: string) => (kStageOrder.includes(name) ? kStageOrder.indexOf(name) : kStageOrder.length);
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

export function lossParts(runs: Run[]): string[] {
  return [...new Set(runs.flatMap((run) => run.epochs.flatMap((epoch) => Object.keys(epoch.loss_parts))))];
}

export function stageTotal(run: Run, stage: string): number {
  return run.epochs.reduce((sum, epoch) => sum + (epoch.stage_seconds[stage] ?? 0), 0);
}

// ---- epochs

export function epochSpan(runs: Run[]): [number, number] | null {
  const all = runs.flatMap((run) => run.epochs.map((epoch) => epoch.epoch));
  return all.length === 0 ? null : [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
}

export function clampRange(range: [number, number] | null, span: [number, number]): [number, number] {
  if (!range) return span;
  const from = Math.min(Math.max(Math.min(range[0], range[1]), span[0]), span[1]);
  const to = Math.min(Math.max(Math.max(range[0], range[1]), span[0]), span[1]);
  return from < to ? [from, to] : span;
}

export type Point = [epoch: number, value: number];

export function points(run: Run, pick: (epoch: Epoch) => number | null, range: [number, number]): Point[] {
  const result: Point[] = [];
  for (const epoch of run.epochs) {
    if (epoch.epoch < range[0] || epoch.epoch > range[1]) continue;
    const value = pick(epoch);
    if (value !== null) result.push([epoch.epoch, value]);
  }
  return result;
}

// ---- histograms

export const total = (counts: number[]): number => counts.reduce((sum, count) => sum + count, 0);

export function shares(counts: number[]): number[] {
  const sum = total(counts);
  return counts.map((count) => (sum > 0 ? count / sum : 0));
}

/// The mass two histograms have in common, in [0, 1]; null if one of them is empty.
export function overlap(histograms: Histograms): number | null {
  if (total(histograms.positive) === 0 || total(histograms.negative) === 0) return null;
  const negative = shares(histograms.negative);
  return shares(histograms.positive).reduce((sum, share, bin) => sum + Math.min(share, negative[bin] ?? 0), 0);
}

/// Linear within the bin that holds it.
export function median(counts: number[], max: number): number | null {
  const half = total(counts) / 2;
  if (half === 0) return null;
  let below = 0;
  for (let bin = 0; bin < counts.length; ++bin) {
    if (below + counts[bin] >= half) return ((bin + (half - below) / counts[bin]) * max) / counts.length;
    below += counts[bin];
  }
  return max;
}

export function histogramEpochs(runs: Run[]): number[] {
  return [...new Set(runs.flatMap((run) => run.epochs.filter((epoch) => epoch.distances).map((epoch) => epoch.epoch)))].sort((a, b) => a - b);
}

/// The end of the last bin that anything of the run ever fell into, so that the axis holds still over the epochs.
export function histogramEnd(run: Run): number {
  let end = 0;
  for (const { distances } of run.epochs) {
    if (!distances) continue;
    for (const counts of [distances.positive, distances.negative])
      for (let bin = counts.length - 1; bin >= 0; --bin)
        if (counts[bin] > 0) {
          end = Math.max(end, ((bin + 1) * distances.max) / counts.length);
          break;
        }
  }
  return end;
}

// ---- the paper's table

export interface PaperGroup {
  dataset: string;
  rows: { name: string; metrics: Numbers; runs: Run[] }[];
  runs: Run[];
}

/// One table a data set: the runs of it, with the row of the paper that each belongs to.
export function paperGroups(runs: Run[]): PaperGroup[] {
  const groups = new Map<string, PaperGroup>();
  for (const run of runs) {
    if (!run.paper) continue;
    let group = groups.get(run.dataset);
    if (!group) {
      group = { dataset: run.dataset, rows: run.paper.rows.map((row) => ({ ...row, runs: [] })), runs: [] };
      groups.set(run.dataset, group);
    }
    group.runs.push(run);
    if (run.paper.row_of_system !== null) group.rows[run.paper.row_of_system]?.runs.push(run);
  }
  return [...groups.values()];
}

// ---- the map

export function neighborsRight(labels: number[], neighbors: number[], id: number): boolean[] {
  return neighbors.map((neighbor) => labels[neighbor] === labels[id]);
}

// ---- words and numbers

export const percent = (value: number | null | undefined, digits = 1): string =>
  value === null || value === undefined ? '–' : `${(value * 100).toFixed(digits)} %`;

export function decimal(value: number | null | undefined): string {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  return size >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(4)));
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 0.001) return `${decimal(seconds * 1000)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const settingText = (value: Scalar | undefined): string =>
  value === undefined || value === null ? '–' : value === '' ? '(empty)' : typeof value === 'number' ? String(Number(value.toPrecision(12))) : String(value);

export type Cell = string | number | null | undefined;

export function toCsv(rows: Cell[][]): string {
  const cell = (value: Cell): string => {
    const string = value === null || value === undefined ? '' : String(value);
    return /[",\r\n]/.test(string) ? `"${string.replace(/"/g, '""')}"` : string;
  };
  return rows.map((row) => row.map(cell).join(',')).join('\n') + '\n';
}

/// Epochs down, runs across.
export function linesToCsv(lines: { name: string; points: Point[] }[]): string {
  const epochs = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  const values = lines.map((line) => new Map(line.points));
  return toCsv([['epoch', ...lines.map((line) => line.name)], ...epochs.map((epoch) => [epoch, ...values.map((of) => of.get(epoch))])]);
}
