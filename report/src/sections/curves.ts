import { kShare, ticks } from '../axis';
import { ink } from '../palette';
import { epochStackPanel, linePanel, Panel, runPicker, stackItem, stackKey, swatch, tooltip, valueAxis, type StackPart } from '../chart';
import type { Epoch, Run } from '../data';
import { duration, kindShare, kTripletKinds, lossParts, metric, metricName, percent, stageNames, stageTotal, toCsv, totalSeconds, tripletShare } from '../derive';
import { h, type Child } from '../dom';
import type { State } from '../state';
import { nothing, section, type Section } from './section';
import { hasSteps, smoothingControl, stepPanel } from './steps';

const has = (state: State, pick: (epoch: Epoch) => number | null): boolean => state.runs.some((run) => run.epochs.some((epoch) => pick(epoch) !== null));

const grid = (...panels: (Panel | null)[]): HTMLElement => h('div.grid', {}, ...panels.map((panel) => panel?.element));

export function retrieval(state: State, tools: Child[]): Section {
  const line = (name: string, wide: boolean) => linePanel(state, { id: name, title: metricName(name), unit: 'percent', pick: metric(name), wide, height: wide ? 260 : 190 });
  const any = has(state, metric('recall@1')) || has(state, metric('nmi'));
  const ranked = (): HTMLElement[] => {
    const known = ['map@r', 'r_precision'].filter((name) => has(state, metric(name)));
    return known.length > 0 ? [h('div.grid.pairs', {}, ...known.map((name) => line(name, false).element))] : [];
  };
  return section(
    'retrieval',
    'Retrieval',
    'How often one of an image’s K nearest others shows its class, how well clusters match classes (NMI), and how the whole class is ranked (MAP@R, R-precision). Epoch 0 is before training.',
    tools,
    any
      ? h('div', {}, h('div.grid.halves', {}, line('recall@1', true).element, line('nmi', true).element), h('div.grid.thirds', {}, ...[2, 4, 8].map((k) => line(`recall@${k}`, false).element)), ...ranked())
      : nothing('No evaluation has been logged yet.'),
  );
}

export function training(state: State): Section {
  const target = (run: Run) => run.target_error;
  const parts = lossParts(state.runs);
  const of = (id: string, title: string, unit: 'percent' | 'number', pick: (epoch: Epoch) => number | null, note: string, goal?: typeof target) =>
    has(state, pick) ? linePanel(state, { id, title, unit, pick, note, target: goal }) : null;
  const panels = [
    of('training-error', 'Training error', 'percent', (epoch) => epoch.training_error, 'Share of the loss’s terms above 0', target),
    of('validation-error', 'Validation error', 'percent', (epoch) => epoch.validation_error, 'Random triplets of the evaluated split that violate the margin'),
    of('reserved-error', 'Error of reserved images', 'percent', (epoch) => epoch.reserved_error, 'Random triplets of training classes’ images that are not trained on'),
    of('kappa', 'Kappa', 'number', (epoch) => epoch.kappa, 'Neighbours nearer than kappa times the first positive are left out'),
    of('learning-rate', 'Learning rate', 'number', (epoch) => epoch.learning_rate, 'In the middle of the epoch'),
    of('loss', 'Loss', 'number', (epoch) => epoch.loss, 'Mean over the steps'),
    ...(parts.length > 1 ? parts.map((part) => of(`loss-${part}`, `Loss: ${part}`, 'number', (epoch) => epoch.loss_parts[part] ?? null, 'Part of the loss')) : []),
  ];
  return section('training', 'Training', 'How hard the triplets were, what was done about it, and the loss.', [smoothingControl(state)], panels.some((panel) => panel) ? h('div', {}, h('div.grid.pairs', {}, ...panels.map((panel) => panel?.element)), hasSteps(state) ? grid(stepPanel(state)) : null) : nothing('No epoch of training has been logged yet.'));
}

