import { runPicker } from '../chart';
import type { Anchor, Run, Triplet } from '../data';
import { decimal, toCsv, type Cell } from '../derive';
import { csvButton, h, named, svg, whenNear, type Child } from '../dom';
import type { State } from '../state';
import { picture } from './pictures';
import { nothing, section, type Section } from './section';

const kMost = 3;

const distancesOf = (anchors: Anchor[]): number[] =>
  anchors.flatMap((anchor) => anchor.epochs.flatMap((epoch) => [...epoch.mined, ...epoch.random].flatMap((triplet) => [triplet.positive.distance, triplet.negative.distance]))).filter((d): d is number => d !== null);

// Both distances on one line from 0: a negative left of the positive is a hard one.
function scale(triplet: Triplet, max: number): SVGElement | null {
  const { positive, negative } = { positive: triplet.positive.distance, negative: triplet.negative.distance };
  if (positive === null || negative === null || max <= 0) return null;
  const x = (d: number) => 6 + (d / max) * 124;
  return svg(
    'svg',
    { viewBox: '0 0 136 14', class: 'dumbbell', role: 'img', 'aria-label': negative <= positive ? 'The negative is nearer than the positive' : 'The positive is nearer than the negative' },
    svg('line', { x1: 6, x2: 130, y1: 7, y2: 7, class: 'dumbbell-axis' }),
    svg('line', { x1: 6, x2: 6, y1: 3, y2: 11, class: 'dumbbell-axis' }),
    svg('line', { x1: x(positive), x2: x(negative), y1: 7, y2: 7, class: negative <= positive ? 'dumbbell-hard' : 'dumbbell-easy' }),
    svg('circle', { cx: x(positive), cy: 7, r: 4.2, class: 'dumbbell-positive' }),
    svg('path', { d: `M${x(negative)} 1.4l5.6 5.6l-5.6 5.6l-5.6-5.6z`, class: 'dumbbell-negative' }),
  );
}

// The class is said where it is not the anchor's.
function side(of: Triplet['positive'], anchorClass: string, sign: string, className: string): HTMLElement {
  return h('div.member', {}, h('div.tile', {}, picture(of.image, of.name), h(`span.sign.${className}`, { 'aria-label': className }, sign)), h('span.side-distance', {}, of.distance === null ? '–' : of.distance.toFixed(2)), of.class === anchorClass ? null : named(of.class, 'side-class'));
}

function tripletView(triplet: Triplet, anchorClass: string, max: number, kind: string | null): HTMLElement {
  return h('div.triplet', {}, h('div.sides', {}, side(triplet.positive, anchorClass, '●', 'positive'), side(triplet.negative, anchorClass, '◆', 'negative')), scale(triplet, max), kind ? h('span.fallback', {}, kind) : null);
}

// `told`: each is named by what it is, mined or random; else all are what their row says.
function cell(triplets: Triplet[], anchorClass: string, max: number, told: boolean): HTMLElement {
  const rest = triplets.length - kMost;
  return h(
    'td',
    {},
    triplets.length === 0 ? h('span.none', {}, 'none') : null,
    ...triplets.slice(0, kMost).map((triplet) => tripletView(triplet, anchorClass, max, !told ? null : triplet.kind === 'mined' ? 'mined' : 'drawn at random')),
    rest > 0 ? h('span.under', {}, `and ${rest} more`) : null,
  );
}

/// Whether any triplet of these anchors came from mining; a system that draws at random has none.
export const minesAny = (anchors: Anchor[]): boolean => anchors.some((anchor) => anchor.epochs.some((epoch) => epoch.mined.some((triplet) => triplet.kind === 'mined')));

function anchorView(anchor: Anchor, max: number, mines: boolean): HTMLElement {
  const row = (name: string, under: string, of: (epoch: Anchor['epochs'][number]) => Triplet[], told: boolean): Child =>
    anchor.epochs.some((epoch) => of(epoch).length > 0)
      ? h('tr', {}, h('th', { scope: 'row' }, name, h('span.under', {}, under)), ...anchor.epochs.map((epoch) => cell(of(epoch), anchor.class, max, told)))
      : null;
  return h(
    'article.anchor',
    {},
    h('div.anchor-self', {}, picture(anchor.image, anchor.name), h('span.under', {}, 'anchor'), h('strong', {}, named(anchor.class)), named(anchor.name, 'under')),
    anchor.epochs.length > 0
      ? h(
          'div.scroll',
          { tabindex: 0, role: 'region', 'aria-label': `Triplets of ${anchor.name}` },
          h('table.triplets', {}, h('thead', {}, h('tr', {}, h('td'), ...anchor.epochs.map((epoch) => h('th', { scope: 'col' }, `epoch ${epoch.epoch}`, epoch.kappa !== null ? h('span.kappa', {}, ` κ ${decimal(epoch.kappa)}`) : null)))), h('tbody', {}, row('trained with', mines ? '' : 'random', (epoch) => epoch.mined, mines), row('random', 'to compare', (epoch) => epoch.random, false))),
        )
      : h('p.nothing', {}, 'No triplets were kept for this anchor.'),
  );
}

export function triplets(state: State): Section {
  const has = (run: Run) => (run.triplets?.length ?? 0) > 0;
  if (!state.runs.some(has)) return section('triplets', 'Triplets', '', [], nothing('None of these runs kept triplets of fixed anchors.'));
  const holder = h('div.anchors');
  const draw = () => {
    const run = state.focus(has);
    if (!run) return holder.replaceChildren(nothing('The runs shown kept no triplets.'));
    const mines = minesAny(run.triplets!);
    const max = distancesOf(run.triplets!).reduce((most, d) => Math.max(most, d), 0);
    holder.replaceChildren(
      h('div.key', {}, h('span.key-item', {}, h('span.sign.positive', {}, '●'), 'positive, same class'), h('span.key-item', {}, h('span.sign.negative', {}, '◆'), 'negative, another class'), h('span.key-item', {}, `numbers: squared distance to the anchor; lines from 0 to ${decimal(max)}`)),
      ...run.triplets!.map((anchor) => anchorView(anchor, max, mines)),
    );
  };
  let near = false;
  let drawn: Run | null = null;
  whenNear(holder, () => {
    near = true;
    drawn = state.focus(has);
    draw();
  });
  state.onChange((change) => {
    if (change !== 'runs' || !near || state.focus(has) === drawn) return;
    drawn = state.focus(has);
    draw();
  });
  const csv = () => {
    const rows: Cell[][] = [['anchor', 'class', 'epoch', 'source', 'kind', 'positive', 'positive distance', 'negative', 'negative class', 'negative distance']];
    for (const anchor of state.focus(has)?.triplets ?? [])
      for (const epoch of anchor.epochs)
        for (const source of ['mined', 'random'] as const)
          for (const { positive, negative, kind } of epoch[source]) rows.push([anchor.name, anchor.class, epoch.epoch, source, kind, positive.name, positive.distance, negative.name, negative.class, negative.distance]);
    return toCsv(rows);
  };
  return section(
    'triplets',
    'Triplets',
    'What a few fixed anchors were trained with, beside random triplets. Hard ones have the negative (◆) nearer than the positive (●).',
    [runPicker(state, has, 'Run whose triplets are shown'), csvButton('Triplets', csv)],
    holder,
  );
}
