// The document of the page, read leniently: what is missing or of a wrong type becomes null or empty, never 0.

export type Scalar = string | number | boolean | null;
export type Numbers = Record<string, number>;

export interface Histograms {
  positive: number[];
  negative: number[];
  max: number;
}

export interface Epoch {
  epoch: number;
  training_error: number | null;
  validation_error: number | null;
  reserved_error: number | null;
  kappa: number | null;
  loss: number | null;
  loss_parts: Numbers;
  learning_rate: number | null;
  stage_seconds: Numbers;
  seconds: number | null;
  images_per_second: number | null;
  /// Where it was trained, if the log says.
  device: string | null;
  mining: Numbers | null;
  lists: Numbers | null;
  /// Of systems that put near classes into one batch.
  grouping: Numbers | null;
  together: { first: string; second: string; batches: number }[];
  metrics: Numbers | null;
  evaluated_on: string | null;
  notes: string[];
  distances: Histograms | null;
  steps: number | null;
  /// The loss of every so many steps; null where a step was skipped.
  step_losses: { every: number; values: (number | null)[] } | null;
}

export interface PaperRow {
  name: string;
  metrics: Numbers;
}

export interface Thumbnails {
  size: number;
  columns: number;
  per_sheet: number;
  sheets: string[];
}

/// The weights that something was measured with: those at the end of an epoch, or, in words, those that the run keeps instead.
export interface Weights {
  epoch: number | null;
  kept: string | null;
}

export interface EmbeddingMap extends Weights {
  evaluated_on: string | null;
  points: number;
  /// More than `points` where the map shows a sample.
  of: number;
  x: number[];
  y: number[];
  label: number[];
  classes: string[];
  neighbors: number[][];
  names: string[] | null;
  thumbnails: Thumbnails | null;
}

export interface Picture {
  name: string;
  class: string;
  image: string | null;
  distance: number | null;
}

export interface Triplet {
  positive: Picture;
  negative: Picture;
  kind: string;
}

export interface Anchor {
  name: string;
  class: string;
  image: string | null;
  epochs: { epoch: number; kappa: number | null; mined: Triplet[]; random: Triplet[] }[];
}

export interface Query {
  name: string;
  class: string;
  image: string | null;
  /// The same in every run of the same images; null where the data does not say.
  row: number | null;
  /// What it was chosen for: worst, random, class. None: only to compare with another run.
  sets: string[];
  /// The nearest image of its class and its place among all others.
  match: (Picture & { rank: number | null }) | null;
  correct: number;
  /// Most that could be right: the class may be small.
  possible: number;
  results: (Picture & { right: boolean })[];
}

export interface Hub {
  picture: Picture;
  wrong: number;
  right: number | null;
  queries: (Picture & { rank: number | null })[];
}

export interface Gallery extends Weights {
  images: number | null;
  queries: Query[];
  hubs: Hub[];
}

/// By class: images, how many of them have one of their class as the nearest other, and which classes the others have there, most often first.
export interface Classes extends Weights {
  names: string[];
  images: number[];
  hits: number[];
  confused: [label: number, times: number][][];
}

/// What was chosen on held-out classes, as the run says it.
export interface Choice {
  summary: string;
  trials: { name: string; settings: Record<string, Scalar>; values: Numbers }[];
  chosen: Record<string, Scalar>;
  /// Before any training.
  start: Numbers | null;
  /// Weights part of the way from the start to the end of the training: the share of it, and what they reach.
  interpolations: Numbers[];
  held_out_classes: number | null;
  held_out_images: number | null;
  /// The data has a validation split of its own, on which weights part of the way are measured after the training.
  own_split: boolean;
  seconds: number | null;
  kept: { epoch: number | null; reason: string; evaluated_on: string; metrics: Numbers } | null;
}

