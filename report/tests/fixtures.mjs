// Documents as `smartmine report` writes them, made up but plausible: node tests/fixtures.mjs KIND > data.json
import { pathToFileURL } from 'node:url';
import { crc32, deflateSync } from './png.mjs';

function random(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const gauss = (draw) => Math.sqrt(-2 * Math.log(draw() + 1e-12)) * Math.cos(2 * Math.PI * draw());

// ---- pictures

function png(width, height, pixel) {
  const raw = Buffer.alloc((width * 3 + 1) * height);
  for (let y = 0, at = 0; y < height; ++y) {
    raw[at++] = 0;
    for (let x = 0; x < width; ++x) for (const value of pixel(x, y)) raw[at++] = Math.max(0, Math.min(255, value));
  }
  const chunk = (type, data) => {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(data.length, 0);
    head.write(type, 4, 'latin1');
    const end = Buffer.alloc(4);
    end.writeUInt32BE(crc32(Buffer.concat([head.subarray(4), data])), 0);
    return Buffer.concat([head, data, end]);
  };
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  const bytes = Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk('IHDR', header), chunk('IDAT', deflateSync(raw)), chunk('IEND', Buffer.alloc(0))]);
  return `data:image/png;base64,${bytes.toString('base64')}`;
}

const hue = (h, s, v) => [0, 8, 4].map((n) => { const k = (n + h * 12) % 12; return 255 * (v - v * s * Math.max(0, Math.min(k - 3, 9 - k, 1))); });

// A bird of sorts: body, head and beak before a sky; the class decides colours and build, the image its pose.
function bird(label, id, grain = 0) {
  const ofClass = random(label * 7919 + 13);
  const own = random(id * 104729 + 7);
  const body = hue(ofClass(), 0.35 + 0.5 * ofClass(), 0.35 + 0.55 * ofClass());
  const head = hue(ofClass(), 0.3 + 0.5 * ofClass(), 0.3 + 0.6 * ofClass());
  const [long, high, headSize] = [0.24 + 0.1 * ofClass(), 0.12 + 0.1 * ofClass(), 0.08 + 0.05 * ofClass()];
  const sky = hue(0.28 + 0.35 * own(), 0.15 + 0.3 * own(), 0.65 + 0.3 * own());
  const [cx, cy, tilt, flip] = [0.5 + 0.1 * (own() - 0.5), 0.55 + 0.1 * (own() - 0.5), 0.7 * (own() - 0.5), own() < 0.5 ? -1 : 1];
  return (u, v) => {
    const [dx, dy] = [(u - cx) * flip, v - cy];
    const [x, y] = [dx * Math.cos(tilt) + dy * Math.sin(tilt), dy * Math.cos(tilt) - dx * Math.sin(tilt)];
    const noise = grain ? (own() - 0.5) * grain : 0;
    const shade = (color, by) => color.map((c) => c * by + noise);
    const [hx, hy] = [x - long * 0.85, y + high * 0.9];
    if (Math.hypot(hx - headSize * 0.3, hy + headSize * 0.2) < headSize * 0.18) return [20, 20, 20];
    if (Math.hypot(hx, hy) < headSize) return shade(head, 1 - y);
    if (hx > 0 && hx < headSize * 2 && Math.abs(hy) < (headSize * 2 - hx) * 0.25) return [220, 160, 40];
    if ((x / long) ** 2 + (y / high) ** 2 < 1) return shade(body, y > 0 ? 1.2 : 0.95);
    if (x < 0 && x > -long * 1.8 && Math.abs(y + x * 0.2) < high * 0.3) return shade(body, 0.75);
    return shade(sky, 0.85 + 0.25 * (1 - v));
  };
}

function image(label, id, size = 64, grain = 0) {
  const paint = bird(label, id, grain);
  return png(size, size, (x, y) => paint((x + 0.5) / size, (y + 0.5) / size));
}

function sheets(labels, size, grain) {
  const [columns, per_sheet] = [64, 4096];
  const result = [];
  for (let first = 0; first < labels.length; first += per_sheet) {
    const count = Math.min(per_sheet, labels.length - first);
    const birds = Array.from({ length: count }, (_, i) => bird(labels[first + i], first + i, grain));
    const sky = () => [255, 255, 255];
    result.push(
      png(columns * size, Math.ceil(count / columns) * size, (x, y) => {
        const at = Math.floor(y / size) * columns + Math.floor(x / size);
        return (birds[at] ?? sky)(((x % size) + 0.5) / size, ((y % size) + 0.5) / size);
      }),
    );
  }
  return { size, columns, per_sheet, sheets: result };
}

