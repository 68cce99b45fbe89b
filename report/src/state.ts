// What a reader has switched, kept across the page's own reloads.
import type { ReportDocument, Run } from './data';
import { clampRange, epochSpan } from './derive';

export type Theme = 'auto' | 'light' | 'dark';

export interface MapView {
  zoom: number;
  x: number;
  y: number;
}

interface Saved {
  off: string[];
  focus: string | null;
  range: [number, number] | null;
  histogramEpoch: number | null;
  mapView: MapView | null;
  mapPoint: number | null;
  mapClass: number | null;
  mapColoring: 'class' | 'hit';
  following: boolean;
  open: string[];
  place: { section: string; offset: number } | null;
}

const kNothing: Saved = {
  off: [],
  focus: null,
  range: null,
  histogramEpoch: null,
  mapView: null,
  mapPoint: null,
  mapClass: null,
  mapColoring: 'class',
  following: true,
  open: [],
  place: null,
};

const key = (): string => `smartmine-report:${location.pathname}`;

function load<T>(storage: () => Storage, name: string): T | null {
  try {
    return JSON.parse(storage().getItem(name) ?? 'null') as T | null;
  } catch {
    return null;
  }
}

function save(storage: () => Storage, name: string, value: unknown): void {
  try {
    storage().setItem(name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing only loses the switches.
  }
}

/// `runs`: the switches or the chosen run; `range`: the epochs shown; `theme`: the colours.
export type Change = 'runs' | 'range' | 'theme' | 'histogram';

export class State {
  readonly saved: Saved;
  private listeners: ((change: Change) => void)[] = [];
  private themeChoice: Theme;

  constructor(readonly document: ReportDocument) {
    this.saved = { ...kNothing, ...(load<Partial<Saved>>(() => sessionStorage, key()) ?? {}) };
    this.themeChoice = load<Theme>(() => localStorage, 'smartmine-report-theme') ?? 'auto';
    if (this.themeChoice !== 'light' && this.themeChoice !== 'dark') this.themeChoice = 'auto';
    this.applyTheme();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.tell('theme'));
  }

  onChange(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  tell(change: Change): void {
    this.keep();
    for (const listener of this.listeners) listener(change);
  }

  keep(): void {
    save(() => sessionStorage, key(), this.saved);
  }

  // ---- runs

  get runs(): Run[] {
    return this.document.runs;
  }

  isShown(run: Run): boolean {
    return !this.saved.off.includes(run.name);
  }

  get shown(): Run[] {
    return this.runs.filter((run) => this.isShown(run));
  }

  toggle(run: Run): void {
    this.saved.off = this.isShown(run) ? [...this.saved.off, run.name] : this.saved.off.filter((name) => name !== run.name);
    this.tell('runs');
  }

  showOnly(run: Run): void {
    this.saved.off = this.runs.filter((other) => other !== run).map((other) => other.name);
    this.tell('runs');
  }

  showAll(): void {
    this.saved.off = [];
    this.tell('runs');
  }

  /// The run that sections of one run are about: the chosen one if it is shown and has what they need, or the first such.
  focus(has: (run: Run) => boolean): Run | null {
    const able = this.shown.filter(has);
    return able.find((run) => run.name === this.saved.focus) ?? able[0] ?? null;
  }

  setFocus(run: Run): void {
    this.saved.focus = run.name;
    this.tell('runs');
  }

  // ---- epochs

  get span(): [number, number] | null {
    return epochSpan(this.runs);
  }

  get range(): [number, number] | null {
    return this.span && clampRange(this.saved.range, this.span);
  }

  /// A range that ends at the last epoch follows a run that goes on.
  setRange(range: [number, number] | null): void {
    const span = this.span;
    if (!span) return;
    const clamped = clampRange(range, span);
    this.saved.range = clamped[0] === span[0] && clamped[1] === span[1] ? null : [clamped[0], clamped[1] === span[1] ? 1e9 : clamped[1]];
    this.tell('range');
  }

  // ---- theme

  get theme(): Theme {
    return this.themeChoice;
  }

  setTheme(theme: Theme): void {
    this.themeChoice = theme;
    save(() => localStorage, 'smartmine-report-theme', theme);
    this.applyTheme();
    this.tell('theme');
  }

  private applyTheme(): void {
    if (this.themeChoice === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.themeChoice;
  }
}
