// Puts a document into the page: node fill.mjs template.html data.json out.html
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const kSlot = '<script id="report-data" type="application/json">null</script>';

export function fill(template, json) {
  if (template.split(kSlot).length !== 2) throw new Error('the template must have exactly one place for the data');
  // No name or class can end the element: JSON needs '<' only inside strings.
  return template.replace(kSlot, () => kSlot.replace('null', () => json.replace(/</g, '\\u003c')));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [template, data, out] = process.argv.slice(2);
  if (!out) {
    console.error('usage: node fill.mjs template.html data.json out.html');
    process.exit(2);
  }
  writeFileSync(out, fill(readFileSync(template, 'utf8'), readFileSync(data, 'utf8').trim()));
}