// ---- numbers

const kKinds = ['Albatross', 'Warbler', 'Sparrow', 'Oriole', 'Tern', 'Grebe', 'Finch', 'Kingfisher', 'Wren', 'Gull'];
const kSorts = ['Black-footed', 'Laysan', 'Blue-winged', 'Hooded', 'Forster', 'Ivory', 'Scarlet', 'Belted', 'Marsh', 'Pied'];
export const birdName = (label) => `${String(label + 101).padStart(3, '0')}.${kSorts[label % 10]} ${kKinds[Math.floor(label / 10) % 10]}`;

function histogram(draw, mean, spread, count) {
  const bins = new Array(64).fill(0);
  for (let i = 0; i < count; ++i) bins[Math.max(0, Math.min(63, Math.floor(((mean + spread * gauss(draw)) / 4) * 64)))]++;
  return bins;
}

function epochs(options) {
  const { seed, upTo, adaptive, mined = true, start = 0.427, gain = 0.07, global = true, split = 'test', speed = 1 } = options;
  const draw = random(seed);
  const rows = [];
  let kappa = 4;
  for (let epoch = 0; epoch <= upTo; ++epoch) {
    const risen = 1 - Math.exp(-epoch / (adaptive ? 3 : 6));
    const r1 = start + gain * risen + 0.004 * gauss(draw);
    const metrics = { 'recall@1': r1, 'recall@2': r1 + 0.125, 'recall@4': r1 + 0.24, 'recall@8': r1 + 0.335, nmi: 0.54 + 0.06 * risen + 0.002 * gauss(draw), nmi_geometric: 0.54 + 0.06 * risen, 'map@r': 0.1 + 0.05 * risen, r_precision: 0.2 + 0.05 * risen };
    const mining = mined && epoch > 2;
    const error = epoch === 0 ? null : adaptive && mining ? 0.6 + (0.15 * gauss(draw)) / epoch : mining ? 0.78 * Math.exp(-epoch / 30) : 0.31 * Math.exp(-epoch / 12);
    const row = {
      epoch, training_error: error, validation_error: error === null ? null : Math.min(1, error + 0.04 + 0.02 * draw()), kappa: mining ? kappa : null, loss: error === null ? null : 0.3 * error, learning_rate: epoch === 0 ? null : 0.01 * 0.5 ** Math.floor((epoch - 1) / 3),
      images_per_second: epoch === 0 ? null : speed * (2900 + 60 * gauss(draw)), seconds: 0, stage_seconds: epoch === 0 ? { evaluation: 2.1 / speed } : { embedding: 1.6 / speed, evaluation: 2.1 / speed, ...(mining ? { lists: 0.55 / speed, longer_lists: 0.1 / speed, selection: 0.02 / speed } : {}), steps: (6.1 + 0.1 * gauss(draw)) / speed },
      evaluated_on: split, metrics, notes: mining && epoch % 5 === 3 ? [`of the lists of 200, ${(1 + draw()).toFixed(1)} % hold no positive and ${(20 + 5 * draw()).toFixed(1)} % no negative beyond the bound: lists of about 709 should do, or a smaller kappa`] : [],
      distances: { positive: histogram(draw, 0.95 - 0.35 * risen, 0.3, 3000), negative: histogram(draw, 1.35 + 0.35 * risen, 0.33, 9000), max: 4.0 },
    };
    if (error !== null) {
      row.device = 'cpu';
      row.steps = 240;
      row.step_losses = { every: 2, values: Array.from({ length: 120 }, (_, i) => (i === 60 && epoch === 4 ? null : Number(Math.abs(0.3 * error * (1 + 0.3 * gauss(draw))).toPrecision(4)))) };
    }
    if (error !== null) row.loss_parts = global ? { triplet: 0.22 * error, global: 0.08 * error } : { triplet: 0.3 * error };
    if (mining) {
      const n = 5864;
      const none = Math.round(n * (0.2 + 0.03 * draw()));
      const outside = Math.round(n * 0.12);
      row.mining = { triplets: n, anchors: n, mined: n - none - outside - 220, mined_outside_positive: outside, mined_nearer_positive: 40, random_no_positive: 180, random_no_negative: none, random_no_farther_positive: 0, random_by_share: 0, note: '' };
      if (adaptive) kappa = Math.max(0.8, 2.1 + 1.8 * Math.exp(-(epoch - 2) / 2.5) + 0.05 * gauss(draw));
      else kappa = Math.max(1, kappa * 0.9);
    }
    rows.push(row);
  }
  return rows;
}

