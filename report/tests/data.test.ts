import { describe, expect, it } from 'vitest';

import { readDocument, type ReportDocument } from '../src/data';
import { fill } from '../fill.mjs';
import { documents } from './fixtures.mjs';

function read(json: unknown): ReportDocument {
  const reading = readDocument(JSON.stringify(json));
  if (reading.kind !== 'document') throw new Error(`not read: ${JSON.stringify(reading)}`);
  return reading.document;
}

describe('reading the document', () => {
  it('tells the empty form from data that cannot be read', () => {
    expect(readDocument('null')).toEqual({ kind: 'empty' });
    expect(readDocument('{"format": 1').kind).toBe('unreadable');
    expect(readDocument('[1]')).toEqual({ kind: 'unreadable', why: 'it is not a JSON object' });
    expect(readDocument('{"runs": []}')).toEqual({ kind: 'unreadable', why: 'its format is missing, and this page reads format 1' });
    expect(readDocument('{"format": 2}')).toEqual({ kind: 'unreadable', why: 'its format is 2, and this page reads format 1' });
  });

  it('reads every made-up document', () => {
    for (const kind of ['one', 'three', 'live', 'odd', 'bare', 'none'] as const) {
      const json = documents[kind]();
      expect(read(json).runs, kind).toHaveLength(json.runs.length);
    }
  }, 30_000);

  it('keeps missing numbers missing, and never makes them 0', () => {
    const run = read({ format: 1, runs: [{ name: 'a', epochs: [{ epoch: 0, training_error: null, loss: 'x', metrics: { nmi: null, 'recall@1': 0.5 } }] }] }).runs[0];
    expect(run.epochs[0]).toMatchObject({ training_error: null, kappa: null, loss: null, metrics: { 'recall@1': 0.5 }, mining: null, distances: null });
    expect('nmi' in run.epochs[0].metrics!).toBe(false);
    expect(run).toMatchObject({ target_error: null, epochs_planned: null, paper: null, map: null, triplets: null, gallery: null, finished: false });
  });

  it('leaves out lines that are no epochs, sorts the others, and lets a later line of an epoch count', () => {
    const run = read({ format: 1, runs: [{ name: 'a', epochs: [{ epoch: 2, loss: 1 }, 7, { loss: 3 }, { epoch: 1, loss: 5 }, { epoch: 2, loss: 4 }] }] }).runs[0];
    expect(run.epochs.map((epoch) => [epoch.epoch, epoch.loss])).toEqual([
      [1, 5],
      [2, 4],
    ]);
  });

  it('tells runs of one name apart', () => {
    const names = (runs: object[]) => read({ format: 1, runs }).runs.map((run) => run.name);
    expect(names([{ name: 'a', path: 'x/a' }, { name: 'a', path: 'y/a' }, { name: 'b', path: 'x/b' }])).toEqual(['a (x/a)', 'a (y/a)', 'b']);
    expect(names([{ name: 'a' }, { name: 'a' }, {}])).toEqual(['a', 'a #2', 'run 3']);
  });

  it('takes pictures only from the document itself, and neighbours only that exist', () => {
    const run = read(documents.bare()).runs[2];
    expect(run.map!.thumbnails!.sheets).toEqual(['']);
    expect(run.map!.neighbors).toEqual([[1], [0]]);
    expect(read({ format: 1, runs: [{ gallery: { queries: [{ image: 'https://example.invalid/a.png', results: [{ image: 'javascript:1', right: 1 }] }] } }] }).runs[0].gallery!.queries[0]).toMatchObject({
      image: null,
      correct: 0,
      results: [{ image: null, right: false }],
    });
  });

  it('shares pictures by number, and takes only numbers of pictures', () => {
    const uri = 'data:image/jpeg;base64,AAAA';
    const of = (image: unknown) => read({ format: 1, pictures: [uri, 'https://example.invalid/a.png'], runs: [{ gallery: { queries: [{ image }] } }] }).runs[0].gallery!.queries[0].image;
    expect([of(0), of(1), of(2), of(-1), of(0.5), of(uri), of(null)]).toEqual([uri, null, null, null, null, uri, null]);
  });

  it('reads what was chosen, whatever it tells of it', () => {
    const of = (choice: unknown) => read({ format: 1, runs: [{ choice }] }).runs[0].choice;
    expect(of({ summary: 's', trials: [{ name: 'a', settings: { rate: 0.1, list: [1] }, epochs: 3, 'recall@1': 0.5, note: 'x' }, 5], chosen: { rate: 0.1 }, kept: { epoch: 2, reason: 'r', evaluated_on: 'test', metrics: { 'recall@1': 0.6 } } })).toEqual({
      summary: 's',
      trials: [
        { name: 'a', settings: { rate: 0.1, list: '[1]' }, values: { epochs: 3, 'recall@1': 0.5 } },
        { name: 'trial 2', settings: {}, values: {} },
      ],
      chosen: { rate: 0.1 },
      start: null,
      interpolations: [],
      held_out_classes: null,
      held_out_images: null,
      own_split: false,
      seconds: null,
      kept: { epoch: 2, reason: 'r', evaluated_on: 'test', metrics: { 'recall@1': 0.6 } },
    });
    expect([of(null), of([1])]).toEqual([null, null]);
    expect(of({})).toMatchObject({ summary: '', trials: [], chosen: {}, start: null, kept: null });
    expect(of({ untrained: { 'recall@1': 0.4 } })!.start).toEqual({ 'recall@1': 0.4 }); // what earlier runs call it
    expect(of({ start: { 'recall@1': 0.5, note: 'x' }, interpolations: [{ share: 0.5, 'map@r': 0.1 }, 3], held_out_classes: 7 })).toMatchObject({
      start: { 'recall@1': 0.5 },
      interpolations: [{ share: 0.5, 'map@r': 0.1 }, {}],
      held_out_classes: 7,
    });
  });

  it('reloads only after a time that is one', () => {
    expect(read({ format: 1, refresh_seconds: 10 }).refresh_seconds).toBe(10);
    for (const value of [0, -3, null, '5']) expect(read({ format: 1, refresh_seconds: value }).refresh_seconds).toBeNull();
  });
});

describe('filling the form', () => {
  const form = '<p><script id="report-data" type="application/json">null</script></p>';

  it('lets no name end the element, and changes no text', () => {
    const json = JSON.stringify({ name: '</script><!-- $& $1 "quoted"' });
    const page = fill(form, json);
    expect(page.match(/<\/script>/g)).toHaveLength(1);
    expect(JSON.parse(page.slice(page.indexOf('json">') + 6, page.indexOf('</script>')))).toEqual(JSON.parse(json));
  });

  it('refuses a form without its one place', () => {
    expect(() => fill('<p></p>', '{}')).toThrow('exactly one place');
    expect(() => fill(form + form, '{}')).toThrow('exactly one place');
  });
});