export interface Run {
  index: number;
  name: string;
  path: string;
  dataset: string;
  system: string;
  settings: Record<string, Scalar>;
  finished: boolean;
  epochs_planned: number | null;
  target_error: number | null;
  paper: { rows: PaperRow[]; row_of_system: number | null } | null;
  epochs: Epoch[];
  map: EmbeddingMap | null;
  triplets: Anchor[] | null;
  gallery: Gallery | null;
  classes: Classes | null;
  choice: Choice | null;
  /// When its settings and the last line of its log were written, UTC.
  started: string | null;
  updated: string | null;
}

export interface ReportDocument {
  generator: string;
  refresh_seconds: number | null;
  problems: string[];
  runs: Run[];
}

export type Reading = { kind: 'empty' } | { kind: 'unreadable'; why: string } | { kind: 'document'; document: ReportDocument };

type Json = Record<string, unknown>;

const object = (value: unknown): Json | null => (typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null);
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const number = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);
const text = (value: unknown): string | null => (typeof value === 'string' ? value : typeof value === 'number' ? String(value) : null);
const strings = (value: unknown): string[] => list(value).map((item) => text(item) ?? '');

// Pictures of all runs, which others refer to by number. Set while a document is read.
let pictures: unknown[] = [];

// Only pictures that are in the page itself are shown.
function image(value: unknown): string | null {
  const found = typeof value === 'number' ? pictures[value] : value;
  return typeof found === 'string' && found.startsWith('data:image/') ? found : null;
}

function numbers(value: unknown): Numbers {
  const result: Numbers = {};
  for (const [name, item] of Object.entries(object(value) ?? {})) {
    const read = number(item);
    if (read !== null) result[name] = read;
  }
  return result;
}

const numbersOrNull = (value: unknown): Numbers | null => (object(value) ? numbers(value) : null);

function histograms(value: unknown): Histograms | null {
  const json = object(value);
  const max = number(json?.max);
  if (!json || max === null || max <= 0) return null;
  const counts = (items: unknown) => list(items).map((item) => Math.max(0, number(item) ?? 0));
  const result = { positive: counts(json.positive), negative: counts(json.negative), max };
  return result.positive.length + result.negative.length > 0 ? result : null;
}

function stepLosses(value: unknown): Epoch['step_losses'] {
  const json = object(value);
  const every = number(json?.every);
  const values = list(json?.values).map(number);
  return every !== null && every >= 1 && values.length > 0 ? { every, values } : null;
}

function readEpoch(value: unknown): Epoch | null {
  const json = object(value);
  const epoch = number(json?.epoch);
  if (!json || epoch === null) return null;
  return {
    epoch,
    training_error: number(json.training_error),
    validation_error: number(json.validation_error),
    reserved_error: number(json.reserved_error),
    kappa: number(json.kappa),
    loss: number(json.loss),
    loss_parts: numbers(json.loss_parts),
    learning_rate: number(json.learning_rate),
    stage_seconds: numbers(json.stage_seconds),
    seconds: number(json.seconds),
    images_per_second: number(json.images_per_second),
    device: text(json.device),
    mining: numbersOrNull(json.mining),
    lists: numbersOrNull(json.lists),
    grouping: numbersOrNull(json.grouping),
    together: list(object(json.grouping)?.together).flatMap((item) => {
      const pair = object(item);
      const [first, second, batches] = [text(pair?.first), text(pair?.second), number(pair?.batches)];
      return first !== null && second !== null && batches !== null ? [{ first, second, batches }] : [];
    }),
    metrics: numbersOrNull(json.metrics),
    evaluated_on: text(json.evaluated_on),
    notes: strings(json.notes).filter((note) => note !== ''),
    distances: histograms(json.distances),
    steps: number(json.steps),
    step_losses: stepLosses(json.step_losses),
  };
}

// A resumed run may tell an epoch twice: the later line counts.
function readEpochs(value: unknown): Epoch[] {
  const byEpoch = new Map<number, Epoch>();
  for (const item of list(value)) {
    const epoch = readEpoch(item);
    if (epoch) byEpoch.set(epoch.epoch, epoch);
  }
  return [...byEpoch.values()].sort((a, b) => a.epoch - b.epoch);
}

