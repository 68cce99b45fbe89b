import { describe, expect, it } from 'vitest';

import { ticks, timeText } from '../src/axis';
import { readDocument, type Epoch, type Run } from '../src/data';
import {
  band,
  bestEvaluation,
  clampRange,
  classRecall,
  dayAndTime,
  decimal,
  device,
  differingSettings,
  isUsed,
  duration,
  elapsed,
  epochSpan,
  groupName,
  isChosen,
  sharesAreChosen,
  histogramEnd,
  kindShare,
  lastEvaluation,
  linesToCsv,
  median,
  neighborsRight,
  orderedClasses,
  overlap,
  paperGroups,
  percent,
  places,
  points,
  seedGroups,
  smoothed,
  stageNames,
  stageTotal,
  status,
  stepPoints,
  toCsv,
  weightsIn,
  totalSeconds,
  nearShare,
  tripletShare,
} from '../src/derive';

function runs(...of: object[]): Run[] {
  const reading = readDocument(JSON.stringify({ format: 1, runs: of }));
  if (reading.kind !== 'document') throw new Error('not read');
  return reading.document.runs;
}

const run = (epochs: object[], more: object = {}): Run => runs({ name: 'a', epochs, ...more })[0];
const epoch = (of: object): Epoch => run([{ epoch: 1, ...of }]).epochs[0];

describe('weights', () => {
  it('are those of an epoch, or in words those that the run keeps', () => {
    const weights = (more: object) => weightsIn(run([], { classes: { names: ['a'], ...more } }).classes!);
    expect(weights({ epoch: 21 })).toBe(', epoch 21');
    expect(weights({ epoch: 21, kept: null })).toBe(', epoch 21');
    expect(weights({ epoch: 21, kept: 'epoch 21, 75 % of the way from the start' })).toBe('; weights: epoch 21, 75 % of the way from the start');
    expect(weights({})).toBe('');
  });
});

describe('metrics', () => {
  const a = run([{ epoch: 0, metrics: { 'recall@1': 0.2 } }, { epoch: 1, metrics: { 'recall@1': 0.5, nmi: 0.3 }, evaluated_on: 'test' }, { epoch: 2 }, { epoch: 3, metrics: { 'recall@1': 0.5 } }, { epoch: 4, metrics: { 'recall@1': 0.4 } }, { epoch: 5 }]);

  it('are best at the first of equal epochs and last at the last evaluated one', () => {
    expect(bestEvaluation(a)).toEqual({ epoch: 1, split: 'test', metrics: { 'recall@1': 0.5, nmi: 0.3 } });
    expect(lastEvaluation(a)?.epoch).toBe(4);
    expect(bestEvaluation(a, 'nmi')?.epoch).toBe(1);
    expect(bestEvaluation(run([{ epoch: 1 }]))).toBeNull();
  });

  it('give points of the epochs in range that have them', () => {
    expect(points(a, (e) => e.metrics?.['recall@1'] ?? null, [1, 4])).toEqual([
      [1, 0.5],
      [3, 0.5],
      [4, 0.4],
    ]);
  });
});

describe('settings', () => {
  it('differ also where one run lacks them', () => {
    const rows = differingSettings(runs({ name: 'a', settings: { seed: 1, kappa: 4, only: true } }, { name: 'b', settings: { seed: 2, kappa: 4 } }));
    expect(rows).toEqual([
      { name: 'seed', values: [1, 2] },
      { name: 'only', values: [true, undefined] },
    ]);
  });

  it('do not differ where a system has no use for them', () => {
    const of = (system: string, kappa: number, margin: number) => ({ name: system, system, settings: { kappa, margin } });
    expect(differingSettings(runs(of('triplet-global', 8, 0.2), of('triplet-fanng', 4, 0.2), of('npairs', 2, 0.5)))).toEqual([]);
    expect(differingSettings(runs(of('triplet-global', 8, 0.2), of('triplet-fanng', 4, 0.3), of('triplet-fanng-global', 2, 0.2)))).toEqual([
      { name: 'kappa', values: [undefined, 4, 2] },
      { name: 'margin', values: [0.2, 0.3, 0.2] },
    ]);
  });
});

