// Ends and steps of value axes: round numbers, and round times.

export interface Ticks {
  min: number;
  max: number;
  interval: number;
}

export const kShare: Ticks = { min: 0, max: 1, interval: 0.25 };

const kTimes = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  // 2.5 has more digits than its neighbours, 2 and 5 do without.
  const lead = [1, 2, 5, 10].find((step) => step * power >= least * (1 - 1e-9)) ?? 10;
  return Number((lead * power).toPrecision(12));
}

const timeStep = (least: number): number => (least <= 0.5 ? roundStep(least) : (kTimes.find((step) => step >= least) ?? Math.ceil(least / 86400) * 86400));

/// About `count` steps that hold all values with little room to spare; from 0 if asked, and never below it if no value is.
export function ticks(values: number[], options: { zero?: boolean; time?: boolean; count?: number } = {}): Ticks {
  const wanted = options.count ?? 4;
  let low = options.zero ? 0 : Infinity;
  let high = options.zero ? 0 : -Infinity;
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (!(low <= high)) return { min: 0, max: 1, interval: 1 / wanted };
  const spread = high - low || Math.abs(high) || 1;
  const room = spread * 0.03;
  let best: Ticks | null = null;
  let least = Infinity;
  for (const count of [wanted, wanted + 1, wanted - 1, wanted + 2]) {
    const interval = (options.time ? timeStep : roundStep)(spread / count);
    const floor = Math.floor((low - room) / interval) * interval;
    const min = Number((low >= 0 ? Math.max(0, floor) : floor).toPrecision(12));
    const max = Number((Math.ceil((high + room) / interval) * interval).toPrecision(12));
    const cost = (max - min) / spread + 0.06 * Math.abs(count - wanted);
    if (cost < least) [best, least] = [{ min, max, interval }, cost];
  }
  return best!;
}

/// Of a tick: whole units, no "0 s".
export function timeText(seconds: number): string {
  if (seconds === 0) return '0';
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(4))} ms`;
  if (seconds < 60 || (seconds <= 120 && seconds % 60 !== 0)) return `${Number(seconds.toPrecision(4))} s`;
  return seconds % 3600 === 0 ? `${seconds / 3600} h` : `${Number((seconds / 60).toPrecision(4))} min`;
}