function readPaper(value: unknown): Run['paper'] {
  const json = object(value);
  if (!json) return null;
  const rows = list(json.rows).map((row) => ({ name: text(object(row)?.name) ?? '', metrics: numbers(row) }));
  return rows.length > 0 ? { rows, row_of_system: number(json.row_of_system) } : null;
}

const readWeights = (json: Json): Weights => ({ epoch: number(json.epoch), kept: text(json.kept) || null });

function readMap(value: unknown): EmbeddingMap | null {
  const json = object(value);
  if (!json) return null;
  const x = list(json.x).map((item) => number(item) ?? NaN);
  const y = list(json.y).map((item) => number(item) ?? NaN);
  const label = list(json.label).map((item) => number(item) ?? -1);
  const points = Math.min(x.length, y.length, label.length);
  if (points === 0) return null;
  const thumbnails = object(json.thumbnails);
  const size = number(thumbnails?.size) ?? 0;
  const columns = number(thumbnails?.columns) ?? 0;
  const per_sheet = number(thumbnails?.per_sheet) ?? points;
  const sheets = list(thumbnails?.sheets).map((sheet) => image(sheet) ?? '');
  return {
    ...readWeights(json),
    evaluated_on: text(json.evaluated_on),
    points,
    of: Math.max(points, number(json.of) ?? 0),
    x,
    y,
    label,
    classes: strings(json.classes),
    neighbors: list(json.neighbors).map((ids) => list(ids).filter((id): id is number => typeof id === 'number' && id >= 0 && id < points)),
    names: Array.isArray(json.names) ? strings(json.names) : null,
    thumbnails: size > 0 && columns > 0 && per_sheet > 0 && sheets.length > 0 ? { size, columns, per_sheet, sheets } : null,
  };
}

function readPicture(value: unknown): Picture {
  const json = object(value) ?? {};
  return { name: text(json.name) ?? '', class: text(json.class) ?? '', image: image(json.image), distance: number(json.distance) };
}

function readTriplets(value: unknown): Anchor[] | null {
  const json = object(value);
  if (!json) return null;
  const triplets = (items: unknown): Triplet[] =>
    list(items).map((item) => ({
      positive: readPicture(object(item)?.positive),
      negative: readPicture(object(item)?.negative),
      kind: text(object(item)?.kind) ?? '',
    }));
  return list(json.anchors).map((item) => {
    const anchor = object(item) ?? {};
    return {
      name: text(anchor.name) ?? '',
      class: text(anchor.class) ?? '',
      image: image(anchor.image),
      epochs: list(anchor.epochs).map((entry) => ({
        epoch: number(object(entry)?.epoch) ?? 0,
        kappa: number(object(entry)?.kappa),
        mined: triplets(object(entry)?.mined),
        random: triplets(object(entry)?.random),
      })),
    };
  });
}

const readRanked = (value: unknown): Picture & { rank: number | null } => ({ ...readPicture(value), rank: number(object(value)?.rank) });

function readGallery(value: unknown): Gallery | null {
  const json = object(value);
  if (!json) return null;
  const queries = list(json.queries).map((item): Query => {
    const query = object(item) ?? {};
    const results = list(query.results).map((result) => ({ ...readPicture(result), right: object(result)?.right === true }));
    return {
      name: text(query.name) ?? '',
      class: text(query.class) ?? '',
      image: image(query.image),
      row: number(query.row),
      sets: strings(query.sets),
      match: object(query.match) ? readRanked(query.match) : null,
      correct: number(query.correct) ?? results.filter((result) => result.right).length,
      possible: number(query.possible) ?? results.length,
      results,
    };
  });
  const hubs = list(json.hubs).map((item): Hub => {
    const hub = object(item) ?? {};
    return { picture: readPicture(hub), wrong: number(hub.wrong) ?? 0, right: number(hub.right), queries: list(hub.queries).map(readRanked) };
  });
  return { ...readWeights(json), images: number(json.images), queries, hubs };
}