describe('batches of near classes', () => {
  it('know what the lists chose behind the first group of each, and which classes came together', () => {
    const made = epoch({ grouping: { batches: 10, groups: 50, near_groups: 30, looked_at: 10, together: [{ first: 'a', second: 'b', batches: 4 }, { first: 'c' }, 7] } });
    expect(nearShare(made)).toBe(0.75);
    expect(made.together).toEqual([{ first: 'a', second: 'b', batches: 4 }]);
  });

  it('say nothing where nothing was grouped', () => {
    expect(nearShare(epoch({}))).toBeNull();
    expect(nearShare(epoch({ grouping: { batches: 3, groups: 3, near_groups: 0 } }))).toBeNull();
    expect(epoch({ grouping: null }).together).toEqual([]);
  });
});

describe('mining', () => {
  const mined = epoch({ mining: { triplets: 200, mined: 80, mined_outside_positive: 16, mined_nearer_positive: 4, random_no_positive: 10, random_no_negative: 30, random_no_farther_positive: 10, random_by_share: 50 } });

  it('counts what was asked for at random neither as mined nor as fallback', () => {
    expect(tripletShare(mined, 'mined')).toBe(0.5);
    expect(tripletShare(mined, 'fallback')).toBe(0.25);
    expect(tripletShare(mined, 'chosen')).toBe(0.25);
    expect(kindShare(mined, 'mined')).toBe(0.4);
  });

  it('has no share without triplets', () => {
    expect(tripletShare(epoch({}), 'mined')).toBeNull();
    expect(tripletShare(epoch({ mining: { triplets: 0, mined: 0 } }), 'mined')).toBeNull();
    expect(tripletShare(epoch({ mining: {} }), 'fallback')).toBeNull();
  });
});

describe('time', () => {
  const a = run([{ epoch: 0, stage_seconds: { evaluation: 2, zeta: 1 } }, { epoch: 1, stage_seconds: { steps: 5, evaluation: 2 } }, { epoch: 2, seconds: 7 }]);

  it('adds up, from the stages or, without them, the whole', () => {
    expect(totalSeconds(a)).toBe(17);
    expect(totalSeconds(run([{ epoch: 0 }]))).toBeNull();
    expect(stageTotal(a, 'evaluation')).toBe(4);
  });

  it('has longer lists between lists and selection', () => {
    const longer = run([{ epoch: 3, stage_seconds: { selection: 1, longer_lists: 2, lists: 3 } }]);
    expect(stageNames([longer])).toEqual(['lists', 'longer_lists', 'selection']);
  });

  it('is stacked in the order of an epoch, unknown stages last', () => expect(stageNames([a])).toEqual(['steps', 'evaluation', 'zeta']));
});

describe('epochs', () => {
  it('span all runs', () => {
    expect(epochSpan(runs({ epochs: [{ epoch: 3 }] }, { epochs: [{ epoch: 1 }, { epoch: 9 }] }))).toEqual([1, 9]);
    expect(epochSpan([])).toBeNull();
  });

  it('keep a chosen range within what there is', () => {
    expect(clampRange(null, [0, 9])).toEqual([0, 9]);
    expect(clampRange([7, 2], [0, 9])).toEqual([2, 7]);
    expect(clampRange([-5, 1e9], [0, 9])).toEqual([0, 9]);
    expect(clampRange([4, 4], [0, 9])).toEqual([0, 9]);
    expect(clampRange([20, 30], [0, 9])).toEqual([0, 9]);
  });

  it('say how far a run is', () => {
    expect(status(run([{ epoch: 7 }], { epochs_planned: 20 }))).toBe('not finished, epoch 7 of 20');
    expect(status(run([{ epoch: 20 }], { finished: true }))).toBe('finished, 20 epochs');
    expect(status(run([]))).toBe('no epoch yet');
  });
});

