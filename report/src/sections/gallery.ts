import { runPicker, swatch } from '../chart';
import type { Gallery, Hub, Query, Run } from '../data';
import { toCsv, type Cell } from '../derive';
import { csvButton, h, named, whenNear, type Child } from '../dom';
import { lookOfRun } from '../palette';
import type { GalleryMode, State } from '../state';
import { mark, picture } from './pictures';
import { nothing, section, type Section } from './section';

const kPage = 12;
const kModes: [GalleryMode, string, string][] = [
  ['random', 'Random', 'Queries drawn at random, the same in every run of these images: what retrieval is like.'],
  ['worst', 'Worst', 'The worst queries first: the fewest right among the nearest eight. Not what retrieval is like.'],
  ['class', 'By class', 'Queries of one class.'],
  ['hubs', 'Hubs', 'Images that are often the wrong neighbour, with the queries they stand nearest to.'],
];

const has = (run: Run): boolean => (run.gallery?.queries.length ?? 0) > 0;

const ofMode = (of: Gallery, mode: GalleryMode): Query[] => {
  const known = of.queries.filter((query) => query.sets.includes(mode));
  if (mode !== 'random') return known;
  // Older data does not say what a query was chosen for.
  return known.length > 0 ? known.sort((a, b) => (a.row ?? 0) - (b.row ?? 0)) : of.queries;
};

const classesOf = (of: Gallery): string[] => [...new Set(of.queries.map((query) => query.class))].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));

function found(query: Query): string {
  const right = `${query.correct} of ${query.results.length} right${query.possible < query.results.length ? `, ${query.possible} possible` : ''}`;
  return query.match && query.match.rank !== null ? `${right}; first of its class at rank ${query.match.rank.toLocaleString('en')}` : right;
}

function results(query: Query, run: Run | null): HTMLElement {
  const tile = (of: Query['results'][number], extra: Child = null, className = '') =>
    h(
      `li.result.${of.right ? 'right' : 'wrong'}${className}` as 'li',
      {},
      h('div.tile', {}, picture(of.image, of.name), mark(of.right)),
      h('span.side-distance', {}, extra ?? (of.distance === null ? '' : of.distance.toFixed(2))),
      named(of.class, 'side-class'),
    );
  const match = query.match;
  // A match among the results is marked there.
  const beyond = match && match.rank !== null && match.rank > query.results.length;
  return h(
    'div.answer',
    {},
    run ? h('p.answer-run', {}, swatch(lookOfRun(run.index), 22), named(run.name), h('span.under', {}, found(query))) : null,
    h('ol.results', {}, ...query.results.map((result) => tile(result)), beyond ? tile({ ...match, right: true }, `rank ${match.rank!.toLocaleString('en')}: ${match.distance?.toFixed(2) ?? ''}`, '.match') : null),
  );
}

// With another run, both answers stand under each other.
function queryView(query: Query, beside: { run: Run; own: Run; query: Query | null } | null): HTMLElement {
  return h(
    'article.query',
    {},
    h('div.query-self', {}, picture(query.image, query.name), h('div', {}, h('strong', {}, named(query.class)), named(query.name, 'under'), beside ? null : h('span.under', {}, found(query)))),
    beside ? h('div', {}, results(query, beside.own), beside.query ? results(beside.query, beside.run) : h('p.nothing', {}, `${beside.run.name} has no such query.`)) : results(query, null),
  );
}

function hubView(hub: Hub, images: number | null): HTMLElement {
  const of = images === null ? '' : ` of ${images.toLocaleString('en')}`;
  return h(
    'article.query.hub',
    {},
    h(
      'div.query-self',
      {},
      picture(hub.picture.image, hub.picture.name),
      h('div', {}, h('strong', {}, named(hub.picture.class)), named(hub.picture.name, 'under'), h('span.under', {}, `wrong among the nearest of ${hub.wrong.toLocaleString('en')}${of} queries${hub.right === null ? '' : `, right among those of ${hub.right.toLocaleString('en')}`}`)),
    ),
    h(
      'ol.results',
      {},
      ...hub.queries.map((query) =>
        h('li.result.wrong', {}, h('div.tile', {}, picture(query.image, query.name), mark(false)), h('span.side-distance', {}, `${query.distance?.toFixed(2) ?? ''}${query.rank === null ? '' : `, rank ${query.rank}`}`), named(query.class, 'side-class')),
      ),
    ),
  );
}

function list(items: (() => HTMLElement)[]): HTMLElement {
  const holder = h('div');
  const more = h('button', { type: 'button' });
  let shown = 0;
  const add = () => {
    const next = items.slice(shown, shown + kPage).map((make) => make());
    shown += next.length;
    more.before(...next);
    more.hidden = shown >= items.length;
    more.textContent = `Show ${Math.min(kPage, items.length - shown)} more of ${items.length}`;
  };
  holder.append(more);
  more.addEventListener('click', add);
  add();
  return holder;
}