function readClasses(value: unknown): Classes | null {
  const json = object(value);
  if (!json) return null;
  const names = strings(json.names);
  const count = (items: unknown) => names.map((_, i) => number(list(items)[i]) ?? 0);
  const confused = names.map((_, i) =>
    list(list(json.confused)[i]).flatMap((pair): [number, number][] => {
      const [label, times] = list(pair).map(number);
      return typeof label === 'number' && typeof times === 'number' && names[label] !== undefined ? [[label, times]] : [];
    }),
  );
  return names.length > 0 ? { ...readWeights(json), names, images: count(json.images), hits: count(json.hits), confused } : null;
}

function scalars(value: unknown): Record<string, Scalar> {
  const result: Record<string, Scalar> = {};
  for (const [name, item] of Object.entries(object(value) ?? {})) result[name] = typeof item === 'object' && item !== null ? JSON.stringify(item) : (item as Scalar);
  return result;
}

function readChoice(value: unknown): Choice | null {
  const json = object(value);
  if (!json) return null;
  const kept = object(json.kept);
  const trials = list(json.trials).map((item, i) => {
    const trial = object(item) ?? {};
    return { name: text(trial.name) ?? `trial ${i + 1}`, settings: scalars(trial.settings), values: numbers(trial) };
  });
  return {
    summary: text(json.summary) ?? '',
    trials,
    chosen: scalars(json.chosen),
    start: numbersOrNull(json.start ?? json.untrained),
    interpolations: list(json.interpolations).map(numbers),
    held_out_classes: number(json.held_out_classes),
    held_out_images: number(json.held_out_images),
    own_split: json.own_split === true,
    seconds: number(json.seconds),
    kept: kept ? { epoch: number(kept.epoch), reason: text(kept.reason) ?? '', evaluated_on: text(kept.evaluated_on) ?? '', metrics: numbers(kept.metrics) } : null,
  };
}

function readRun(value: unknown, index: number): Run {
  const json = object(value) ?? {};
  return {
    index,
    name: text(json.name) || text(json.path) || `run ${index + 1}`,
    path: text(json.path) ?? '',
    dataset: text(json.dataset) ?? '',
    system: text(json.system) ?? '',
    settings: scalars(json.settings),
    finished: json.finished === true,
    epochs_planned: number(json.epochs_planned),
    target_error: number(json.target_error),
    paper: readPaper(json.paper),
    epochs: readEpochs(json.epochs),
    map: readMap(json.map),
    triplets: readTriplets(json.triplets),
    gallery: readGallery(json.gallery),
    classes: readClasses(json.classes),
    choice: readChoice(json.choice),
    started: text(json.started),
    updated: text(json.updated),
  };
}

// Two runs may bear one name: their paths, or else numbers, tell them apart.
function makeNamesUnique(runs: Run[]): void {
  const count = new Map<string, number>();
  for (const run of runs) count.set(run.name, (count.get(run.name) ?? 0) + 1);
  const seen = new Set<string>();
  for (const run of runs) {
    if ((count.get(run.name) ?? 0) > 1 && run.path !== '' && run.path !== run.name) run.name = `${run.name} (${run.path})`;
    const base = run.name;
    for (let i = 2; seen.has(run.name); ++i) run.name = `${base} #${i}`;
    seen.add(run.name);
  }
}

export function readDocument(source: string): Reading {
  let json: unknown;
  try {
    json = JSON.parse(source);
  } catch (error) {
    return { kind: 'unreadable', why: error instanceof Error ? error.message : String(error) };
  }
  if (json === null) return { kind: 'empty' };
  const root = object(json);
  if (!root) return { kind: 'unreadable', why: 'it is not a JSON object' };
  if (root.format !== 1) return { kind: 'unreadable', why: `its format is ${JSON.stringify(root.format) ?? 'missing'}, and this page reads format 1` };
  pictures = list(root.pictures);
  const runs = list(root.runs).map(readRun);
  pictures = [];
  makeNamesUnique(runs);
  const refresh = number(root.refresh_seconds);
  return {
    kind: 'document',
    document: {
      generator: text(root.generator) ?? 'smartmine',
      refresh_seconds: refresh !== null && refresh > 0 ? refresh : null,
      problems: strings(root.problems).filter((problem) => problem !== ''),
      runs,
    },
  };
}
