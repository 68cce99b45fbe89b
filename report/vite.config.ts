import { defineConfig, type Plugin } from 'vite';

// Puts the one script and the one style sheet into the page, so that it opens anywhere without a network.
function singleFile(): Plugin {
  return {
    name: 'single-file',
    enforce: 'post',
    generateBundle(_options, bundle) {
      const page = bundle['index.html'];
      if (page?.type !== 'asset') throw new Error('vite gave no index.html');
      let html = String(page.source);
      for (const [name, part] of Object.entries(bundle)) {
        if (part.type === 'chunk') {
          // A classic script at the end of the body: it runs once the data before it has been read.
          const code = part.code.replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
          html = html.replace(new RegExp(`\\s*<script[^>]*src="[^"]*${part.fileName}"[^>]*></script>`), '');
          html = html.replace('</body>', () => `<script>${code}</script>\n</body>`);
        } else if (name.endsWith('.css')) {
          html = html.replace(new RegExp(`<link[^>]*href="[^"]*${part.fileName}"[^>]*>`), () => `<style>${part.source}</style>`);
        } else {
          continue;
        }
        delete bundle[name];
      }
      const slots = html.split('<script id="report-data" type="application/json">null</script>').length - 1;
      if (slots !== 1) throw new Error(`the page has ${slots} places for its data instead of one`);
      if (/<(script|link)[^>]*(src|href)=/.test(html)) throw new Error('the page still refers to another file');
      page.source = html;
    },
  };
}

export default defineConfig({
  base: './',
  plugins: [singleFile()],
  build: {
    outDir: process.env.SMARTMINE_REPORT_OUT ?? 'dist',
    target: 'es2020',
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    cssCodeSplit: false,
    modulePreload: false,
    chunkSizeWarningLimit: 1000,
    rollupOptions: { output: { format: 'iife', inlineDynamicImports: true } },
  },
});