export function mining(state: State): Section {
  const mines = (run: Run) => run.epochs.some((epoch) => epoch.mining);
  const lead = 'How many triplets came from the neighbour lists, and how many fell back to random ones because the lists held nothing usable.';
  if (!state.runs.some(mines)) return section('mining', 'Mining', lead, [], nothing('None of these runs has mined triplets so far.'));
  const parts = (run: Run): StackPart[] =>
    kTripletKinds.map((kind, i) => ({ key: kind.key, name: kind.name, color: i, decal: i })).filter((part) => run.epochs.some((epoch) => (epoch.mining?.[part.key] ?? 0) > 0));
  const ofGraph = (id: string, title: string, unit: 'percent' | 'number', name: string, note: string) => {
    const pick = (epoch: Epoch) => epoch.lists?.[name] ?? null;
    return has(state, pick) ? linePanel(state, { id, title, unit, pick, note }) : null;
  };
  return section(
    'mining',
    'Mining',
    lead,
    [runPicker(state, mines, 'Run whose triplets are shown by kind')],
    grid(
      linePanel(state, { id: 'mined-share', title: 'Mined triplets', note: 'Share whose negative came from a list', unit: 'percent', limits: kShare, pick: (epoch) => tripletShare(epoch, 'mined') }),
      linePanel(state, { id: 'fallback-share', title: 'Fallbacks', note: 'Share that had to be drawn at random', unit: 'percent', limits: kShare, pick: (epoch) => tripletShare(epoch, 'fallback') }),
      epochStackPanel(state, {
        id: 'triplet-kinds',
        title: 'Triplets by kind',
        wide: true,
        height: 230,
        unit: 'percent',
        limits: kShare,
        run: () => state.focus(mines),
        parts,
        pick: kindShare,
        empty: 'The runs shown have not mined in these epochs.',
      }),
      ofGraph('graph-success', 'Success rate of the graph', 'percent', 'success_rate', 'Share of random walks that reach their target'),
      ofGraph('graph-bound', 'Its lower bound', 'percent', 'success_bound', 'Lower end of the 95 % interval'),
      ofGraph('graph-degree', 'Degree of the graph', 'number', 'mean_degree', 'Edges per image'),
    ),
  );
}

// Parts of a stack keep their look whichever run is shown.
const stages = (state: State): StackPart[] => stageNames(state.runs).map((key, i) => ({ key, name: key.replaceAll('_', ' '), color: i, decal: i }));

export function time(state: State): Section {
  const timed = (run: Run) => run.epochs.some((epoch) => Object.keys(epoch.stage_seconds).length > 0);
  if (!state.runs.some(timed)) return section('time', 'Where the time went', '', [], nothing('No times have been logged.'));
  const all = stages(state);
  const panels: (Panel | null)[] = [
    epochStackPanel(state, {
      id: 'stages',
      title: 'Time of an epoch',
      wide: true,
      height: 230,
      unit: 'seconds',
      run: () => state.focus(timed),
      parts: (run) => all.filter((part) => run.epochs.some((epoch) => epoch.stage_seconds[part.key] !== undefined)),
      pick: (epoch, key) => epoch.stage_seconds[key] ?? null,
      summary: (run, part) => percent(stageTotal(run, part.key) / (totalSeconds(run) || 1)),
    }),
    has(state, (epoch) => epoch.images_per_second)
      ? linePanel(state, { id: 'images-per-second', title: 'Images a second', note: 'Through the network in training', unit: 'number', pick: (epoch) => epoch.images_per_second })
      : null,
    state.runs.length > 1 ? totals(state, all) : null,
  ];
  return section('time', 'Where the time went', '', [runPicker(state, timed, 'Run whose epochs are shown by stage')], grid(...panels));
}

function totals(state: State, parts: StackPart[]): Panel {
  const runs = () => [...state.shown].reverse();
  return new Panel(state, {
    id: 'stage-totals',
    title: 'Time of the runs',
    note: 'All epochs so far',
    after: ['runs'],
    gist: () => state.shown.map((run) => `${run.name}: ${duration(totalSeconds(run))}.`).join(' '),
    stops: () => 0,
    height: Math.max(150, 46 + 40 * state.runs.length),
    legend: () => parts.map((part) => stackKey(part)),
    csv: () => toCsv([['run', ...parts.map((part) => part.name)], ...state.shown.map((run) => [run.name, ...parts.map((part) => stageTotal(run, part.key))])]),
    option: () => {
      const drawn = runs();
      if (drawn.length === 0) return null;
      const byName = new Map(drawn.map((run) => [run.index, run]));
      const axis = valueAxis('seconds', ticks(drawn.map((run) => totalSeconds(run) ?? 0), { zero: true, time: true, count: 3 }));
      return {
        grid: { left: 148, right: 30, top: 6, bottom: 26, outerBoundsMode: 'none' },
        tooltip: {
          ...tooltip((index) => {
            const run = byName.get(index);
            if (!run) return null;
            const rows = parts.map((part) => ({ swatch: stackKey({ ...part, name: '' }) as Child, name: part.name, value: duration(stageTotal(run, part.key)) }));
            return { head: run.name, rows: [...rows, { swatch: swatch({ color: ink().muted }, 0), name: 'all', value: duration(totalSeconds(run)) }] };
          }),
          axisPointer: { type: 'shadow', shadowStyle: { opacity: 0.12 } },
        },
        xAxis: axis,
        yAxis: {
          type: 'category',
          data: drawn.map((run) => String(run.index)),
          axisLine: { show: false },
          axisTick: { show: false },
          axisLabel: { ...axis.axisLabel, formatter: (index: string) => byName.get(Number(index))?.name ?? '', width: 138, overflow: 'break', lineHeight: 13 },
        },
        series: parts.map((part) => ({
          type: 'bar' as const,
          id: part.key,
          name: part.name,
          stack: 'all',
          barMaxWidth: 18,
          data: drawn.map((run) => stageTotal(run, part.key)),
          itemStyle: stackItem(part),
          emphasis: { disabled: true },
        })),
      };
    },
  });
}
