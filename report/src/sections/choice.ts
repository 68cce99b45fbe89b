import type { Choice, Run } from '../data';
import { kMetrics, metricName, percent, settingText } from '../derive';
import { swatch } from '../chart';
import { h, named, type Child } from '../dom';
import { lookOfRun } from '../palette';
import type { State } from '../state';
import { section, type Section } from './section';

// Columns in the order of the metrics, then whatever else the trials tell.
function valueNames(of: Choice): string[] {
  const names = [...new Set(of.trials.flatMap((trial) => Object.keys(trial.values)))];
  const rank = (name: string) => (name === 'epochs' ? -1 : (kMetrics as readonly string[]).includes(name) ? (kMetrics as readonly string[]).indexOf(name) : kMetrics.length);
  return names.sort((a, b) => rank(a) - rank(b));
}

const isShare = (name: string): boolean => (kMetrics as readonly string[]).includes(name);

function choiceOf(run: Run, alone: boolean): Child[] {
  const of = run.choice!;
  const values = valueNames(of);
  const settings = [...new Set(of.trials.flatMap((trial) => Object.keys(trial.settings)))];
  const isChosen = (trial: Choice['trials'][number]) => settings.length > 0 && settings.every((name) => of.chosen[name] === undefined || of.chosen[name] === trial.settings[name]) && settings.some((name) => of.chosen[name] !== undefined);
  const best = (name: string) => Math.max(...of.trials.map((trial) => trial.values[name] ?? -Infinity));
  const cell = (trial: Choice['trials'][number], name: string): Child => {
    const value = trial.values[name];
    const words = value === undefined ? '–' : isShare(name) ? percent(value) : settingText(value);
    return h('td.number', {}, isShare(name) && value !== undefined && of.trials.length > 1 && value === best(name) ? h('strong', {}, words) : words);
  };
  const chosen = Object.entries(of.chosen).filter(([, value]) => value !== null);
  return [
    alone ? null : h('h3', {}, h('span.run-name', {}, swatch(lookOfRun(run.index), 22), named(run.name))),
    of.summary ? h('p', { dir: 'auto' }, of.summary) : null,
    chosen.length > 0 || of.kept
      ? h(
          'dl.facts',
          {},
          ...chosen.flatMap(([name, value]) => [h('dt', {}, name), h('dd', { dir: 'auto' }, settingText(value))]),
          ...(of.kept ? [h('dt', {}, 'Kept'), h('dd', { dir: 'auto' }, [of.kept.epoch === null ? '' : `epoch ${of.kept.epoch}`, of.kept.reason].filter((word) => word !== '').join(': '))] : []),
        )
      : null,
    of.trials.length > 0
      ? h(
          'div.scroll',
          { tabindex: 0, role: 'region', 'aria-label': `Trials of ${run.name}` },
          h(
            'table.settings.trials',
            {},
            h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Trial'), ...settings.map((name) => h('th', { scope: 'col' }, name)), ...values.map((name) => h('th.number', { scope: 'col' }, metricName(name))))),
            h(
              'tbody',
              {},
              ...of.trials.map((trial) =>
                h(`tr${isChosen(trial) ? '.chosen' : ''}` as 'tr', {}, h('th', { scope: 'row' }, named(trial.name), isChosen(trial) ? h('span.under', {}, 'chosen') : null), ...settings.map((name) => h('td', { dir: 'auto' }, settingText(trial.settings[name]))), ...values.map((name) => cell(trial, name))),
              ),
            ),
          ),
        )
      : null,
  ];
}

/// What was chosen on classes held out of training; nothing where no run tells.
export function choice(state: State): Section | null {
  const runs = state.runs.filter((run) => run.choice !== null);
  if (runs.length === 0) return null;
  const holder = h('div');
  const draw = () => holder.replaceChildren(...runs.map((run) => h('div.block', {}, ...choiceOf(run, state.runs.length === 1))));
  draw();
  state.onChange((change) => {
    if (change === 'theme') draw();
  });
  return section('choice', 'What was chosen on held-out classes', 'Settings tried on classes that were held out of training. The test classes had no part in it.', [], holder);
}
