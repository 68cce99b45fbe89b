import './style.css';
import './parts.css';
import './print.css';

import { charts, drawForPrint, swatch } from './chart';
import { readDocument, type ReportDocument } from './data';
import { drawAll, drawWhenIdle, h, named, type Child } from './dom';
import { lookOfRun } from './palette';
import { batches } from './sections/batches';
import { choice } from './sections/choice';
import { classes } from './sections/classes';
import { mining, retrieval, time, training } from './sections/curves';
import { distances } from './sections/distances';
import { gallery } from './sections/gallery';
import { currentMap, map } from './sections/map';
import { paper } from './sections/paper';
import type { Section } from './sections/section';
import { summary } from './sections/summary';
import { triplets } from './sections/triplets';
import { State, type Theme } from './state';

const page = document.getElementById('page')!;

function message(title: string, ...children: Child[]): void {
  page.replaceChildren(h('main.message', {}, h('h1', {}, title), ...children));
}

function themeSwitch(state: State): HTMLElement {
  const group = h('div.segments', { role: 'group', 'aria-label': 'Colours of the page' });
  const names: [Theme, string][] = [
    ['auto', 'Auto'],
    ['light', 'Light'],
    ['dark', 'Dark'],
  ];
  const buttons = names.map(([theme, name]) => h('button', { type: 'button', 'data-theme-choice': theme, onclick: () => state.setTheme(theme) }, name));
  group.append(...buttons);
  const show = () => buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.themeChoice === state.theme)));
  show();
  state.onChange((change) => {
    if (change === 'theme') show();
  });
  return group;
}

function legend(state: State): HTMLElement {
  const buttons = state.runs.map((run) => {
    const button = h('button.run', { type: 'button', title: `${run.name}: click switches it on or off, Shift + click shows it alone` });
    button.addEventListener('click', (event) => (event.shiftKey ? state.showOnly(run) : state.toggle(run)));
    return button;
  });
  const all = h('button.quiet', { type: 'button', onclick: () => state.showAll() }, 'show all');
  const draw = () => {
    state.runs.forEach((run, i) => {
      buttons[i].setAttribute('aria-pressed', String(state.isShown(run)));
      buttons[i].replaceChildren(swatch(lookOfRun(state.lookIndex(run)), 28), named(run.name), run.finished || state.document.refresh_seconds === null ? '' : h('span.live', { title: 'This run goes on' }, 'live'));
    });
    all.hidden = state.shown.length === state.runs.length;
  };
  draw();
  state.onChange((change) => {
    if (change === 'runs' || change === 'theme' || change === 'axes') draw();
  });
  return h('div.legend', { role: 'group', 'aria-label': 'Runs' }, ...buttons, all);
}

// Which epochs all curves show; by keys and fingers, where dragging over a chart is not at hand.
function rangeControl(state: State, className: string): HTMLElement | null {
  const span = state.span;
  if (!span || span[1] - span[0] < 2) return null;
  const input = (label: string) => h('input', { type: 'number', min: span[0], max: span[1], 'aria-label': label });
  const [from, to] = [input('First epoch shown'), input('Last epoch shown')];
  const reset = h('button.quiet', { type: 'button', onclick: () => state.setRange(null) }, 'all');
  const show = () => {
    const range = state.range!;
    from.value = String(range[0]);
    to.value = String(range[1]);
    reset.hidden = state.saved.range === null;
  };
  const read = () => state.setRange([Number(from.value), Number(to.value)]);
  from.addEventListener('change', read);
  to.addEventListener('change', read);
  show();
  state.onChange((change) => {
    if (change === 'range') show();
  });
  return h(`div.${className}`, { title: 'Dragging over a chart zooms too; a double click shows all epochs' }, h('span', {}, 'Epochs'), from, h('span', {}, 'to'), to, reset);
}

// What all curves are drawn over, and how.
function axesControl(state: State, className: string): HTMLElement {
  const group = (label: string, choices: [string, boolean][], now: () => boolean, set: (on: boolean) => void): HTMLElement => {
    const buttons = choices.map(([name, on]) => h('button', { type: 'button', onclick: () => set(on) }, name));
    const show = () => buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(choices[i][1] === now())));
    show();
    state.onChange((change) => {
      if (change === 'axes') show();
    });
    return h('div.segments', { role: 'group', 'aria-label': label }, ...buttons);
  };
  return h(
    `div.${className}` as 'div',
    {},
    group('Curves over', [['epochs', false], ['time', true]], () => state.saved.overTime, (overTime) => state.setAxes({ overTime })),
    group('Scale of loss, kappa and rates', [['linear', false], ['log', true]], () => state.saved.logScale, (logScale) => state.setAxes({ logScale })),
    state.canGroup ? group('Runs that differ in the seed alone', [['each run', false], ['mean of seeds', true]], () => state.saved.bySeeds, (bySeeds) => state.setAxes({ bySeeds })) : null,
  );
}

// ---- paper

// Everything below the first screen too, in light colours and at rest.
function printing(state: State): void {
  addEventListener('beforeprint', () => {
    drawAll();
    state.setPrinting(true);
    drawForPrint(true);
  });
  addEventListener('afterprint', () => {
    drawForPrint(false);
    state.setPrinting(false);
  });
}

// ---- the contents

// One entry is current: the last section that begins above the middle of the view, or the last of all at the end of the page.
function followContents(sections: Section[], links: HTMLElement[]): void {
  const mark = () => {
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const begun = sections.filter((section) => section.element.getBoundingClientRect().top <= innerHeight * 0.4);
    const current = atEnd ? sections[sections.length - 1] : (begun.pop() ?? sections[0]);
    links.forEach((link, i) => (sections[i] === current ? link.setAttribute('aria-current', 'true') : link.removeAttribute('aria-current')));
  };
  let frame = 0;
  const soon = () => {
    if (!frame)
      frame = requestAnimationFrame(() => {
        frame = 0;
        mark();
      });
  };
  addEventListener('scroll', soon, { passive: true });
  addEventListener('resize', soon);
  mark();
}