function map(seed, points, classes, thumbnails, grain, name) {
  const draw = random(seed);
  const centers = Array.from({ length: classes }, (_, i) => { const a = i * 2.399963; const r = 42 * Math.sqrt((i + 0.5) / classes); return [r * Math.cos(a), r * Math.sin(a)]; });
  const label = Array.from({ length: points }, (_, i) => Math.floor((i * classes) / points));
  const stray = label.map((of) => (draw() < 0.18 ? Math.floor(draw() * classes) : of));
  const x = stray.map((of) => Number((centers[of][0] + 2.1 * gauss(draw)).toFixed(3)));
  const y = stray.map((of) => Number((centers[of][1] + 2.1 * gauss(draw)).toFixed(3)));
  const cells = new Map();
  const cell = (i) => `${Math.floor(x[i] / 3)},${Math.floor(y[i] / 3)}`;
  for (let i = 0; i < points; ++i) cells.set(cell(i), [...(cells.get(cell(i)) ?? []), i]);
  const neighbors = x.map((_, i) => {
    const near = [];
    const [cx, cy] = cell(i).split(',').map(Number);
    for (let reach = 1; near.length < Math.min(8, points - 1) && reach < 60; reach *= 2) {
      near.length = 0;
      for (let a = cx - reach; a <= cx + reach; ++a) for (let b = cy - reach; b <= cy + reach; ++b) for (const j of cells.get(`${a},${b}`) ?? []) if (j !== i) near.push(j);
    }
    return near.sort((a, b) => (x[a] - x[i]) ** 2 + (y[a] - y[i]) ** 2 - (x[b] - x[i]) ** 2 - (y[b] - y[i]) ** 2).slice(0, 8);
  });
  const reach = Math.max(...x.map(Math.abs), ...y.map(Math.abs));
  const unit = (values) => values.map((value) => Number((value / reach).toFixed(4)));
  return { epoch: 20, evaluated_on: 'test', points, of: points, x: unit(x), y: unit(y), label, classes: Array.from({ length: classes }, (_, i) => name(i)), neighbors, thumbnails: thumbnails ? sheets(label, 32, grain) : null, names: label.map((of, i) => `${name(of).replace(/ /g, '_')}/${String(i).padStart(5, '0')}.jpg`) };
}

function triplets(seed, anchors, at, name, size, grain, images = true) {
  const draw = random(seed);
  const one = (label, distance) => { const id = Math.floor(draw() * 1e6); return { name: `${name(label)}/${id}.jpg`, class: name(label), image: images ? image(label, id, size, grain) : null, distance }; };
  return {
    anchors: Array.from({ length: anchors }, (_, i) => ({
      name: `${name(i)}/${1000 + i}.jpg`, class: name(i), image: images ? image(i, 1000 + i, size, grain) : null,
      epochs: at.map((epoch, k) => {
        const near = 1.1 - 0.12 * k + 0.1 * draw();
        const hard = k > 0 || draw() < 0.6;
        return {
          epoch,
          kappa: 4 - 0.6 * k,
          mined: [{ positive: one(i, near), negative: one(i + 20 + k, near - (hard ? 0.12 + 0.1 * draw() : -0.3)), kind: i === 2 && k === 1 ? 'random' : 'mined' }],
          random: [{ positive: one(i, 0.8 + 0.3 * draw()), negative: one((i * 37 + k * 11) % 90, 1.4 + 0.5 * draw()), kind: 'random' }],
        };
      }),
    })),
  };
}

