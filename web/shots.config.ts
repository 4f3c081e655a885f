import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

// Pictures of the portal's pages, for eyes: make shots-web.
export default defineConfig({ ...tests, testDir: 'bench', testMatch: '*.shots.ts' });