describe('of what was tried', () => {
  const chosen = (of: object, trials: object[]): string[] => {
    const choice = runs({ choice: { trials, chosen: of } })[0].choice!;
    return choice.trials.filter((trial) => isChosen(choice, trial)).map((trial) => trial.name);
  };
  const trial = (name: string, rate: number) => ({ name, settings: { 'learning-rate': rate } });
  const trials = [trial('short', 0.01), trial('faster', 0.02), trial('long', 0.01)];

  it('the trial that is named is the chosen one, whatever rates the others have', () => {
    expect(chosen({ trial: 'long', 'learning-rate': 0.01, epochs: 12 }, trials)).toEqual(['long']);
  });

  it('those of the chosen settings are, where none is named', () => {
    expect(chosen({ 'learning-rate': 0.02, epochs: 12 }, trials)).toEqual(['faster']);
    expect(chosen({ trial: '', 'learning-rate': 0.02, epochs: 12 }, trials)).toEqual(['faster']);
    expect(chosen({}, trials)).toEqual([]);
  });

  it('of two systems at one rate only the chosen one is', () => {
    const of = (system: string) => ({ name: system, settings: { system, 'learning-rate': 0.1 } });
    expect(chosen({ system: 'neighbor-batch', 'learning-rate': 0.1, epochs: 8 }, [of('triplet-global'), of('neighbor-batch')])).toEqual(['neighbor-batch']);
  });

  it('a share that was measured at another rate is not marked', () => {
    const of = (chosen: object) => sharesAreChosen(runs({ choice: { trials, chosen, interpolations: [{ share: 0.5 }] } })[0].choice!);
    expect(of({ trial: 'long', 'learning-rate': 0.01, epochs: 12, share: 0.5 })).toBe(true);
    expect(of({ trial: 'long', 'learning-rate': 0.004, epochs: 12, share: 0.5 })).toBe(false);
    expect(sharesAreChosen(runs({ choice: { own_split: true, trials, chosen: { trial: 'long', 'learning-rate': 0.004, epochs: 12 } } })[0].choice!)).toBe(true);
  });

  it('none is, where no training is best', () => {
    expect(chosen({ trial: 'long', 'learning-rate': 0.01, epochs: 0 }, trials)).toEqual([]);
  });
});

describe('seeds', () => {
  const of = (name: string, seed: number, rate: number, more: object = {}) => ({ name, dataset: 'glyphs', system: 'npairs', settings: { seed, rate, threads: seed }, ...more });

  it('group runs that differ in nothing else', () => {
    const groups = seedGroups(runs(of('a', 1, 0.1), of('b', 1, 0.2), of('c', 2, 0.1), { name: 'd' }, { name: 'e' }));
    expect(groups.map((group) => group.map((run) => run.name))).toEqual([['a', 'c'], ['b'], ['d'], ['e']]);
    expect(groupName(groups[0])).toBe('npairs, seeds 1, 2');
    expect(groupName(groups[1])).toBe('b');
  });

  it('do not group runs on folders in two places', () => {
    const on = (name: string, seed: number, root: string, dataset = 'folder') => of(name, seed, 0.1, { dataset, settings: { seed, rate: 0.1, 'data-root': root } });
    const groups = seedGroups(runs(on('a', 1, '/sets/birds'), on('b', 1, '/sets/cars'), on('c', 2, '/sets/birds/')));
    expect(groups.map((group) => group.map((run) => run.name))).toEqual([['a', 'c'], ['b']]);
    expect(groupName(groups[0])).toBe('npairs, birds, seeds 1, 2');
    expect(seedGroups(runs(on('a', 1, '/here', 'cub200'), on('b', 2, '/there', 'cub200'))).length).toBe(1);
  });

  it('have a mean and a deviation at every epoch that some of them have', () => {
    const place = (epoch: number, value: number) => ({ epoch, x: 10 * epoch, value });
    expect(band([[place(1, 0.4), place(2, 0.5)], [place(1, 0.6)]])).toEqual([
      { epoch: 1, x: 10, mean: 0.5, deviation: expect.closeTo(Math.sqrt(0.02)), runs: 2 },
      { epoch: 2, x: 20, mean: 0.5, deviation: null, runs: 1 },
    ]);
  });
});

describe('time since the start', () => {
  it('is that at the end of each epoch, and ends where one is not told', () => {
    const a = run([{ epoch: 0, seconds: 2 }, { epoch: 1, seconds: 5, loss: 1 }, { epoch: 2, loss: 3 }, { epoch: 3, seconds: 1, loss: 4 }]);
    expect([...elapsed(a)]).toEqual([[0, 2], [1, 7]]);
    expect(places(a, (of) => of.loss, [0, 3], true)).toEqual([{ epoch: 1, x: 7, value: 1 }]);
    expect(places(a, (of) => of.loss, [0, 3], false).map((of) => of.x)).toEqual([1, 2, 3]);
  });
});

