import { runPicker, swatch } from '../chart';
import type { Run } from '../data';
import { classRecall, orderedClasses, percent, toCsv, weightsIn, type Cell, type ClassOrder } from '../derive';
import { csvButton, h, named, whenNear, type Child } from '../dom';
import { lookOfRun } from '../palette';
import type { State } from '../state';
import { nothing, section, type Section } from './section';

const kPage = 20;
const kShownConfusions = 3;
const has = (run: Run): boolean => run.classes !== null;

const kOrders: [ClassOrder, string][] = [
  ['worst', 'worst first'],
  ['best', 'best first'],
  ['name', 'by name'],
];

/// Runs with the same classes, the focused one first.
function columns(state: State, run: Run): Run[] {
  const same = (other: Run) => has(other) && other.classes!.names.length === run.classes!.names.length && other.classes!.names.every((name, i) => name === run.classes!.names[i]);
  return [run, ...state.shown.filter((other) => other !== run && same(other))];
}

export function classes(state: State): Section | null {
  if (!state.runs.some(has)) return null;
  const holder = h('div');
  let order: ClassOrder = 'worst';
  let search = '';
  let most = kPage;
  let near = false;

  const row = (runs: Run[], label: number): HTMLElement => {
    const of = runs[0].classes!;
    const shown = runs[0].map
      ? h('button.quiet', { type: 'button', 'aria-label': `Show ${of.names[label]} on the map`, onclick: () => show(label, null) }, 'map')
      : null;
    const confused = of.confused[label].slice(0, kShownConfusions).map(([other, times]): Child =>
      h(
        'li',
        {},
        runs[0].map ? h('button.quiet.confused', { type: 'button', title: 'Show both on the map', onclick: () => show(label, other) }, named(of.names[other]), ` ${times}`) : h('span', {}, named(of.names[other]), ` ${times}`),
      ),
    );
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, named(of.names[label])),
      h('td.number', {}, of.images[label]),
      ...runs.map((run) => h('td.number', {}, percent(classRecall(run.classes!, label)))),
      h('td', {}, confused.length > 0 ? h('ul.confusions', {}, ...confused) : h('span.none', {}, 'none')),
      h('td', {}, shown),
    );
  };
  const show = (label: number, other: number | null) => {
    state.chooseClass(label, other);
    document.getElementById('map')?.scrollIntoView();
  };

  const draw = () => {
    const run = state.focus(has);
    if (!run) return holder.replaceChildren(nothing('The runs shown have no embeddings to look at by class.'));
    const runs = columns(state, run);
    const of = run.classes!;
    if (order === 'behind' && runs.length < 2) order = 'worst';
    const labels = orderedClasses(of, order, runs[1]?.classes ?? null).filter((label) => of.names[label].toLowerCase().includes(search.toLowerCase()));
    const orders: [ClassOrder, string][] = runs.length > 1 ? [...kOrders, ['behind', `most behind ${runs[1].name}`]] : kOrders;
    const choose = h('select', { 'aria-label': 'Order of the classes', dir: 'auto' }, ...orders.map(([value, name]) => h('option', { value, selected: value === order }, name)));
    choose.addEventListener('change', () => {
      order = choose.value as ClassOrder;
      most = kPage;
      draw();
      holder.querySelector<HTMLElement>('select')?.focus();
    });
    const field = h('input', { type: 'search', placeholder: 'find a class', 'aria-label': 'Find a class', value: search });
    const body = h('tbody');
    const more = h('button', { type: 'button' });
    const fill = () => {
      body.replaceChildren(...labels.slice(0, most).map((label) => row(runs, label)));
      more.hidden = labels.length <= most;
      more.textContent = `Show ${Math.min(kPage * 5, labels.length - most)} more of ${labels.length.toLocaleString('en')}`;
    };
    more.addEventListener('click', () => {
      most += kPage * 5;
      fill();
    });
    field.addEventListener('input', () => {
      search = field.value;
      most = kPage;
      draw();
      const again = holder.querySelector<HTMLInputElement>('input')!;
      again.focus();
      again.setSelectionRange(search.length, search.length);
    });
    fill();
    const total = of.images.reduce((sum, count) => sum + count, 0);
    holder.replaceChildren(
      h('div.bar', {}, h('p.note', {}, `${of.names.length.toLocaleString('en')} classes, ${total.toLocaleString('en')} images${weightsIn(of)}.`), h('div.tools', {}, field, choose)),
      h(
        'div.scroll',
        { tabindex: 0, role: 'region', 'aria-label': 'Recall by class' },
        h(
          'table.classes-table',
          {},
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              h('th', { scope: 'col' }, 'Class'),
              h('th.number', { scope: 'col' }, 'Images'),
              ...runs.map((each) => h('th.number', { scope: 'col' }, 'Recall@1', runs.length > 1 ? h('span.run-name', {}, swatch(lookOfRun(each.index), 22), named(each.name)) : null)),
              h('th', { scope: 'col' }, runs.length > 1 ? `Taken for (${run.name})` : 'Taken for'),
              h('th', { scope: 'col' }, h('span.unseen', {}, 'On the map')),
            ),
          ),
          body,
        ),
      ),
      labels.length === 0 ? nothing('No class has this in its name.') : more,
    );
  };
  whenNear(holder, () => {
    near = true;
    draw();
  });
  state.onChange((change) => {
    if (near && (change === 'runs' || change === 'theme')) draw();
  });
  const csv = () => {
    const run = state.focus(has);
    if (!run) return '';
    const of = run.classes!;
    const runs = columns(state, run);
    const rows: Cell[][] = of.names.map((name, label) => [name, of.images[label], ...runs.map((each) => classRecall(each.classes!, label)), of.confused[label].map(([other, times]) => `${of.names[other]}: ${times}`).join('; ')]);
    return toCsv([['class', 'images', ...runs.map((each) => `recall@1 ${each.name}`), 'taken for'], ...rows]);
  };
  return section(
    'classes',
    'Classes',
    'How often the nearest other image shows the same class, and which class it shows instead.',
    [runPicker(state, has, 'Run whose classes are shown'), csvButton('Classes', csv)],
    holder,
  );
}
