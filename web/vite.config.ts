import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// What is built here is committed: the Go binary carries it, and CI compares it byte for byte.
export default defineConfig({
  plugins: [react()],
  html: { cspNonce: 'NONCE_OF_THE_ANSWER' },
  build: {
    outDir: '../internal/portal/dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    modulePreload: { polyfill: false },
    // What several pages have of the portal's own is one file: as two dozen small ones it would cost a first load more than all
    // their bytes do.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'shared', test: /web\/src\//, minShareCount: 2 }] } } },
  },
  worker: { format: 'es' },
  server: { proxy: { '/api': 'http://127.0.0.1:8420' } },
});