// ---- a page that follows a run

function follow(state: State): HTMLElement | null {
  const seconds = state.document.refresh_seconds;
  if (seconds === null) return null;
  let touched = 0;
  for (const kind of ['pointerdown', 'keydown', 'wheel', 'touchmove']) addEventListener(kind, () => (touched = Date.now()), { passive: true });
  let due = Date.now() + seconds * 1000;
  setInterval(() => {
    // Not under a reader's hands.
    if (!state.saved.following || Date.now() < due || Date.now() - touched < 1500) return;
    due = Infinity;
    keepPlace(state);
    location.reload();
  }, 200);
  const button = h('button.quiet', { type: 'button' });
  const words = h('span');
  const show = () => {
    button.textContent = state.saved.following ? 'pause' : 'follow';
    words.textContent = state.saved.following ? `Follows the training: looks again every ${seconds} s` : 'Following is paused';
  };
  button.addEventListener('click', () => {
    state.saved.following = !state.saved.following;
    due = Date.now() + seconds * 1000;
    state.keep();
    show();
  });
  show();
  return h('p.follow', {}, words, ' ', button);
}

function keepPlace(state: State): void {
  const sections = [...document.querySelectorAll<HTMLElement>('main > section')];
  const above = sections.filter((section) => section.getBoundingClientRect().top <= 80).pop();
  state.saved.place = above && scrollY > 0 ? { section: above.id, offset: -above.getBoundingClientRect().top } : null;
  state.keep();
}

function restorePlace(state: State): void {
  const place = state.saved.place;
  const element = place && document.getElementById(place.section);
  if (!place || !element) return;
  const go = () => scrollTo({ top: scrollY + element.getBoundingClientRect().top + place.offset, behavior: 'instant' as ScrollBehavior });
  go();
  // Sections above take their full height when they are drawn: stay at the place until the reader moves.
  const observer = new ResizeObserver(go);
  observer.observe(page);
  const let_go = () => observer.disconnect();
  for (const kind of ['wheel', 'touchstart', 'keydown', 'pointerdown']) addEventListener(kind, let_go, { once: true, passive: true });
  setTimeout(let_go, 1500);
}

// ---- the page

function problems(document: ReportDocument): HTMLElement | null {
  if (document.problems.length === 0) return null;
  const count = document.problems.length;
  return h(
    'aside.problems',
    { role: 'note', 'aria-label': 'Problems with the runs' },
    h('h2', {}, count === 1 ? 'One thing in these runs could not be read and was left out' : `${count} things in these runs could not be read and were left out`),
    h('ul', {}, ...document.problems.map((problem) => h('li', { dir: 'auto' }, problem))),
  );
}

function show(document: ReportDocument): void {
  if (document.runs.length === 0) {
    message('No runs', problems(document), h('p', {}, 'This report was made without a run that could be read.'));
    return;
  }
  const state = new State(document);
  history.scrollRestoration = state.saved.place ? 'manual' : 'auto';
  const sections = [summary(state), paper(state), choice(state), retrieval(state, [rangeControl(state, 'range.narrow'), axesControl(state, 'axes.narrow')]), training(state), mining(state), batches(state), time(state), distances(state), map(state), classes(state), triplets(state), gallery(state)].filter(
    (section): section is Section => section !== null,
  );
  const title = document.runs.length === 1 ? document.runs[0].name : `${document.runs.length} runs`;
  window.document.title = `${title} · smartmine report`;
  const links = sections.map((section) => h('a', { href: `#${section.id}` }, section.title));
  page.replaceChildren(
    h('a.skip', { href: '#summary' }, 'To the report'),
    h(
      'header.side',
      {},
      h('p.brand', {}, 'smartmine'),
      h('nav', { 'aria-label': 'Sections' }, ...links),
      h('div.sticky', {}, h('h2', {}, document.runs.length === 1 ? 'Run' : 'Runs'), legend(state), rangeControl(state, 'range'), axesControl(state, 'axes')),
      h('div.side-foot', {}, themeSwitch(state)),
    ),
    h(
      'main',
      {},
      h('header.title', {}, h('h1', { dir: 'auto' }, title), h('p', {}, `Training report by ${document.generator}`), follow(state)),
      problems(document),
      ...sections.map((section) => section.element),
      h('footer', {}, `Made by ${document.generator} from the runs’ own directories. Everything on this page is inside this file.`),
    ),
  );
  addEventListener('pagehide', () => keepPlace(state));
  restorePlace(state);

  followContents(sections, links);
  printing(state);
  drawWhenIdle();
  Object.assign(window, { smartmineReport: { charts, state, currentMap: () => currentMap } });
}

const slot = document.getElementById('report-data');
const reading = readDocument(slot?.textContent?.trim() || 'null');
// The text may be tens of megabytes, and all of it is in the document now.
if (slot) slot.textContent = '';

if (reading.kind === 'document') show(reading.document);
else if (reading.kind === 'unreadable') message('This report cannot be shown', h('p', {}, `The data in this page cannot be read: ${reading.why}.`), h('p', {}, 'Make the report again with the smartmine that comes with this page.'));
else message('No data', h('p', {}, 'This page is the empty form of a report and holds no data.'), h('p', {}, 'Fill it with: ', h('code', {}, 'smartmine report RUN_DIR... --output report.html')));
