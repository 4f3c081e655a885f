import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

// The figures of make bench-web: printed, not judged.
export default defineConfig({ ...tests, testDir: 'bench', testMatch: '*.figures.ts', timeout: 900_000 });
