import type { Choice, Run } from '../data';
import { duration, isChosen, kMetrics, metricName, percent, settingText, sharesAreChosen } from '../derive';
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
  const values = valueNames(of).filter((name) => name !== 'epochs_planned');
  const settings = [...new Set(of.trials.flatMap((trial) => Object.keys(trial.settings)))];
  const best = (name: string) => Math.max(...of.trials.map((trial) => trial.values[name] ?? -Infinity));
  const cell = (trial: Choice['trials'][number], name: string): Child => {
    const value = trial.values[name];
    const words = value === undefined ? '–' : isShare(name) ? percent(value) : name === 'seconds' ? duration(value) : settingText(value);
    const planned = trial.values.epochs_planned;
    // One that was given up did not reach what it was to.
    if (name === 'epochs' && planned !== undefined && planned !== value) return h('td.number', {}, `${words} of ${planned}`);
    return h('td.number', {}, isShare(name) && value !== undefined && of.trials.length > 1 && value === best(name) ? h('strong', {}, words) : words);
  };
  const chosen = Object.entries(of.chosen).filter(([, value]) => value !== null && value !== '');
  const noTraining = of.chosen.epochs === 0;
  const held = [of.held_out_classes === null ? '' : `${of.held_out_classes.toLocaleString('en')} classes`, of.held_out_images === null ? '' : `${of.held_out_images.toLocaleString('en')} images`].filter((word) => word !== '').join(', ');
  return [
    alone ? null : h('h3', {}, h('span.run-name', {}, swatch(lookOfRun(run.index), 22), named(run.name))),
    of.summary ? h('p', { dir: 'auto' }, of.summary) : null,
    chosen.length > 0 || of.kept || held || of.seconds !== null
      ? h(
          'dl.facts',
          {},
          ...(held ? [h('dt', {}, 'Held out'), h('dd', {}, held)] : []),
          ...(of.seconds !== null ? [h('dt', {}, 'Took'), h('dd', {}, duration(of.seconds))] : []),
          ...chosen.flatMap(([name, value]) => [h('dt', {}, name), h('dd', { dir: 'auto' }, settingText(value))]),
          ...(of.kept ? [h('dt', {}, 'Kept'), h('dd', { dir: 'auto' }, of.kept.reason || (of.kept.epoch === null ? '' : `epoch ${of.kept.epoch}`))] : []),
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
              of.start ? h(`tr${noTraining ? '.chosen' : ''}` as 'tr', {}, h('th', { scope: 'row' }, 'no training', noTraining ? h('span.under', {}, 'chosen') : null), ...settings.map(() => h('td', {}, '–')), ...values.map((name) => cell({ name: '', settings: {}, values: of.start! }, name))) : null,
              ...of.trials.map((trial) =>
                h(`tr${isChosen(of, trial) ? '.chosen' : ''}` as 'tr', {}, h('th', { scope: 'row' }, named(trial.name), isChosen(of, trial) ? h('span.under', {}, 'chosen') : null), ...settings.map((name) => h('td', { dir: 'auto' }, settingText(trial.settings[name]))), ...values.map((name) => cell(trial, name))),
              ),
            ),
          ),
        )
      : null,
    of.interpolations.length > 0
      ? h(
          'div.scroll',
          { tabindex: 0, role: 'region', 'aria-label': `Weights between start and end of ${run.name}` },
          h('h4', {}, 'Weights part of the way from the start to the end'),
          h(
            'table.settings.trials',
            {},
            h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Share of the way'), ...kMetrics.filter((name) => of.interpolations.some((each) => each[name] !== undefined)).map((name) => h('th.number', { scope: 'col' }, metricName(name))))),
            h(
              'tbody',
              {},
              ...of.interpolations.map((each) =>
                h(`tr${each.share === of.chosen.share && sharesAreChosen(of) ? '.chosen' : ''}` as 'tr', {}, h('th', { scope: 'row' }, percent(each.share, 0)), ...kMetrics.filter((name) => of.interpolations.some((other) => other[name] !== undefined)).map((name) => h('td.number', {}, percent(each[name])))),
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
