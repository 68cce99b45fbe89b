import { kShare } from '../axis';
import { linePanel, swatch } from '../chart';
import type { Epoch, Run } from '../data';
import { nearShare } from '../derive';
import { h, named } from '../dom';
import { lookOfRun } from '../palette';
import type { State } from '../state';
import { section, type Section } from './section';

const kLead = 'Which classes the neighbour lists put into one batch, and how hard its pairs were before they were trained on.';

const last = (run: Run): Epoch | null => run.epochs.filter((epoch) => epoch.together.length > 0).pop() ?? null;

// The pairs of classes of the last epoch that has some.
function together(run: Run, alone: boolean): HTMLElement | null {
  const epoch = last(run);
  if (!epoch) return null;
  const caption = `Classes most often in one batch, epoch ${epoch.epoch}`;
  return h(
    'div',
    {},
    alone ? h('h3', {}, caption) : h('h3', {}, h('span.run-name', {}, swatch(lookOfRun(run.index), 22), named(run.name)), ` – ${caption.toLowerCase()}`),
    h(
      'div.scroll',
      { tabindex: 0, role: 'region', 'aria-label': `${caption}, ${run.name}` },
      h(
        'table.settings',
        {},
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Class'), h('th', { scope: 'col' }, 'and'), h('th.number', { scope: 'col' }, `of ${epoch.grouping?.looked_at ?? '–'} batches`))),
        h('tbody', {}, ...epoch.together.map((pair) => h('tr', {}, h('td', { dir: 'auto' }, pair.first), h('td', { dir: 'auto' }, pair.second), h('td.number', {}, String(pair.batches))))),
      ),
    ),
  );
}

/// Null where no run made batches from lists.
export function batches(state: State): Section | null {
  const grouped = state.runs.filter((run) => run.epochs.some((epoch) => epoch.grouping?.looked_at !== undefined));
  if (grouped.length === 0) return null;
  const of = (name: string) => (epoch: Epoch) => epoch.grouping?.[name] ?? null;
  const lists = grouped.map((run) => together(run, state.runs.length === 1)).filter((list) => list !== null);
  return section(
    'batches',
    'Batches',
    kLead,
    [],
    h(
      'div.grid.pairs',
      {},
      linePanel(state, { id: 'near-groups', title: 'Near classes', note: 'Share of a batch’s classes that the lists chose', unit: 'percent', limits: kShare, pick: nearShare }).element,
      linePanel(state, { id: 'batch-error', title: 'Error in the batch', note: 'Images whose nearest other of the batch is of another class, before the epoch', unit: 'percent', pick: of('batch_error') }).element,
      linePanel(state, { id: 'batch-positive', title: 'Nearest of the class', note: 'Mean squared distance in the batch', unit: 'number', pick: of('nearest_positive_distance') }).element,
      linePanel(state, { id: 'batch-negative', title: 'Nearest of another class', note: 'Mean squared distance in the batch', unit: 'number', pick: of('nearest_negative_distance') }).element,
    ),
    ...lists,
  );
}
