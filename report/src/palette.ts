// Okabe and Ito's colours, lighter ones for the dark; dashes and markers say the same without colour.

const kLight = ['#0072b2', '#d55e00', '#009e73', '#b8578f', '#d18f00', '#3f9fd8', '#3c3f45'];
const kDark = ['#5cb8ee', '#f58b4c', '#2cc295', '#e29cc4', '#f0c05a', '#8fa8ff', '#d9d8d3'];
const kDashes: (number[] | null)[] = [null, [7, 4], [2, 3], [9, 3, 2, 3]];
export const kMarkers = ['circle', 'rect', 'triangle', 'diamond'] as const;
export type Marker = (typeof kMarkers)[number];

export interface Look {
  color: string;
  dash: number[] | null;
  marker: Marker;
}

export const isDark = (): boolean => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
};

export function color(index: number): string {
  const colors = isDark() ? kDark : kLight;
  return colors[index % colors.length];
}

/// Colours repeat after seven runs, dashes and markers after four, so that all pairs of 28 differ.
export function lookOfRun(index: number): Look {
  return { color: color(index), dash: kDashes[index % kDashes.length], marker: kMarkers[index % kMarkers.length] };
}

/// Of a class on the map: colour, then shape, then hollow.
export function lookOfClass(label: number): { color: string; marker: Marker; hollow: boolean } {
  const at = Math.max(0, label);
  return { color: color(at), marker: kMarkers[Math.floor(at / kLight.length) % kMarkers.length], hollow: Math.floor(at / (kLight.length * kMarkers.length)) % 2 === 1 };
}

export interface Ink {
  ink: string;
  muted: string;
  rule: string;
  panel: string;
  page: string;
}

export function ink(): Ink {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return { ink: of('--ink'), muted: of('--muted'), rule: of('--rule'), panel: of('--panel'), page: of('--page') };
}
