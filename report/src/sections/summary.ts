import type { Run } from '../data';
import {
  allSettings,
  bestEvaluation,
  dayAndTime,
  device,
  differingSettings,
  duration,
  epochSeconds,
  isUsed,
  kMetrics,
  lastEvaluation,
  metricName,
  percent,
  settingText,
  status,
  toCsv,
  totalSeconds,
  type Evaluation,
  type SettingRow,
} from '../derive';
import { swatch } from '../chart';
import { csvButton, h, named, type Child } from '../dom';
import { lookOfRun } from '../palette';
import type { State } from '../state';
import { section, type Section } from './section';

const runName = (run: Run): HTMLElement => h('span.run-name', {}, swatch(lookOfRun(run.index), 22), named(run.name));

function figure(label: string, value: string, note: Child): HTMLElement {
  return h('div.figure', {}, h('dt', {}, label), h('dd', {}, h('span.figure-value', {}, value), h('span.figure-note', {}, note)));
}

// One run: its numbers in large.
function headline(run: Run): HTMLElement {
  const last = lastEvaluation(run);
  const best = bestEvaluation(run);
  const split = last?.split ? ` on ${last.split}` : '';
  const once = best !== null && best.epoch === last?.epoch;
  const seconds = totalSeconds(run);
  const trained = run.epochs.filter((epoch) => epoch.epoch > 0 && epochSeconds(epoch) !== null);
  const first = run.epochs.find((epoch) => epoch.metrics?.['recall@1'] !== undefined);
  const kept = run.choice?.kept ?? null;
  // What `embed` and the map use, where that is not the last epoch as it is.
  const differs = kept !== null && kept.metrics['recall@1'] !== undefined && kept.metrics['recall@1'] !== last?.metrics['recall@1'];
  const ofKept = (name: string, measure: string) =>
    differs && kept.metrics[measure] !== undefined ? figure(name, percent(kept.metrics[measure]), `${kept.reason}${kept.evaluated_on ? `; on ${kept.evaluated_on}` : ''}`) : null;
  return h(
    'dl.figures',
    {},
    ofKept('Kept recall@1', 'recall@1'),
    ofKept('Kept NMI', 'nmi'),
    ofKept('Kept MAP@R', 'map@r'),
    last && last.metrics['recall@1'] !== undefined
      ? figure(
          once ? 'Recall@1, best and last' : 'Last recall@1',
          percent(last.metrics['recall@1']),
          `epoch ${last.epoch}${split}${first && first.epoch === 0 && last.epoch > 0 ? `; ${percent(first.metrics!['recall@1'])} before training` : ''}`,
        )
      : null,
    best && !once ? figure('Best recall@1', percent(best.metrics['recall@1']), `epoch ${best.epoch}${best.split ? ` on ${best.split}` : ''}${best.split === 'test' ? ', picked by looking at test' : ''}`) : null,
    last && last.metrics.nmi !== undefined ? figure('Last NMI', percent(last.metrics.nmi), `epoch ${last.epoch}${split}`) : null,
    last && last.metrics['map@r'] !== undefined ? figure('Last MAP@R', percent(last.metrics['map@r']), `epoch ${last.epoch}${split}`) : null,
    seconds !== null
      ? figure('Time', duration(seconds), trained.length > 0 ? `${duration(trained.reduce((sum, epoch) => sum + epochSeconds(epoch)!, 0) / trained.length)} per epoch` : '')
      : null,
  );
}

/// From its start to the last line of its log.
function dates(run: Run): string | null {
  const [from, to] = [dayAndTime(run.started), dayAndTime(run.updated)];
  if (!from || !to || from === to) return from ?? to;
  return from.slice(0, 10) === to.slice(0, 10) ? `${from.slice(0, 16)} to ${to.slice(11)}` : `${from.slice(0, 16)} to ${to}`;
}

function facts(run: Run): HTMLElement {
  const row = (name: string, value: Child) => [h('dt', {}, name), h('dd', {}, value)];
  return h(
    'dl.facts',
    {},
    ...row('Data', run.dataset ? named(run.dataset) : '–'),
    ...row('System', run.system ? named(run.system) : '–'),
    ...row('State', status(run)),
    ...(dates(run) ? row('Date', dates(run)) : []),
    ...(device(run) ? row('Device', device(run)) : []),
    ...(run.target_error !== null ? row('Target error', percent(run.target_error)) : []),
    ...row('Directory', run.path ? named(run.path) : '–'),
  );
}

/// Those that any run has.
const metricsOf = (runs: Run[]): string[] => kMetrics.filter((name) => runs.some((run) => run.epochs.some((epoch) => epoch.metrics?.[name] !== undefined)));

function metricRow(names: string[], which: string, evaluation: Evaluation | null, marked: boolean): Child[] {
  return [
    h('td.quiet-cell', {}, evaluation ? `${which}, epoch ${evaluation.epoch}${marked ? ' *' : ''}` : which),
    ...names.map((name) => h('td.number', {}, evaluation ? percent(evaluation.metrics[name]) : '–')),
  ];
}

// A best epoch that was found by looking at the test classes is no result.
const flatters = (run: Run): boolean => {
  const best = bestEvaluation(run);
  return best !== null && best.split === 'test' && best.epoch !== lastEvaluation(run)?.epoch;
};

