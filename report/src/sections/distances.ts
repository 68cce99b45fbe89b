import { ticks } from '../axis';
import { axisTitle, Panel, sentence, swatch, tooltip, valueAxis, kFont, type Tip } from '../chart';
import type { Epoch, Run } from '../data';
import { decimal, histogramEnd, histogramEpochs, histogramTop, median, overlap, percent, shares, toCsv, total } from '../derive';
import { h } from '../dom';
import { ink, otherClass, sameClass } from '../palette';
import type { State } from '../state';
import { nothing, section, type Section } from './section';

const kLead =
  'Squared distances to the anchor of the triplets an epoch trained on. Mined triplets are hard on purpose: their negatives lie as near as their positives. Thin lines are the first epoch. All runs have one scale.';

// Never a run's colour: grey is the same class, crimson another one, here as everywhere on the page.
const positive = () => ({ color: sameClass(), dash: null as number[] | null });
const negative = () => ({ color: otherClass(), dash: [2, 2] as number[] | null });

export function distances(state: State): Section {
  const epochs = histogramEpochs(state.runs);
  if (epochs.length === 0) return section('distances', 'Distances', '', [], nothing('No distance histograms have been logged.'));
  // No choice: the last epoch, also when a run goes on.
  const current = (): number => {
    const wanted = state.saved.histogramEpoch;
    return wanted !== null && epochs.includes(wanted) ? wanted : epochs[epochs.length - 1];
  };
  const slider = h('input', { type: 'range', min: 0, max: epochs.length - 1, step: 1, id: 'histogram-epoch', 'aria-label': 'Epoch of the histograms' });
  const output = h('output', { for: 'histogram-epoch' });
  const show = () => {
    slider.value = String(epochs.indexOf(current()));
    slider.setAttribute('aria-valuetext', `epoch ${current()}`);
    output.textContent = `epoch ${current()}`;
  };
  const choose = (at: number) => {
    state.saved.histogramEpoch = at >= epochs.length - 1 ? null : epochs[at];
    show();
    state.tell('histogram');
  };
  slider.addEventListener('input', () => choose(Number(slider.value)));
  let timer = 0;
  const play = h('button.quiet', { type: 'button', 'aria-label': 'Play the epochs' }, '▶ play');
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = '▶ play';
  };
  play.addEventListener('click', () => {
    if (timer) return stop();
    let at = Number(slider.value) >= epochs.length - 1 ? 0 : Number(slider.value);
    play.textContent = '❚❚ stop';
    choose(at);
    timer = window.setInterval(() => {
      choose(++at);
      if (at >= epochs.length - 1) stop();
    }, 500);
  });
  show();

  const key = h('div.key');
  const holder = h(state.runs.length > 2 ? 'div.grid.thirds' : 'div.grid');
  const drawKey = () =>
    key.replaceChildren(h('span.key-item', {}, swatch(positive()), 'positives, same class'), h('span.key-item', {}, swatch(negative()), 'negatives, another class'));
  drawKey();
  for (const run of state.runs) if (run.epochs.some((epoch) => epoch.distances)) holder.append(histogramPanel(state, run, current).element);
  const hide = () => {
    for (const run of state.runs) {
      const panel = holder.querySelector<HTMLElement>(`#panel-distances-${run.index}`);
      if (panel) panel.hidden = !state.isShown(run);
    }
  };
  hide();
  state.onChange((change) => {
    if (change === 'runs') hide();
    if (change === 'theme') drawKey();
  });
  const tools = epochs.length > 1 ? [h('label.slider', {}, slider, output), play] : [h('span', {}, `epoch ${epochs[0]}`)];
  return section('distances', 'Distances', kLead, [], h('div.bar', {}, key, h('div.tools', {}, ...tools)), holder);
}

const two = (value: number | null): string => (value === null ? '–' : value.toFixed(2));

