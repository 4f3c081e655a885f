import { expect, test } from '@playwright/test';
import { accessible } from './axe';
import { job, Server } from './server';

const server = new Server();

test.beforeAll(async () => {
  await server.start();
  await server.people();
});

test.afterAll(() => server.stop());

test('more jobs than a page has: it says so, for itself and for its order, and the older ones follow', async ({ page }) => {
  await server.submit(job('holds', { gpus: 2, priority: 'crit' }));
  for (let i = 0; i < 104; i++) await server.submit(job(`waits-${i}`, { gpus: i < 4 ? 1 : 2 }));
  await server.signIn(page, 'carol', '/jobs');
  const rows = page.getByRole('table', { name: 'Jobs, newest first' }).getByRole('row');
  await expect(rows).toHaveCount(101); // with the head
  await expect(page.getByText('100 jobs on this page, of more')).toBeVisible();
  await page.getByRole('columnheader', { name: 'GPUs' }).getByRole('button').click();
  await expect(page.getByText('100 jobs on this page, of more · sorted within this page')).toBeVisible();
  // Chosen jobs of a page that is left are not stopped with those of the next.
  await page.getByLabel('Select admin~waits-50').check();
  await expect(page.getByRole('button', { name: 'Stop 1 job' })).toBeVisible();
  await page.getByRole('button', { name: 'Older' }).click();
  await expect(rows).toHaveCount(6);
  await expect(page.getByRole('button', { name: 'Stop 1 job' })).toHaveCount(0);
  await expect(page.getByText('5 jobs on this page, of more')).toBeVisible();
  await accessible(page);
  await page.getByRole('button', { name: 'Newest' }).click();
  await expect(rows).toHaveCount(101);
});
