import { defineConfig } from '@playwright/test';

// One server a file of tests, one worker: a test looks at what a real scheduler does with real jobs.
export default defineConfig({
  testDir: 'tests',
  workers: 1,
  timeout: 600_000,
  expect: { timeout: Number(process.env.COMB_PATIENCE ?? 60) * 1000 },
  reporter: [['list']],
  outputDir: 'test-results',
  use: {
    viewport: { width: 1440, height: 900 },
    actionTimeout: Number(process.env.COMB_PATIENCE ?? 60) * 1000,
    trace: process.env.COMB_TRACE ? 'retain-on-failure' : 'off', // taking it costs more than the tests
    launchOptions: {
      executablePath: process.env.COMB_CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    },
  },
});