function gallery(seed, queries, name, size, grain, images = true, labels = 100) {
  const draw = random(seed);
  // Pictures and rows of a query are the same whatever the seed, as those of two runs of one data set are.
  const one = (label, id) => ({ name: `${name(label)}/${id}.jpg`, class: name(label), image: images ? image(label, id, size, grain) : null });
  const of = Array.from({ length: queries }, (_, i) => {
    const label = (i * 7) % labels;
    const correct = Math.floor((8 * i) / queries);
    const picks = Array.from({ length: 8 }, (_, k) => ((k * 5 + i) % 8 < correct ? label : (label + 1 + Math.floor(draw() * 60)) % labels));
    const first = picks.indexOf(label) + 1;
    return {
      ...one(label, 5000 + i), row: i * 11, sets: [i < queries / 3 ? ['worst'] : [], i % 2 ? ['random'] : [], i % 3 ? ['class'] : []].flat(), correct: picks.filter((p) => p === label).length, possible: i === 1 ? 5 : 8,
      match: { ...one(label, 6000 + i), distance: 0.9 + 0.2 * draw(), rank: first || 9 + Math.floor(draw() * 2500) },
      results: picks.map((other, k) => ({ ...one(other, 9000 + 8 * i + k), distance: 0.3 + 0.06 * k + 0.02 * draw(), right: other === label })),
    };
  });
  const hubs = Array.from({ length: 6 }, (_, i) => ({
    ...one((i * 13) % labels, 7000 + i), wrong: 90 - 9 * i, right: 3 * i,
    queries: Array.from({ length: 8 }, (_, k) => ({ ...one((i * 13 + 1 + k) % labels, 7100 + 8 * i + k), distance: 0.2 + 0.03 * k, rank: 1 + (k % 4) })),
  }));
  return { epoch: 20, images: 5924, queries: of, hubs };
}

function classes(seed, count, name, each = 50) {
  const draw = random(seed);
  const hits = Array.from({ length: count }, () => Math.round(each * Math.min(1, 0.15 + 0.8 * draw())));
  return {
    epoch: 20, names: Array.from({ length: count }, (_, i) => name(i)), images: hits.map(() => each), hits,
    confused: hits.map((hit, i) => (hit === each ? [] : [[(i + 1) % count, Math.ceil((each - hit) / 2)], [(i + 5) % count, Math.floor((each - hit) / 3)]].filter((pair) => pair[1] > 0))),
  };
}

const kPartOfTheWay = 'epoch 20, 75 % of the way from the start';

const kChoice = {
  summary: 'Nine trials on 20 held-out classes of 100, 6 epochs each; the best recall@1 was kept.',
  // The last is as long as the training, and its rate has been tried before.
  trials: [0.005, 0.01, 0.02, 0.01].map((rate, i) => ({ name: `trial ${i + 1}`, settings: { system: i === 0 ? 'neighbor-batch' : 'class-batch', 'learning-rate': rate, margin: 0.2 }, epochs: i === 2 ? 3 : i === 3 ? 12 : 6, epochs_planned: i === 3 ? 12 : 6, seconds: 40 + i, 'recall@1': 0.61 + 0.01 * (i % 2), 'map@r': 0.28 + 0.004 * (i % 2) })),
  start: { 'recall@1': 0.57, 'map@r': 0.25 },
  interpolations: [0.5, 1].map((share) => ({ share, 'recall@1': 0.6 + 0.02 * share, 'map@r': 0.27 + 0.01 * share })),
  held_out_classes: 20, held_out_images: 1170, seconds: 123,
  chosen: { trial: 'trial 4', system: 'class-batch', 'learning-rate': 0.01, margin: 0.2, epochs: 12, share: 1 },
  kept: { epoch: 12, reason: 'the best recall@1 on the held-out classes', evaluated_on: 'test', metrics: { 'recall@1': 0.5432, nmi: 0.6543, 'map@r': 0.2345 } },
};

// ---- documents

const onlyRandom = (of) => ({ anchors: of.anchors.map((anchor) => ({ ...anchor, epochs: anchor.epochs.map((epoch) => ({ ...epoch, kappa: null, mined: epoch.mined.map((triplet) => ({ ...triplet, kind: 'random' })) })) })) });