function histogramPanel(state: State, run: Run, current: () => number): Panel {
  const having = run.epochs.filter((epoch) => epoch.distances);
  const end = histogramEnd(state.runs);
  const top = histogramTop(state.runs);
  // A run that ended earlier shows its end.
  const at = (): Epoch | null => having.filter((epoch) => epoch.epoch <= current()).pop() ?? null;
  const steps = (counts: number[], max: number): [number, number][] => {
    const width = max / counts.length;
    const result: [number, number][] = shares(counts).map((share, bin) => [(bin + 0.5) * width, share]);
    return result.filter(([x]) => x <= end);
  };
  const alone = state.runs.length === 1;
  const tipAt = (epoch: Epoch, x: number): Tip => {
    const { positive: same, negative: other, max } = epoch.distances!;
    const bins = same.length || other.length;
    const bin = Math.min(bins - 1, Math.max(0, Math.floor((x / max) * bins)));
    const share = (counts: number[]) => (total(counts) > 0 && counts[bin] !== undefined ? `${percent(counts[bin] / total(counts), 2)} (${counts[bin].toLocaleString('en')})` : '–');
    return {
      head: `${decimal((bin * max) / bins)} to ${decimal(((bin + 1) * max) / bins)}`,
      rows: [
        { swatch: swatch(positive(), 18), name: 'positives', value: share(same) },
        { swatch: swatch(negative(), 18), name: 'negatives', value: share(other) },
      ],
    };
  };
  const middle = (epoch: Epoch, stop: number): number => ((stop + 0.5) * epoch.distances!.max) / (epoch.distances!.positive.length || 1);
  return new Panel(state, {
    id: `distances-${run.index}`,
    title: alone ? 'Squared distances' : run.name,
    wide: alone,
    height: alone ? 280 : 210,
    after: ['histogram'],
    empty: 'This run logged no distances up to this epoch.',
    csv: () => {
      const epoch = at();
      if (!epoch) return toCsv([['from', 'to', 'positives', 'negatives']]);
      const { positive: same, negative: other, max } = epoch.distances!;
      const bins = Math.max(same.length, other.length);
      return toCsv([['from', 'to', 'positives', 'negatives'], ...Array.from({ length: bins }, (_, i) => [(i * max) / bins, ((i + 1) * max) / bins, same[i], other[i]])]);
    },
    legend: () => {
      const epoch = at();
      if (!epoch) return [];
      const { positive: same, negative: other, max } = epoch.distances!;
      return [
        h('span.key-item', {}, `epoch ${epoch.epoch}: overlap ${percent(overlap(epoch.distances!))}`),
        h('span.key-item', {}, `medians ${two(median(same, max))} and ${two(median(other, max))}`),
        h('span.key-item', {}, `${(total(same) + total(other)).toLocaleString('en')} pairs`),
      ];
    },
    stops: () => at()?.distances!.positive.length ?? 0,
    place: (stop) => middle(at()!, stop),
    say: (stop) => sentence(tipAt(at()!, middle(at()!, stop))),
    gist: () => {
      const epoch = at();
      if (!epoch) return '';
      const { positive: same, negative: other, max } = epoch.distances!;
      return `Epoch ${epoch.epoch}: medians ${two(median(same, max))} of positives and ${two(median(other, max))} of negatives, overlap ${percent(overlap(epoch.distances!))}.`;
    },
    option: () => {
      const epoch = at();
      if (!epoch) return null;
      const of = ink();
      const { positive: same, negative: other, max } = epoch.distances!;
      const first = having[0];
      const hill = (id: string, name: string, look: ReturnType<typeof negative>, counts: number[], of: number) => ({
        type: 'line' as const,
        id,
        name,
        step: 'middle' as const,
        symbol: 'none',
        data: steps(counts, of),
        color: look.color,
        lineStyle: { width: 2, type: look.dash ?? ('solid' as const), color: look.color },
        areaStyle: { color: look.color, opacity: 0.16 },
        emphasis: { disabled: true },
      });
      const faint = (id: string, look: ReturnType<typeof negative>, counts: number[], of: number) => ({
        ...hill(id, '', look, first === epoch ? [] : counts, of),
        lineStyle: { width: 1, type: look.dash ?? ('solid' as const), color: look.color, opacity: 0.55 },
        areaStyle: undefined,
        silent: true,
      });
      return {
        grid: { left: 50, right: 18, top: 10, bottom: 38, outerBoundsMode: 'none' },
        tooltip: tooltip((x) => tipAt(epoch, x)),
        xAxis: {
          type: 'value',
          min: 0,
          max: end,
          ...axisTitle('squared distance'),
          axisLine: { lineStyle: { color: of.rule } },
          axisTick: { show: false },
          splitLine: { show: false },
          axisLabel: { color: of.muted, fontSize: 11, fontFamily: kFont, showMaxLabel: false, formatter: (value: number) => decimal(value) },
        },
        yAxis: valueAxis('percent', ticks([top], { zero: true })),
        series: [
          faint('first-negative', negative(), first.distances!.negative, first.distances!.max),
          faint('first-positive', positive(), first.distances!.positive, first.distances!.max),
          hill('negative', 'negatives', negative(), other, max),
          hill('positive', 'positives', positive(), same, max),
        ],
      };
    },
  });
}
