// What stands beside the map: the picked image with its neighbours, the chosen class, and the list of classes.
import type { EmbeddingMap, Run } from '../data';
import { classRecall, neighborsRight, percent } from '../derive';
import { announce, h, named, svg } from '../dom';
import { ink, lookOfClass, otherClass, sameClass } from '../palette';
import type { State } from '../state';
import { mark, Sheets } from './pictures';

export const className = (map: EmbeddingMap, label: number): string => map.classes[label] ?? (label < 0 ? 'no class' : `class ${label}`);
export const pointName = (map: EmbeddingMap, id: number): string => map.names?.[id] || `image ${id}`;

export function classSwatch(label: number): SVGElement {
  const look = lookOfClass(label);
  const path = { circle: 'M2 7a5 5 0 1 0 10 0a5 5 0 1 0-10 0', rect: 'M2.5 2.5h9v9h-9z', triangle: 'M7 1.5l5.5 10h-11z', diamond: 'M7 1l6 6l-6 6l-6-6z' }[look.marker];
  return svg('svg', { width: 14, height: 14, 'aria-hidden': 'true' }, svg('path', { d: path, fill: look.hollow ? 'none' : look.color, stroke: look.color, 'stroke-width': 1.6 }));
}

// As the points are drawn when they tell right from wrong.
export function hitSwatch(kind: number): SVGElement {
  const mark =
    kind === 1
      ? svg('circle', { cx: 7, cy: 7, r: 4.5, fill: sameClass() })
      : svg('path', { d: kind === 0 ? 'M3 3l8 8M11 3l-8 8' : 'M3 3l8 8', stroke: kind === 0 ? otherClass() : ink().muted, 'stroke-width': 2 });
  return svg('svg', { width: 14, height: 14, 'aria-hidden': 'true' }, mark);
}

export function neighborsOf(of: EmbeddingMap, sheets: Sheets, id: number, pick: (id: number | null) => void): HTMLElement {
  const neighbors = of.neighbors[id] ?? [];
  const right = neighborsRight(of.label, neighbors, id);
  const count = right.filter((is) => is).length;
  const close = h('button.quiet', { type: 'button', 'aria-label': 'Let go of this image', onclick: () => pick(null) }, '✕');
  return h(
    'div.picked',
    { id: 'picked' },
    h('div.picked-head', {}, sheets.exist ? sheets.element(id, pointName(of, id), 72) : null, h('div', {}, h('strong', {}, named(className(of, of.label[id]))), named(pointName(of, id), 'under'), h('span.under', {}, neighbors.length > 0 ? `${count} of the ${neighbors.length} nearest show its class` : 'no neighbours in the data')), close),
    h(
      'ol.neighbors',
      {},
      ...neighbors.map((neighbor, i) =>
        h(
          'li',
          {},
          h(
            `button.neighbor.${right[i] ? 'right' : 'wrong'}`,
            { type: 'button', title: pointName(of, neighbor), 'data-id': neighbor, onclick: () => pick(neighbor) },
            sheets.exist ? sheets.element(neighbor, pointName(of, neighbor), 48) : null,
            mark(right[i]),
            h('span.neighbor-class', { dir: 'auto' }, className(of, of.label[neighbor])),
          ),
        ),
      ),
    ),
  );
}

// Of the chosen class: how often its images find it, and what they find instead.
export function classSays(state: State, run: Run): HTMLElement[] {
  const label = state.saved.mapClass;
  const of = run.classes;
  if (label === null || !of || of.names[label] === undefined) return [];
  const confused = of.confused[label].map(([other, times]) =>
    h(
      'li',
      {},
      h(
        'button.quiet',
        { type: 'button', 'aria-pressed': String(state.saved.mapOther === other), title: 'Show both on the map', onclick: () => state.chooseClass(label, state.saved.mapOther === other ? null : other) },
        classSwatch(other),
        named(of.names[other]),
        h('span.count', {}, times),
      ),
    ),
  );
  return [
    h(
      'div.class-says',
      { id: 'class-says' },
      h('strong', {}, named(of.names[label])),
      h('p.note', {}, `Recall@1 ${percent(classRecall(of, label))}: ${of.hits[label]} of ${of.images[label]} images. ${confused.length > 0 ? 'The others find:' : ''}`),
      confused.length > 0 ? h('ul', {}, ...confused) : null,
    ),
  ];
}

// One tab stop; arrow keys walk through the classes.
export function classList(state: State, of: EmbeddingMap, run: Run): HTMLElement {
  const counts = new Map<number, number>();
  for (let i = 0; i < of.points; ++i) counts.set(of.label[i], (counts.get(of.label[i]) ?? 0) + 1);
  const labels = [...counts.keys()].sort((a, b) => a - b);
  const options = labels.map((label) =>
    h('li', { role: 'option', id: `class-${run.index}-${label}`, 'aria-selected': 'false', 'data-label': label }, classSwatch(label), named(className(of, label)), h('span.count', {}, counts.get(label)!)),
  );
  const box = h('ul.classes', { role: 'listbox', tabindex: 0, 'aria-label': 'Classes; choosing one fades the others' }, ...options);
  const show = (label: number | null) => {
    for (const option of options) option.setAttribute('aria-selected', String(Number(option.dataset.label) === label));
    if (label === null) box.removeAttribute('aria-activedescendant');
    else {
      const option = options[labels.indexOf(label)];
      box.setAttribute('aria-activedescendant', option.id);
      // Only the list scrolls, not the page.
      if (option.offsetTop < box.scrollTop) box.scrollTop = option.offsetTop;
      else if (option.offsetTop + option.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = option.offsetTop + option.offsetHeight - box.clientHeight;
    }
  };
  // The list is made anew with the choice, and keeps the keys if it had them.
  const choose = (label: number | null) => {
    state.chooseClass(label);
    if (label !== null) announce(className(of, label));
    const again = document.querySelector<HTMLElement>('#map .classes');
    if (document.activeElement === document.body) again?.focus({ preventScroll: true });
  };
  if (state.saved.mapClass !== null && labels.includes(state.saved.mapClass)) requestAnimationFrame(() => show(state.saved.mapClass));
  box.addEventListener('click', (event) => {
    const option = (event.target as Element).closest<HTMLElement>('[data-label]');
    if (!option) return;
    const label = Number(option.dataset.label);
    choose(state.saved.mapClass === label ? null : label);
  });
  box.addEventListener('keydown', (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape') choose(null);
    if (by === undefined) return;
    event.preventDefault();
    const at = state.saved.mapClass === null ? (by > 0 ? -1 : labels.length) : labels.indexOf(state.saved.mapClass);
    choose(labels[Math.min(labels.length - 1, Math.max(0, at + by))]);
  });
  return h('div.class-list', {}, h('h4', {}, 'Classes'), box);
}
