import type { EmbeddingMap } from '../data';
import { h } from '../dom';

/// A picture of the data, or a plain tile where there is none.
export function picture(source: string | null, name: string, className = 'picture'): HTMLElement {
  if (!source) return h(`span.${className}.no-picture`, { role: 'img', 'aria-label': `${name || 'image'}: no picture`, title: name }, h('span', {}, 'no picture'));
  return h(`img.${className}`, { src: source, alt: name, title: name, decoding: 'async' });
}

/// Right or wrong, by sign and word as well as by colour.
export function mark(right: boolean): HTMLElement {
  return h(`span.mark.${right ? 'right' : 'wrong'}`, { role: 'img', 'aria-label': right ? 'right class' : 'wrong class' }, right ? '✓' : '✗');
}

/// The sheets of a map's thumbnails, decoded when first asked for.
export class Sheets {
  private images: (HTMLImageElement | null)[] = [];
  private waiting: Promise<void> | null = null;

  constructor(private readonly map: EmbeddingMap) {}

  get exist(): boolean {
    return this.map.thumbnails !== null;
  }

  load(): Promise<void> {
    if (!this.waiting) {
      const sheets = this.map.thumbnails?.sheets ?? [];
      this.waiting = Promise.all(
        sheets.map(async (source, i) => {
          const image = new Image();
          image.src = source;
          try {
            await image.decode();
            this.images[i] = image;
          } catch {
            this.images[i] = null;
          }
        }),
      ).then(() => undefined);
    }
    return this.waiting;
  }

  /// False: there is no such picture (yet).
  draw(context: CanvasRenderingContext2D, id: number, x: number, y: number, size: number): boolean {
    const thumbnails = this.map.thumbnails;
    if (!thumbnails) return false;
    const image = this.images[Math.floor(id / thumbnails.per_sheet)];
    if (!image) return false;
    const at = id % thumbnails.per_sheet;
    const left = (at % thumbnails.columns) * thumbnails.size;
    const top = Math.floor(at / thumbnails.columns) * thumbnails.size;
    if (left + thumbnails.size > image.width || top + thumbnails.size > image.height) return false;
    context.drawImage(image, left, top, thumbnails.size, thumbnails.size, x, y, size, size);
    return true;
  }

  element(id: number, name: string, size: number): HTMLElement {
    if (!this.exist) return picture(null, name);
    const scale = Math.min(2, window.devicePixelRatio || 1);
    const canvas = h('canvas.picture', { width: size * scale, height: size * scale, role: 'img', 'aria-label': name, title: name });
    void this.load().then(() => {
      const context = canvas.getContext('2d');
      if (context) this.draw(context, id, 0, 0, size * scale);
    });
    return canvas;
  }
}