/// Runs whose queries are those of `run`.
const comparable = (state: State, run: Run): Run[] => {
  const rows = new Map(run.gallery!.queries.map((query) => [query.row, query.name]));
  return state.shown.filter((other) => other !== run && has(other) && other.gallery!.queries.some((query) => query.row !== null && rows.get(query.row) === query.name));
};

function select(label: string, choices: [string, string][], chosen: string, act: (value: string) => void): HTMLElement {
  const element = h('select', { 'aria-label': label, dir: 'auto' }, ...choices.map(([value, name]) => h('option', { value, selected: value === chosen }, name)));
  element.addEventListener('change', () => act(element.value));
  return h('span.picker', {}, h('label', {}, h('span', {}, label), element));
}

function content(state: State, run: Run, redraw: () => void): HTMLElement[] {
  const of = run.gallery!;
  const mode = kModes.some(([name]) => name === state.saved.galleryMode) ? state.saved.galleryMode : 'random';
  const set = (change: Partial<State['saved']>, focus: string) => {
    Object.assign(state.saved, change);
    state.keep();
    redraw();
    document.querySelector<HTMLElement>(focus)?.focus();
  };
  const modes = kModes.filter(([name]) => (name === 'hubs' ? of.hubs.length > 0 : name === 'class' ? classesOf(of).length > 1 : ofMode(of, name).length > 0));
  const segments = h(
    'div.segments',
    { role: 'group', 'aria-label': 'Which queries' },
    ...modes.map(([name, words]) => h('button', { type: 'button', 'aria-pressed': String(name === mode), 'data-gallery': name, onclick: () => set({ galleryMode: name }, `[data-gallery=${name}]`) }, words)),
  );
  const others = mode === 'hubs' ? [] : comparable(state, run);
  const beside = others.find((other) => other.name === state.saved.galleryBeside) ?? null;
  const picker = others.length > 0 ? select('Beside', [['', 'no other run'], ...others.map((other): [string, string] => [other.name, other.name])], beside?.name ?? '', (name) => set({ galleryBeside: name || null }, '#gallery .bar select[aria-label=Beside]')) : null;
  const classes = classesOf(of);
  const chosen = state.saved.galleryClass !== null && classes.includes(state.saved.galleryClass) ? state.saved.galleryClass : classes[0];
  const classPicker = mode === 'class' ? select('Class', classes.map((name): [string, string] => [name, name]), chosen, (name) => set({ galleryClass: name }, '#gallery .bar select[aria-label=Class]')) : null;
  const queries = mode === 'class' ? of.queries.filter((query) => query.class === chosen) : ofMode(of, mode);
  const items =
    mode === 'hubs'
      ? of.hubs.map((hub) => () => hubView(hub, of.images))
      : queries.map((query) => () => queryView(query, beside && { run: beside, own: run, query: beside.gallery!.queries.find((other) => other.row === query.row) ?? null }));
  return [h('div.bar', {}, h('p.note', {}, kModes.find(([name]) => name === mode)![2]), h('div.tools', {}, segments, classPicker, picker)), list(items)];
}

export function gallery(state: State): Section {
  if (!state.runs.some(has)) return section('gallery', 'Retrieval gallery', '', [], nothing('None of these runs has a gallery of queries.'));
  const holder = h('div.queries');
  let near = false;
  const draw = () => {
    const run = state.focus(has);
    holder.replaceChildren(...(run ? content(state, run, draw) : [nothing('The runs shown have no gallery.')]));
  };
  whenNear(holder, () => {
    near = true;
    draw();
  });
  state.onChange((change) => {
    if (near && (change === 'runs' || change === 'theme')) draw();
  });
  const csv = () => {
    const rows: Cell[][] = [['query', 'class', 'chosen for', 'rank of the first of its class', 'rank', 'result', 'result class', 'distance', 'right']];
    for (const query of state.focus(has)?.gallery?.queries ?? [])
      query.results.forEach((result, i) => rows.push([query.name, query.class, query.sets.join(' '), query.match?.rank, i + 1, result.name, result.class, result.distance, result.right ? 'yes' : 'no']));
    return toCsv(rows);
  };
  return section(
    'gallery',
    'Retrieval gallery',
    'Evaluated images as queries, with their nearest others. Numbers are squared distances. Where none of these is right, the nearest of the class follows with its rank.',
    [runPicker(state, has, 'Run whose gallery is shown'), csvButton('Gallery', csv)],
    holder,
  );
}