const row = (name, nmi, a, b, c, d) => ({ name, 'recall@1': a / 100, 'recall@2': b / 100, 'recall@4': c / 100, 'recall@8': d / 100, nmi: nmi / 100 });
const kPaper = [
  row('semi-hard', 55.38, 42.59, 55.03, 66.44, 77.23), row('lifted structure', 56.5, 43.57, 56.55, 68.59, 79.63), row('N-pairs', 57.24, 45.37, 58.41, 69.51, 79.49), row('triplet + global', 58.61, 49.04, 60.97, 72.33, 81.85),
  row('clustering', 59.23, 48.18, 61.44, 71.83, 81.92), row('triplet + FANNG', 58.1, 45.9, 57.65, 69.63, 79.83), row('triplet + FANNG + global', 60.09, 49.44, 61.6, 73.09, 82.85), row('triplet + FANNG + global + adaptive', 59.9, 49.78, 62.34, 74.05, 83.31),
];

const settings = (system, seed, more = {}) => ({ dataset: 'cub200', backbone: 'googlenet', 'embedding-dim': 64, system, epochs: 20, 'batch-size': 32, 'learning-rate': 0.01, momentum: 0.9, 'weight-decay': 0.0005, kappa: 4, 'target-error': 0.6, 'mined-fraction': 1, index: 'auto', seed, threads: 0, device: 'cuda', 'skip-bad-images': false, ...more });

function run(name, more) {
  return { name, path: `runs/${name}`, dataset: 'cub200', system: 'triplet-fanng-global-adaptive', settings: settings('triplet-fanng-global-adaptive', 1), finished: true, epochs_planned: 20, target_error: 0.6, paper: { rows: kPaper, row_of_system: 7 }, epochs: epochs({ seed: 1, upTo: 20, adaptive: true }), map: null, triplets: null, gallery: null, classes: null, choice: null, started: '2026-03-04T09:12:40Z', updated: '2026-03-04T11:47:02Z', ...more };
}

const wrap = (runs, more = {}) => ({ format: 1, generator: 'smartmine 0.1.0', refresh_seconds: null, problems: [], runs, ...more });

const kOdd = (i) => ['</script><script>alert(1)</script>', '<img src=x onerror=alert(2)>', 'นกกระจอก บ้าน', '"quoted" & \'single\'', '麻雀 — tab\there', 'عصفور', 'a very long class name that goes on and on without any need for it at all, really'][i % 7] + (i > 6 ? ` ${i}` : '');

