import type { Numbers } from '../data';
import { lastEvaluation, metricName, paperGroups, toCsv, type Cell, type PaperGroup } from '../derive';
import { swatch } from '../chart';
import { csvButton, h, named, type Child } from '../dom';
import { lookOfRun } from '../palette';
import type { State } from '../state';
import { section, type Section } from './section';

const kOrder = ['nmi', 'recall@1', 'recall@2', 'recall@4', 'recall@8'];

const points = (value: number | undefined): string => (value === undefined ? '–' : (value * 100).toFixed(2));

function difference(value: number | undefined, paper: number | undefined): Child {
  if (value === undefined || paper === undefined) return null;
  const by = (value - paper) * 100;
  return h('span.difference', {}, `${by < 0 ? '−' : '+'}${Math.abs(by).toFixed(2)}`);
}

const cells = (metrics: Numbers, paper: Numbers | null): Child[] => kOrder.map((name) => h('td.number', {}, points(metrics[name]), difference(metrics[name], paper?.[name])));

function groupTable(state: State, group: PaperGroup): HTMLElement {
  const body = h('tbody');
  const runRow = (run: PaperGroup['runs'][number], paper: Numbers | null) => {
    const last = lastEvaluation(run);
    const where = last ? `epoch ${last.epoch}${last.split ? ` on ${last.split}` : ''}${run.finished ? '' : ', not finished'}` : 'not evaluated yet';
    return h('tr.ours', {}, h('th', { scope: 'row' }, h('span.run-name', {}, swatch(lookOfRun(run.index), 22), named(run.name)), h('span.under', {}, where)), ...cells(last?.metrics ?? {}, paper));
  };
  for (const row of group.rows) {
    const runs = row.runs.filter((run) => state.isShown(run));
    body.append(h(`tr${runs.length > 0 ? '.matched' : ''}` as 'tr', {}, h('th', { scope: 'row' }, named(row.name)), ...cells(row.metrics, null)));
    for (const run of runs) body.append(runRow(run, row.metrics));
  }
  const loose = group.runs.filter((run) => state.isShown(run) && !group.rows.some((row) => row.runs.includes(run)));
  if (loose.length > 0) body.append(h('tr.loose', {}, h('th', { scope: 'row', colspan: kOrder.length + 1 }, 'Runs of systems that are not in the table')));
  for (const run of loose) body.append(runRow(run, null));
  return h(
    'div.scroll',
    { tabindex: 0, role: 'region', 'aria-label': `The paper's table, ${group.dataset}` },
    h(
      'table.paper',
      {},
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, named(group.dataset)), ...kOrder.map((name) => h('th.number', { scope: 'col' }, metricName(name).replace('Recall', 'R'))))),
      body,
    ),
  );
}

function csv(state: State): string {
  const rows: Cell[][] = paperGroups(state.shown).flatMap((group) => [
    ...group.rows.map((row): Cell[] => [group.dataset, 'paper', row.name, null, ...kOrder.map((name) => row.metrics[name])]),
    ...group.runs.map((run): Cell[] => [group.dataset, 'run', run.name, lastEvaluation(run)?.epoch, ...kOrder.map((name) => lastEvaluation(run)?.metrics[name])]),
  ]);
  return toCsv([['dataset', 'source', 'name', 'epoch', ...kOrder], ...rows]);
}

export function paper(state: State): Section | null {
  const groups = paperGroups(state.runs);
  if (groups.length === 0) return null;
  const holder = h('div');
  const draw = () => holder.replaceChildren(...groups.map((group) => groupTable(state, group)));
  draw();
  state.onChange((change) => {
    if (change === 'runs' || change === 'theme') draw();
  });
  return section(
    'paper',
    'Against the paper',
    'In per cent. A run stands under the row of its system, with its last evaluation and the difference to that row.',
    [csvButton('Table against the paper', () => csv(state))],
    holder,
  );
}