// All runs: one table, a last and a best line each, or one where they are the same. A run alone has its name and time said above.
function table(state: State): HTMLElement {
  const alone = state.runs.length === 1;
  const names = metricsOf(state.runs);
  const body = h('tbody');
  for (const run of state.runs) {
    const splits = [...new Set(run.epochs.flatMap((epoch) => (epoch.metrics && epoch.evaluated_on ? [epoch.evaluated_on] : [])))];
    const [best, last] = [bestEvaluation(run), lastEvaluation(run)];
    const once = best?.epoch === last?.epoch;
    body.append(
      h(
        'tr.first',
        { 'data-run': run.name },
        alone
          ? null
          : h(
              'th',
              { scope: 'rowgroup', rowspan: once ? 1 : 2 },
              runName(run),
              h('span.under', { dir: 'auto' }, [run.dataset, run.system].filter((word) => word !== '').join(' · ')),
              h('span.under', {}, [status(run), splits.length > 0 ? `evaluated on ${splits.join(' and ')}` : 'not evaluated'].join(' · ')),
              h('span.under', {}, [dates(run), device(run)].filter((word) => word).join(' · ')),
            ),
        ...metricRow(names, once ? 'best and last' : 'last', last, false),
        alone ? null : h('td.number.time', { rowspan: once ? 1 : 2 }, duration(totalSeconds(run))),
      ),
    );
    if (!once) body.append(h('tr', { 'data-run': run.name }, ...metricRow(names, 'best', best, flatters(run))));
  }
  return h(
    'div.scroll',
    { tabindex: 0, role: 'region', 'aria-label': 'Metrics of the runs' },
    h(
      `table.summary${alone ? '.alone' : ''}`,
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          alone ? null : h('th', { scope: 'col' }, 'Run'),
          h('th', { scope: 'col' }, 'Evaluation'),
          ...names.map((name) => h('th.number', { scope: 'col' }, metricName(name))),
          alone ? null : h('th.number.time', { scope: 'col' }, 'Time'),
        ),
      ),
      body,
    ),
  );
}

function csv(state: State): string {
  const rows = state.runs.flatMap((run) =>
    (
      [
        ['best', bestEvaluation(run)],
        ['last', lastEvaluation(run)],
      ] as const
    ).map(([which, evaluation]) => [run.name, run.dataset, run.system, which, evaluation?.epoch, evaluation?.split, ...kMetrics.map((name) => evaluation?.metrics[name]), totalSeconds(run)]),
  );
  return toCsv([['run', 'dataset', 'system', 'which', 'epoch', 'evaluated on', ...kMetrics, 'seconds'], ...rows]);
}

function settingsTable(runs: Run[], rows: SettingRow[], label: string): HTMLElement {
  return h(
    'div.scroll',
    { tabindex: 0, role: 'region', 'aria-label': label },
    h(
      'table.settings',
      {},
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Setting'), ...runs.map((run) => h('th', { scope: 'col' }, runName(run))))),
      h('tbody', {}, ...rows.map((row) => h('tr', {}, h('th', { scope: 'row' }, row.name), ...row.values.map((value, i) => (isUsed(runs[i], row.name) ? h('td', { dir: 'auto' }, settingText(value)) : h('td', {}, h('span.none', {}, 'not used'))))))),
    ),
  );
}

function details(state: State, id: string, title: string, content: () => Child[]): HTMLDetailsElement {
  const element = h('details', { id, open: state.saved.open.includes(id) }, h('summary', {}, title));
  let filled = false;
  const fill = () => {
    if (!element.open || filled) return;
    filled = true;
    element.append(...content().filter((child): child is Node => child instanceof Node));
  };
  fill();
  element.addEventListener('toggle', () => {
    fill();
    state.saved.open = state.saved.open.filter((other) => other !== id);
    if (element.open) state.saved.open.push(id);
    state.keep();
  });
  return element;
}

function notes(runs: Run[]): Child[] {
  return runs
    .filter((run) => run.epochs.some((epoch) => epoch.notes.length > 0))
    .flatMap((run) => [
      runs.length > 1 ? h('h4', {}, runName(run)) : null,
      h('dl.notes', {}, ...run.epochs.flatMap((epoch) => epoch.notes.flatMap((note) => [h('dt', {}, `epoch ${epoch.epoch}`), h('dd', { dir: 'auto' }, note)]))),
    ]);
}

export function summary(state: State): Section {
  const runs = state.runs;
  const differing = differingSettings(runs);
  const settings = allSettings(runs);
  const noted = runs.reduce((sum, run) => sum + run.epochs.reduce((count, epoch) => count + epoch.notes.length, 0), 0);
  const made = section('summary', 'Summary', '', runs.length > 0 ? [csvButton('Summary', () => csv(state))] : []);
  const draw = () => {
    const children: Child[] = [
      runs.length === 1 ? headline(runs[0]) : null,
      runs.length === 1 ? facts(runs[0]) : null,
      table(state),
      runs.some(flatters) ? h('p.note.caveat', {}, '* The best epoch was found by looking at the test classes, so it flatters: the last epoch is the result. Held-out classes (--validation-classes) choose an epoch fairly.') : null,
      runs.length > 1 && settings.length > 0
        ? h('div.block', {}, h('h3', {}, 'Settings that differ'), differing.length > 0 ? settingsTable(runs, differing, 'Settings that differ') : h('p.nothing', {}, 'All settings of these runs are the same.'))
        : null,
      settings.length > 0 ? details(state, 'all-settings', `All ${settings.length} settings`, () => [settingsTable(runs, settings, 'All settings')]) : null,
      noted > 0 ? details(state, 'notes', noted === 1 ? 'One note in the log' : `${noted} notes in the log`, () => notes(runs)) : null,
    ];
    made.element.replaceChildren(made.element.firstElementChild!, ...children.filter((child): child is Node => child instanceof Node));
    dim();
  };
  const dim = () => {
    for (const row of made.element.querySelectorAll<HTMLElement>('tr[data-run]')) row.classList.toggle('off', state.saved.off.includes(row.dataset.run!));
  };
  draw();
  state.onChange((change) => {
    if (change === 'theme') draw();
    if (change === 'runs') dim();
  });
  return made;
}
