// Elements from words. Text goes in as text, so nothing of the data is ever read as HTML.

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | EventListener;

function fillElement(element: Element, attributes: Record<string, Value>, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children)
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
}

/// h('p.note', {title: '...', onclick: f}, 'text', element)
export function h<Tag extends keyof HTMLElementTagNameMap>(
  spec: Tag | `${Tag}.${string}`,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const [tag, ...classes] = spec.split('.');
  const element = document.createElement(tag) as HTMLElementTagNameMap[Tag];
  if (classes.length > 0) element.className = classes.join(' ');
  fillElement(element, attributes, children);
  return element;
}

export function svg(tag: string, attributes: Record<string, Value> = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  fillElement(element, attributes, children);
  return element;
}

/// Something the data names: its own writing direction, whole on hover where it is cut, and broken where its parts end.
export function named(name: string, className = 'name'): HTMLElement {
  const parts = name.match(/[^_/]+[_/]*|[_/]+/g) ?? [];
  return h(`span.${className}`, { dir: 'auto', title: name }, ...parts.flatMap((part, i) => (i === 0 ? [part] : [h('wbr'), part])));
}

const waiting = new Set<() => void>();

/// Calls `draw` once: when the element comes near the view, when the browser has nothing else to do, or before printing.
export function whenNear(element: Element, draw: () => void): void {
  const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && once(), { rootMargin: '500px 0px' });
  const once = () => {
    if (!waiting.delete(once)) return;
    observer.disconnect();
    draw();
  };
  waiting.add(once);
  observer.observe(element);
}

/// Draws everything that has not come into view yet.
export function drawAll(): void {
  for (const draw of [...waiting]) draw();
}

let ahead = false;

/// What is drawn now is not in view: nothing of it need move.
export const isDrawnAhead = (): boolean => ahead;

/// The same, one thing at a time and hardly in a reader's way, so that a picture of the whole page shows all of it.
export function drawWhenIdle(): void {
  const idle = (work: () => void) => (window.requestIdleCallback ? window.requestIdleCallback(work, { timeout: 200 }) : window.setTimeout(work, 50));
  const next = () => {
    const [draw] = waiting;
    if (!draw) return;
    ahead = true;
    try {
      draw();
    } finally {
      ahead = false;
    }
    idle(next);
  };
  idle(next);
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages from a file may not use the clipboard's own interface everywhere.
    const area = h('textarea', { style: 'position:fixed;opacity:0', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

/// A button that copies what `csv` gives and says so.
export function csvButton(what: string, csv: () => string): HTMLButtonElement {
  const button = h('button.quiet', { type: 'button', 'aria-label': `Copy ${what} as CSV`, title: `Copy the numbers as CSV` }, 'CSV');
  let timer = 0;
  button.addEventListener('click', async () => {
    const done = await copyText(csv());
    button.textContent = done ? 'copied ✓' : 'not copied';
    announce(done ? `${what}: copied as CSV` : `${what}: the browser did not allow copying`);
    clearTimeout(timer);
    timer = window.setTimeout(() => (button.textContent = 'CSV'), 1600);
  });
  return button;
}

let live: HTMLElement | null = null;

/// Says something to those who listen to the page.
export function announce(message: string): void {
  if (!live) {
    live = h('div.unseen', { 'aria-live': 'polite' });
    document.body.append(live);
  }
  live.textContent = message;
}
