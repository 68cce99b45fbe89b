// What the page computes from the document. No drawing here.
import type { Choice, Classes, Epoch, Histograms, Numbers, Run, Scalar, Weights } from './data';

export const kMetrics = ['recall@1', 'recall@2', 'recall@4', 'recall@8', 'nmi', 'map@r', 'r_precision'] as const;

const kMetricNames: Record<string, string> = { nmi: 'NMI', 'map@r': 'MAP@R', r_precision: 'R-precision' };
export const metricName = (metric: string): string => kMetricNames[metric] ?? metric.replace('recall@', 'Recall@');

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

/// What follows in a sentence that says what was measured: with which weights.
export function weightsIn(of: Weights): string {
  if (of.kept !== null) return `; weights: ${of.kept}`;
  return of.epoch === null ? '' : `, epoch ${of.epoch}`;
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

// Settings that only some systems use. A value of another system's is of no effect.
const kMines = /fanng|(smart|neighbor|memory)-batch|neighbor-semihard/;
const kAdapts = /adaptive|smart-batch/;
const kUsedBy: Record<string, RegExp> = {
  kappa: kMines, neighbors: kMines, index: kMines, 'mined-fraction': kMines, 'nearer-positives': kMines, 'min-negative-rank': kMines, 'kappa-floor': kMines,
  'duplicate-distance': kMines, 'warmup-epochs': kMines, 'hub-limit': /fanng|smart-batch/, 'kappa-factor': /fanng(-global)?$|^((neighbor|memory)-batch|neighbor-semihard)$/,
  'target-error': kAdapts, 'kappa-fit': kAdapts, 'find-kappa': kAdapts, 'global-weight': /global/, 'global-lambda': /global/, 'global-margin': /global/,
  'lifted-margin': /^lifted$/, 'npairs-norm-weight': /^npairs$/, 'clustering-gamma': /^clustering$/, 'pairs-margin': /^hard-pairs$/,
  'images-per-class': /^((neighbor-)?semihard|lifted|clustering|(class|neighbor|memory)-batch.*)$/, margin: /triplet|semihard|smart-batch/,
  'multisimilarity-alpha': /-batch/, 'multisimilarity-beta': /-batch/, 'multisimilarity-base': /-batch/, 'memory-neighbors': /^memory/,
  'longer-lists': kMines, 'longest-list': kMines, 'graph-start': kMines, 'success-rate': kMines, target: kAdapts,
};

/// Whether a setting has any effect in a run; unknown systems use everything.
export const isUsed = (run: Run, name: string): boolean => run.system === '' || (kUsedBy[name]?.test(run.system) ?? true);

/// What a setting is in each run that uses it; undefined elsewhere.
export function usedSettings(runs: Run[]): SettingRow[] {
  return allSettings(runs).map((row) => ({ name: row.name, values: row.values.map((value, i) => (isUsed(runs[i], row.name) ? value : undefined)) }));
}

export function differingSettings(runs: Run[]): SettingRow[] {
  return usedSettings(runs).filter((row) => {
    // A run that does not use a setting does not differ by it.
    const own = row.values.filter((_, i) => isUsed(runs[i], row.name));
    return own.some((value) => value !== own[0]);
  });
}

/// The device of a run, if it says more than 'auto'.
export function device(run: Run): string | null {
  const logged = run.epochs.map((epoch) => epoch.device).filter((name): name is string => name !== null).pop();
  const set = run.settings.device;
  return logged ?? (typeof set === 'string' && set !== '' ? set : null);
}

export const dayAndTime = (time: string | null): string | null => (time && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(time) ? `${time.slice(0, 10)} ${time.slice(11, 16)} UTC` : null);

// ---- seeds

// As `smartmine compare` has it: none of these makes another experiment.
const kNotTheExperiment = ['seed', 'threads', 'device', 'data-root', 'cache-mebibytes', 'save-epochs', 'evaluate-every'];

/// Of data set folder: where it is. In two places there are two data sets, all others are the same wherever they lie.
function folder(run: Run): string {
  const root = run.dataset === 'folder' ? run.settings['data-root'] : null;
  return typeof root === 'string' ? root.replace(/(.)\/+$/, '$1') : '';
}

/// Runs that differ in nothing but the seed, together; in the order of their first.
export function seedGroups(runs: Run[]): Run[][] {
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const settings = Object.entries(run.settings).filter(([name]) => !kNotTheExperiment.includes(name));
    const key = settings.length > 0 ? JSON.stringify([run.dataset, folder(run), run.system, ...settings.sort()]) : run.name;
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  return [...groups.values()];
}

/// Mean and standard deviation (n - 1) over the lines that have a value there. `x` is the mean of their places.
export interface BandPoint {
  epoch: number;
  x: number;
  mean: number;
  deviation: number | null;
  runs: number;
}

export function band(lines: Place[][]): BandPoint[] {
  const byEpoch = new Map<number, Place[]>();
  for (const line of lines) for (const place of line) byEpoch.set(place.epoch, [...(byEpoch.get(place.epoch) ?? []), place]);
  return [...byEpoch.entries()]
    .sort((a, b) => a[0] - b[0])
    .map(([epoch, places]) => {
      const n = places.length;
      const mean = places.reduce((sum, place) => sum + place.value, 0) / n;
      const variance = places.reduce((sum, place) => sum + (place.value - mean) ** 2, 0) / (n - 1);
      return { epoch, x: places.reduce((sum, place) => sum + place.x, 0) / n, mean, deviation: n > 1 ? Math.sqrt(variance) : null, runs: n };
    });
}

/// Names what the runs of a group have in common.
export function groupName(runs: Run[]): string {
  if (runs.length === 1) return runs[0].name;
  const seeds = runs.map((run) => settingText(run.settings.seed)).join(', ');
  const place = folder(runs[0]).split('/').pop();
  return `${runs[0].system || runs[0].name}${place ? `, ${place}` : ''}, seeds ${seeds}`;
}

/// Of the groups behind the first of each batch, the share that the lists chose.
export function nearShare(epoch: Epoch): number | null {
  const { groups, batches, near_groups } = epoch.grouping ?? {};
  if (groups === undefined || batches === undefined || near_groups === undefined || groups <= batches) return null;
  return near_groups / (groups - batches);
}

// ---- choosing

/// Whether a trial is the one that was chosen: by its name, or, where an older run does not tell it, by all settings that it tells.
export function isChosen(of: Choice, trial: Choice['trials'][number]): boolean {
  if (of.chosen.epochs === 0) return false;
  if (typeof of.chosen.trial === 'string' && of.chosen.trial !== '') return trial.name === of.chosen.trial;
  const told = Object.keys(trial.settings).filter((name) => of.chosen[name] !== undefined);
  return told.length > 0 && told.every((name) => of.chosen[name] === trial.settings[name]);
}

/// Whether the chosen share is one of those that were measured: the training may be at a gentler rate than the trial that it goes by.
export function sharesAreChosen(of: Choice): boolean {
  const trial = of.trials.find((each) => isChosen(of, each));
  return trial === undefined || of.own_split || trial.settings['learning-rate'] === of.chosen['learning-rate'];
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

const kStageOrder = ['steps', 'embedding', 'lists', 'longer_lists', 'selection', 'evaluation'];

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

export interface Place {
  epoch: number;
  /// Epochs, or seconds since the start.
  x: number;
  value: number;
}

/// Seconds from the start of a run to the end of each epoch; null from where an epoch does not say how long it took.
export function elapsed(run: Run): Map<number, number> {
  const result = new Map<number, number>();
  let sum = 0;
  for (const epoch of run.epochs) {
    const seconds = epochSeconds(epoch);
    if (seconds === null) break;
    sum += seconds;
    result.set(epoch.epoch, sum);
  }
  return result;
}

/// Points of a line over epochs or over time.
export function places(run: Run, pick: (epoch: Epoch) => number | null, range: [number, number], overTime: boolean): Place[] {
  const times = overTime ? elapsed(run) : null;
  return points(run, pick, range).flatMap(([epoch, value]) => {
    const x = times ? times.get(epoch) : epoch;
    return x === undefined ? [] : [{ epoch, x, value }];
  });
}

// ---- steps

/// The loss of every step, or of every n-th. Places are epochs: the first epoch is trained from 0 to 1.
export interface StepPoint {
  epoch: number;
  step: number;
  x: number;
  value: number;
}

export function stepPoints(run: Run, range: [number, number]): StepPoint[] {
  return run.epochs.flatMap((epoch) => {
    const losses = epoch.step_losses;
    if (!losses || epoch.epoch < range[0] || epoch.epoch > range[1]) return [];
    const steps = epoch.steps ?? losses.values.length * losses.every;
    return losses.values.flatMap((value, i) =>
      value === null ? [] : [{ epoch: epoch.epoch, step: i * losses.every + 1, x: epoch.epoch - 1 + (i * losses.every + 1) / steps, value }],
    );
  });
}

/// A mean that forgets: each value before counts `weight` times what the one after it does. 0: the values as they are.
export function smoothed(values: number[], weight: number): number[] {
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    sum = sum * weight + value;
    mass = mass * weight + 1;
    return sum / mass;
  });
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

/// The end of the last bin that anything of any run ever fell into, so that runs and epochs have one scale.
export function histogramEnd(runs: Run[]): number {
  let end = 0;
  for (const { distances } of runs.flatMap((run) => run.epochs)) {
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

/// The highest share of any bin, over all runs and epochs.
export function histogramTop(runs: Run[]): number {
  let top = 0;
  for (const { distances } of runs.flatMap((run) => run.epochs))
    if (distances) for (const share of [...shares(distances.positive), ...shares(distances.negative)]) top = Math.max(top, share);
  return top;
}

// ---- classes

/// The share of a class's images whose nearest other shows the class; null: none there.
export const classRecall = (of: Classes, label: number): number | null => (of.images[label] > 0 ? of.hits[label] / of.images[label] : null);

export type ClassOrder = 'worst' | 'best' | 'name' | 'behind';

/// Labels that have images. `behind`: where another run has most more, first.
export function orderedClasses(of: Classes, order: ClassOrder, behind: Classes | null): number[] {
  const labels = of.names.map((_, i) => i).filter((label) => of.images[label] > 0);
  const recall = (label: number) => classRecall(of, label)!;
  const gap = (label: number) => recall(label) - (behind ? (classRecall(behind, label) ?? 0) : 0);
  const key: Record<ClassOrder, (a: number, b: number) => number> = {
    worst: (a, b) => recall(a) - recall(b) || a - b,
    best: (a, b) => recall(b) - recall(a) || a - b,
    name: (a, b) => of.names[a].localeCompare(of.names[b], 'en', { numeric: true }),
    behind: (a, b) => gap(a) - gap(b) || a - b,
  };
  return labels.sort(key[order]);
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
