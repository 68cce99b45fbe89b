import { h, type Child } from '../dom';

export interface Section {
  id: string;
  title: string;
  element: HTMLElement;
}

export function section(id: string, title: string, lead: string, tools: Child[], ...children: Child[]): Section {
  const element = h(
    'section',
    { id, 'aria-labelledby': `${id}-title` },
    h('header', {}, h('div', {}, h('h2', { id: `${id}-title` }, title), lead ? h('p.lead', {}, lead) : null), tools.some((tool) => tool) ? h('div.tools', {}, ...tools) : null),
    ...children,
  );
  return { id, title, element };
}

export const nothing = (sentence: string): HTMLElement => h('p.nothing', {}, sentence);