describe('classes', () => {
  const classes = (hits: number[]) => run([], { classes: { names: ['b10', 'b9', 'a', 'none'], images: [4, 4, 2, 0], hits, confused: [[[1, 2], [9, 1], 'x'], []] } }).classes!;

  it('are ordered by recall, by name, or by what another run has more; what is no class is left out', () => {
    const [a, b] = [classes([1, 4, 1, 0]), classes([1, 4, 2, 0])];
    expect(classRecall(a, 0)).toBe(0.25);
    expect(classRecall(a, 3)).toBeNull();
    expect(a.confused[0]).toEqual([[1, 2]]);
    expect(orderedClasses(a, 'worst', null)).toEqual([0, 2, 1]);
    expect(orderedClasses(a, 'best', null)).toEqual([1, 2, 0]);
    expect(orderedClasses(a, 'name', null)).toEqual([2, 1, 0]);
    expect(orderedClasses(a, 'behind', b)).toEqual([2, 0, 1]);
  });
});

describe('where and when a run was', () => {
  it('is told by the log before the settings', () => {
    expect(device(run([{ epoch: 1, device: 'NVIDIA H200' }], { settings: { device: 'auto' } }))).toBe('NVIDIA H200');
    expect(device(run([{ epoch: 1 }], { settings: { device: 'cuda' } }))).toBe('cuda');
    expect(device(run([]))).toBeNull();
    expect(dayAndTime('2026-03-04T09:12:40Z')).toBe('2026-03-04 09:12 UTC');
    expect([dayAndTime('yesterday'), dayAndTime(null)]).toEqual([null, null]);
  });
});

describe('histograms', () => {
  it('overlap by their common mass, whatever their sizes', () => {
    expect(overlap({ positive: [1, 1, 0], negative: [0, 10, 10], max: 4 })).toBeCloseTo(0.5);
    expect(overlap({ positive: [2, 2], negative: [7, 7], max: 4 })).toBeCloseTo(1);
    expect(overlap({ positive: [1, 0], negative: [0, 0], max: 4 })).toBeNull();
  });

  it('have their median inside a bin', () => {
    expect(median([0, 4, 0, 0], 4)).toBeCloseTo(1.5);
    expect(median([1, 1, 1, 1], 4)).toBeCloseTo(2);
    expect(median([0, 0], 4)).toBeNull();
  });

  it('end at the last bin that was ever used', () => {
    expect(histogramEnd(runs({ epochs: [{ epoch: 1, distances: { positive: [1, 0, 0, 0], negative: [0, 1, 0, 0], max: 4 } }, { epoch: 2, distances: { positive: [1, 0, 1, 0], negative: [0, 0, 0, 0], max: 4 } }] }, { epochs: [{ epoch: 1, distances: { positive: [1, 1], negative: [1, 0], max: 3.5 } }] }))).toBe(3.5);
  });
});

describe('the paper’s table', () => {
  it('is one a data set, with runs at the rows of their systems', () => {
    const paper = (row: number | null) => ({ rows: [{ name: 'x', nmi: 0.5 }, { name: 'y', nmi: 0.6 }], row_of_system: row });
    const groups = paperGroups(runs({ name: 'a', dataset: 'cub200', paper: paper(1) }, { name: 'b', dataset: 'glyphs' }, { name: 'c', dataset: 'cub200', paper: paper(null) }, { name: 'd', dataset: 'cars196', paper: paper(9) }));
    expect(groups.map((group) => [group.dataset, group.runs.map((of) => of.name), group.rows.map((row) => row.runs.map((of) => of.name))])).toEqual([
      ['cub200', ['a', 'c'], [[], ['a']]],
      ['cars196', ['d'], [[], []]],
    ]);
  });
});

describe('the map', () => {
  it('marks neighbours of the same class as right', () => expect(neighborsRight([3, 3, 1], [1, 2], 0)).toEqual([true, false]));
});

describe('numbers as text', () => {
  it('are short and say when they are missing', () => {
    expect([percent(0.4567), percent(0), percent(null), percent(1, 0)]).toEqual(['45.7 %', '0.0 %', '–', '100 %']);
    expect([decimal(2.123456), decimal(12345.6), decimal(0.00001234), decimal(0), decimal(undefined)]).toEqual(['2.123', '12,346', '1.23e-5', '0', '–']);
    expect([duration(0.0005), duration(0.02), duration(4.6), duration(59.97), duration(208), duration(11525), duration(null)]).toEqual(['0.5 ms', '20 ms', '4.6 s', '1 min 0 s', '3 min 28 s', '3 h 12 min', '–']);
  });

  it('are quoted as CSV where they must be', () => {
    expect(toCsv([['a', 'b,"c"', 'd\ne'], [1, null, 0.5]])).toBe('a,"b,""c""","d\ne"\n1,,0.5\n');
    expect(linesToCsv([{ name: 'x', points: [[1, 0.5], [3, 0.7]] }, { name: 'y', points: [[2, 0.1]] }])).toBe('epoch,x,y\n1,0.5,\n2,,0.1\n3,0.7,\n');
  });
});

