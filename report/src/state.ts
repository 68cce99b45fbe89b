// What a reader has switched, kept across the page's own reloads.
import type { ReportDocument, Run } from './data';
import { clampRange, epochSpan, seedGroups } from './derive';

export type Theme = 'auto' | 'light' | 'dark';

export type GalleryMode = 'random' | 'worst' | 'class' | 'hubs';

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
  mapOther: number | null;
  mapColoring: 'class' | 'hit';
  overTime: boolean;
  logScale: boolean;
  bySeeds: boolean;
  smoothing: number;
  galleryMode: GalleryMode;
  galleryClass: string | null;
  galleryBeside: string | null;
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
  mapOther: null,
  mapColoring: 'class',
  overTime: false,
  logScale: false,
  bySeeds: false,
  smoothing: 0.9,
  galleryMode: 'random',
  galleryClass: null,
  galleryBeside: null,
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

/// `runs`: the switches or the chosen run; `range`: the epochs shown; `theme`: the colours; `axes`: what curves are drawn over and how; `map`: the
/// class chosen there.
export type Change = 'runs' | 'range' | 'theme' | 'histogram' | 'axes' | 'map';

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

  // ---- seeds

  /// Runs of one experiment with several seeds are drawn as one line with a band.
  get canGroup(): boolean {
    return seedGroups(this.runs).some((group) => group.length > 1);
  }

  /// What line charts draw: each shown run, or each group of them.
  get lines(): Run[][] {
    return this.saved.bySeeds && this.canGroup ? seedGroups(this.shown) : this.shown.map((run) => [run]);
  }

  /// Whose colour, dash and marker a run has: its own, or those of its group.
  lookIndex(run: Run): number {
    if (!this.saved.bySeeds || !this.canGroup) return run.index;
    return seedGroups(this.runs).find((group) => group.includes(run))?.[0].index ?? run.index;
  }

  setAxes(change: Partial<Pick<Saved, 'overTime' | 'logScale' | 'bySeeds' | 'smoothing'>>): void {
    Object.assign(this.saved, change);
    this.tell('axes');
  }

  /// One class of the map, or two that are confused, before all others.
  chooseClass(label: number | null, other: number | null = null): void {
    this.saved.mapClass = label;
    this.saved.mapOther = label === null ? null : other;
    this.tell('map');
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

  /// Paper is white.
  setPrinting(printing: boolean): void {
    if (printing) document.documentElement.dataset.theme = 'light';
    else this.applyTheme();
    for (const listener of this.listeners) listener('theme');
  }

  private applyTheme(): void {
    if (this.themeChoice === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.themeChoice;
  }
}
