// Every colour means one thing. Vivid ones are runs (on the map: classes): Okabe and Ito's, lighter ones for the dark. Grey and crimson are the
// same class and another one. Dull ones are parts of a whole. Dashes, markers and patterns say the same without colour.

const kLight = ['#0072b2', '#d55e00', '#009e73', '#b8578f', '#d18f00', '#3f9fd8', '#7b5ea7'];
const kDark = ['#5cb8ee', '#f58b4c', '#2cc295', '#e29cc4', '#f0c05a', '#8fa8ff', '#b79cf0'];
const kPartsLight = ['#4d5b70', '#93a1b5', '#6f6252', '#b3a48f', '#5d6f5e', '#a3b5a2', '#c9ccd2'];
const kPartsDark = ['#9db0cc', '#5c6a80', '#c8b79c', '#83755f', '#a5bda4', '#617560', '#474b54'];
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

/// Of a part of a stack.
export function partColor(index: number): string {
  const colors = isDark() ? kPartsDark : kPartsLight;
  return colors[index % colors.length];
}

/// Of what has the class in question, and of what has not.
export const sameClass = (): string => ink().same;
export const otherClass = (): string => ink().other;

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
  same: string;
  other: string;
}

export function ink(): Ink {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return { ink: of('--ink'), muted: of('--muted'), rule: of('--rule'), panel: of('--panel'), page: of('--page'), same: of('--right'), other: of('--wrong') };
}
