import { defineConfig } from '@playwright/test';

// Each file of tests has a server of its own, so files go side by side; a test looks at what a real scheduler does with
// real jobs.
export default defineConfig({
  testDir: 'tests',
  workers: Number(process.env.COMB_WORKERS ?? 2),
  timeout: 600_000,
  expect: { timeout: Number(process.env.COMB_PATIENCE ?? 180) * 1000 },
  reporter: [['list']],
  outputDir: 'test-results',
  use: {
    viewport: { width: 1440, height: 900 },
    actionTimeout: Number(process.env.COMB_PATIENCE ?? 180) * 1000,
    trace: process.env.COMB_TRACE ? 'retain-on-failure' : 'off', // taking it costs more than the tests
    launchOptions: {
      executablePath: process.env.COMB_CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    },
  },
});