describe('axes', () => {
  it('hold all values between round ends, and are not much wider', () => {
    let state = 1;
    const draw = () => (state = (state * 16807) % 2147483647) / 2147483647;
    for (let i = 0; i < 2000; ++i) {
      const scale = 10 ** Math.floor(draw() * 9 - 4);
      const values = [draw() * scale, draw() * scale, draw() * scale];
      const options = { zero: draw() < 0.3, time: draw() < 0.3 };
      const { min, max, interval } = ticks(values, options);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      expect(min).toBeLessThanOrEqual(low);
      expect(max).toBeGreaterThanOrEqual(high);
      expect(min).toBeGreaterThanOrEqual(0);
      expect(Math.abs(Math.round(min / interval) - min / interval)).toBeLessThan(1e-6);
      expect(Math.abs(Math.round(max / interval) - max / interval)).toBeLessThan(1e-6);
      expect((max - min) / interval).toBeLessThan(10);
      if (!options.time) expect(max - min).toBeLessThan(3 * (high - (options.zero ? 0 : low)) + 1e-12);
    }
    expect(ticks([])).toEqual({ min: 0, max: 1, interval: 0.25 });
    expect(ticks([0.5])).toMatchObject({ min: expect.any(Number) });
  });

  it('name round times', () => expect([0, 0.25, 5, 90, 60, 120, 300, 7200].map(timeText)).toEqual(['0', '250 ms', '5 s', '90 s', '1 min', '2 min', '5 min', '2 h']));
});

describe('steps', () => {
  const [run] = runs({
    epochs: [
      { epoch: 1, steps: 4, step_losses: { every: 1, values: [4, 3, null, 2] } },
      { epoch: 2, steps: 4, step_losses: { every: 2, values: [1, 0.5] } },
      { epoch: 3, steps: 4, step_losses: { every: 0, values: [1] } },
    ],
  });

  it('lie between the epochs, and one that was skipped is left out', () => {
    expect(stepPoints(run, [0, 3]).map((point) => [point.epoch, point.step, point.x, point.value])).toEqual([
      [1, 1, 0.25, 4],
      [1, 2, 0.5, 3],
      [1, 4, 1, 2],
      [2, 1, 1.25, 1],
      [2, 3, 1.75, 0.5],
    ]);
    expect(stepPoints(run, [2, 3]).map((point) => point.value)).toEqual([1, 0.5]);
  });

  it('are smoothed by a mean that forgets, from the first value on', () => {
    expect(smoothed([4, 2, 8], 0)).toEqual([4, 2, 8]);
    expect(smoothed([4, 2, 8], 0.5)).toEqual([4, (2 + 2) / 1.5, (1 + 1 + 8) / 1.75]);
    expect(smoothed([3, 3, 3], 0.99).map((value) => Number(value.toFixed(9)))).toEqual([3, 3, 3]);
  });
});

describe('settings', () => {
  it('are told apart by the systems that use them', () => {
    const uses = (system: string, ...names: string[]) => names.map((name) => isUsed(runs({ system })[0], name));
    expect(uses('class-batch', 'kappa', 'neighbors', 'images-per-class', 'multisimilarity-alpha', 'margin')).toEqual([false, false, true, true, false]);
    expect(uses('neighbor-batch', 'kappa', 'neighbors', 'images-per-class', 'multisimilarity-alpha', 'hub-limit', 'target-error')).toEqual([true, true, true, true, false, false]);
    expect(uses('neighbor-semihard', 'kappa', 'kappa-factor', 'images-per-class', 'margin', 'multisimilarity-alpha')).toEqual([true, true, true, true, false]);
    expect(uses('neighbor-batch-adaptive', 'target-error', 'kappa-factor', 'memory-neighbors')).toEqual([true, false, false]);
    expect(uses('memory-batch', 'memory-neighbors', 'kappa', 'multisimilarity-beta')).toEqual([true, true, true]);
    expect(uses('smart-batch', 'kappa', 'target-error', 'images-per-class', 'kappa-factor')).toEqual([true, true, false, false]);
    expect(uses('triplet-fanng-global', 'kappa-factor', 'target-error', 'global-weight')).toEqual([true, false, true]);
    expect(uses('', 'kappa')).toEqual([true]);
  });
});