/** @type {Record<'one' | 'three' | 'seeds' | 'live' | 'odd' | 'bare' | 'none' | 'large', () => any>} */
const makers = {
  /// One run with everything.
  one: () => wrap([run('cub200-adaptive', { map: { ...map(5, 1500, 30, true, 0, birdName), kept: kPartOfTheWay }, triplets: triplets(3, 5, [4, 8, 12, 16], birdName, 64, 0), gallery: { ...gallery(4, 26, birdName, 64, 0, true, 30), kept: kPartOfTheWay }, classes: { ...classes(6, 30, birdName), kept: kPartOfTheWay }, choice: kChoice })]),
  /// Three overlaid, one of them of another data set.
  three: () =>
    wrap([
      run('cub200-adaptive', { map: map(5, 1500, 30, true, 0, birdName), triplets: triplets(3, 3, [4, 8, 12, 16], birdName, 64, 0), gallery: gallery(4, 14, birdName, 64, 0, true, 30), classes: classes(6, 30, birdName) }),
      run('cub200-random', { triplets: onlyRandom(triplets(4, 3, [4, 8], birdName, 64, 0)), gallery: gallery(5, 14, birdName, 64, 0, true, 30), classes: classes(7, 30, birdName), system: 'triplet-global', settings: settings('triplet-global', 1, { kappa: 8, 'target-error': 0.5 }), target_error: null, paper: { rows: kPaper, row_of_system: 3 }, epochs: epochs({ seed: 2, upTo: 20, adaptive: false, mined: false, gain: 0.03 }) }),
      run('glyphs-fanng-long-name-of-a-run-2', { dataset: 'glyphs', system: 'triplet-fanng', settings: settings('triplet-fanng', 3, { dataset: 'glyphs', backbone: 'small', epochs: 12 }), target_error: 0.5, paper: null, epochs_planned: 12, epochs: epochs({ seed: 3, upTo: 12, adaptive: false, start: 0.3, gain: 0.25, global: false, speed: 1.6 }), map: map(8, 600, 12, false, 0, (i) => `glyph ${i}`), gallery: gallery(9, 6, (i) => `glyph ${i}`, 64, 0, false) }),
    ]),
  /// Two systems with three seeds each.
  seeds: () =>
    wrap(
      ['triplet-fanng-global-adaptive', 'triplet-global'].flatMap((system, s) =>
        [1, 2, 3].map((seed) => run(`${s ? 'random' : 'adaptive'}-${seed}`, { system, settings: settings(system, seed), target_error: s ? null : 0.6, paper: null, epochs: epochs({ seed: 10 * s + seed, upTo: 12, adaptive: !s, mined: !s, gain: s ? 0.03 : 0.07 }) })),
      ),
    ),
  /// Still going, with a damaged line; the page follows it.
  live: () => wrap([run('cub200-live', { finished: false, epochs: epochs({ seed: 1, upTo: 7, adaptive: true }) })], { refresh_seconds: 2, problems: ['runs/cub200-live/log.jsonl: line 7: not a line of a run\'s log: unexpected end of input', 'runs/cub200-live/config.toml: line 3: unknown setting <b>"kapa"</b>'] }),
  /// Names that would break a careless page.
  odd: () =>
    wrap([
      run('</script><script>window.hacked=1</script>', { path: 'runs/<b>"a"</b>', dataset: 'ข้อมูล "นก"', system: '<i>triplet</i>', paper: { rows: [{ ...kPaper[0], name: '<u>row</u>' }], row_of_system: 0 }, map: map(5, 400, 9, true, 0, kOdd), triplets: triplets(3, 2, [4], kOdd, 48, 0), gallery: gallery(4, 4, kOdd, 48, 0) }),
      run('การฝึก ครั้งที่ ๒ & "co"', { settings: settings('x', 2, { note: '<img src=x onerror=window.hacked=1>' }), epochs: epochs({ seed: 9, upTo: 5, adaptive: true }) }),
      run('การฝึก ครั้งที่ ๒ & "co"', { path: 'other/place', epochs: epochs({ seed: 10, upTo: 9, adaptive: true }) }),
    ], { problems: ['<script>window.hacked=1</script>: not a run'] }),
  /// Whatever may be missing is.
  bare: () =>
    wrap([
      { name: 'no-epochs', path: 'runs/no-epochs', epochs: [] },
      { name: 'only-epoch-0', path: 'runs/x', dataset: 'folder', system: 'semihard', settings: {}, finished: false, epochs_planned: null, target_error: null, paper: null, epochs: [{ epoch: 0, training_error: null, kappa: null, loss: null, stage_seconds: { evaluation: 1.2 }, metrics: { 'recall@1': 0.127 }, evaluated_on: 'validation', notes: [] }], map: null, triplets: null, gallery: null },
      { name: 'strange', epochs: [{ epoch: 1, training_error: 0.4, mining: null, metrics: null, distances: null }, { epoch: 'x' }, 5, null, { epoch: 3, training_error: 0.2, loss_parts: null, stage_seconds: null, mining: {} }], map: { points: 3, x: [0, 1, 2], y: [0, 1, null], label: [0, 0, 5], classes: ['a'], neighbors: [[1, 99], [0]], thumbnails: { size: 32, columns: 64, sheets: ['https://example.invalid/x.png'], per_sheet: 4096 }, names: null }, triplets: { anchors: [{ name: 'a', class: 'b', image: null, epochs: [] }] }, gallery: { queries: [] } },
    ]),
  none: () => wrap([], { problems: ['runs/nowhere: not a run directory: it has no config.toml'] }),
  /// As large as a run of 20 epochs on CUB-200-2011 may be.
  large: () => wrap([run('cub200-full', { map: map(5, 5924, 100, true, 8, birdName), triplets: triplets(3, 8, [4, 8, 12, 16], birdName, 96, 6), gallery: gallery(4, 40, birdName, 96, 6), classes: classes(6, 100, birdName) })]),
};

/** @type {typeof makers} */
export const documents = Object.fromEntries(
  Object.entries(makers).map(([kind, make]) => {
    let made;
    return [kind, () => (made ??= make())];
  }),
);

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const kind = process.argv[2];
  if (!documents[kind]) {
    console.error(`usage: node tests/fixtures.mjs ${Object.keys(documents).join('|')} > data.json`);
    process.exit(2);
  }
  process.stdout.write(JSON.stringify(documents[kind]()));
}
