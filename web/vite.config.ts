import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';
import { variables } from './src/theme/variables.ts';

const sheet = 'virtual:variables.css';

// The toolkit's variables are worked out here, and not in each browser that opens a page.
const worked: Plugin = {
  name: 'variables',
  resolveId: (id) => (id === sheet ? `\0${sheet}` : null),
  load: (id) => (id === `\0${sheet}` ? variables() : null),
};

// What a page begins with is one file, and what several others have of the portal's own is another: as two dozen small ones it
// would cost a first load more than all their bytes do.
const groups = [
  { name: 'first', tags: ['$initial' as const] },
  { name: 'shared', test: /web\/src\//, minShareCount: 2 },
];

// Chromium makes the functions of a file that begins so ready beside the page's own thread, while the file comes; else it does so
// one by one when they are called, on that thread. Nearly all of the first file is called at once. It has to be the first line,
// above what Vite writes there.
const ready: Plugin = {
  name: 'ready',
  generateBundle: {
    order: 'post',
    handler: (_, files) => {
      for (const f of Object.values(files)) if (f.type === 'chunk' && f.isEntry) f.code = `//# allFunctionsCalledOnLoad\n${f.code}`;
    },
  },
};

// What is built here is committed: the Go binary carries it, and CI compares it byte for byte.
export default defineConfig({
  plugins: [react(), worked, ready],
  html: { cspNonce: 'NONCE_OF_THE_ANSWER' },
  build: {
    outDir: '../internal/api/portal/dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    modulePreload: { polyfill: false },
    rolldownOptions: { output: { codeSplitting: { groups } } },
  },
  worker: { format: 'es' },
  server: { proxy: { '/api': 'http://127.0.0.1:8420' } },
});
