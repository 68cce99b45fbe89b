import { runPicker } from '../chart';
import type { Query, Run } from '../data';
import { toCsv, type Cell } from '../derive';
import { csvButton, h, named, whenNear } from '../dom';
import type { State } from '../state';
import { mark, picture } from './pictures';
import { nothing, section, type Section } from './section';

const kPage = 12;

function queryView(query: Query): HTMLElement {
  return h(
    'article.query',
    {},
    h('div.query-self', {}, picture(query.image, query.name), h('div', {}, h('strong', {}, named(query.class)), named(query.name, 'under'), h('span.under', {}, `${query.correct} of ${query.results.length} right${query.possible < query.results.length ? `, ${query.possible} possible` : ''}`))),
    h(
      'ol.results',
      {},
      ...query.results.map((result) =>
        h(
          `li.result.${result.right ? 'right' : 'wrong'}`,
          {},
          h('div.tile', {}, picture(result.image, result.name), mark(result.right)),
          h('span.side-distance', {}, result.distance === null ? '' : result.distance.toFixed(2)),
          named(result.class, 'side-class'),
        ),
      ),
    ),
  );
}

export function gallery(state: State): Section {
  const has = (run: Run) => (run.gallery?.length ?? 0) > 0;
  if (!state.runs.some(has)) return section('gallery', 'Retrieval gallery', '', [], nothing('None of these runs has a gallery of queries.'));
  const holder = h('div.queries');
  let near = false;
  let drawn: Run | null = null;
  const draw = () => {
    drawn = state.focus(has);
    if (!drawn) return holder.replaceChildren(nothing('The runs shown have no gallery.'));
    const queries = drawn.gallery!;
    holder.replaceChildren();
    const more = h('button', { type: 'button' });
    let shown = 0;
    const add = () => {
      const next = queries.slice(shown, shown + kPage).map(queryView);
      shown += next.length;
      more.before(...next);
      more.hidden = shown >= queries.length;
      more.textContent = `Show ${Math.min(kPage, queries.length - shown)} more of ${queries.length}`;
    };
    holder.append(more);
    more.addEventListener('click', add);
    add();
  };
  whenNear(holder, () => {
    near = true;
    draw();
  });
  state.onChange((change) => {
    if (change === 'runs' && near && state.focus(has) !== drawn) draw();
  });
  const csv = () => {
    const rows: Cell[][] = [['query', 'class', 'rank', 'result', 'result class', 'distance', 'right']];
    for (const query of state.focus(has)?.gallery ?? [])
      query.results.forEach((result, i) => rows.push([query.name, query.class, i + 1, result.name, result.class, result.distance, result.right ? 'yes' : 'no']));
    return toCsv(rows);
  };
  return section(
    'gallery',
    'Retrieval gallery',
    'Evaluated images as queries with their nearest others, the worst queries first. Numbers are squared distances.',
    [runPicker(state, has, 'Run whose gallery is shown'), csvButton('Gallery', csv)],
    holder,
  );
}
