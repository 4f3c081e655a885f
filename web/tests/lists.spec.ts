import { expect, test } from '@playwright/test';
import { accessible } from './axe';
import { job, served } from './server';

const server = served();

test('more jobs than a page has: it says so, for itself and for its order, and the older ones follow', async ({ page }) => {
  await server.submit(job('holds', { gpus: 2, priority: 'crit' }));
  for (let i = 0; i < 104; i++) await server.submit(job(`waits-${i}`, { gpus: i < 4 ? 1 : 2 }));
  await page.setViewportSize({ width: 1600, height: 900 }); // which has room for all columns
  await server.signIn(page, 'carol', '/jobs');
  const rows = page.getByRole('table', { name: /^Jobs/ }).getByRole('row');
  await expect(rows).toHaveCount(101); // with the head
  await expect(page.getByText('100 jobs on this page; there are more')).toBeVisible();
  await page.getByRole('columnheader', { name: 'Waited' }).getByRole('button').click();
  await expect(page.getByText('100 jobs on this page; there are more · only this page is in this order')).toBeVisible();
  // Chosen jobs of a page that is left are not stopped with those of the next.
  await page.getByLabel('Select admin~waits-50').check();
  await expect(page.getByRole('button', { name: 'Stop 1 job' })).toBeVisible();
  await page.getByRole('button', { name: 'Older' }).click();
  await expect(rows).toHaveCount(6);
  await expect(page.getByRole('button', { name: 'Stop 1 job' })).toHaveCount(0);
  await expect(page.getByText('5 jobs on this page; there are more')).toBeVisible();
  await accessible(page);
  await page.getByRole('button', { name: 'Newest' }).click();
  await expect(rows).toHaveCount(101);
});

test('an order over all pages', async ({ page }) => {
  await server.submit(job('a-first', { gpus: 2, priority: 'crit' }));
  for (let i = 0; i < 102; i++) await server.submit(job(`m-${String(i).padStart(3, '0')}`, { gpus: 2 }));
  await server.submit(job('z-last', { gpus: 1 }));
  await server.signIn(page, 'carol', '/jobs?state=Waiting&name=-');
  const rows = page.getByRole('table', { name: /^Jobs/ }).getByRole('row');
  await expect(rows).toHaveCount(101);
  const head = (name: string) => page.getByRole('columnheader', { name }).getByRole('button');
  await head('Name').click();
  await expect(page.getByText('all pages are in this order')).toBeVisible();
  await expect(rows.nth(1)).toContainText('m-000');
  await expect(rows.nth(100)).toContainText('m-099');
  await page.getByRole('button', { name: 'Next page' }).click();
  await expect(rows.nth(1)).toContainText('m-100');
  await expect(rows.last()).toContainText('z-last');
  // The other way begins at the other end.
  await head('Name').click();
  await expect(rows.nth(1)).toContainText('z-last');
  await expect(rows.nth(2)).toContainText('m-101');
  await head('GPUs').click();
  await expect(rows.nth(1)).toContainText('z-last');
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByRole('button', { name: 'First page' }).click();
  await expect(rows.nth(1)).toContainText('z-last');
});

test('what a list shows by the room that there is', async ({ page }) => {
  await server.submit(job('room-a', { gpus: 2 }));
  await server.submit(job('room-b', { gpus: 2 }));
  await server.signIn(page, 'carol', '/jobs?name=room-');
  const table = page.getByRole('table', { name: /^Jobs/ });
  const heads = ['User', 'Waited', 'Ran'];
  const shown = async () => {
    const all = await table.getByRole('columnheader').allInnerTexts();
    return heads.filter((h) => all.some((one) => one.trim() === h));
  };
  const row = table.getByRole('row').filter({ hasText: 'admin~room-b' });
  await expect(row).toContainText(/within 1\d min/); // no column grows after this
  const why = row.getByText('default: 0 of 2 GPUs free');
  for (const [width, want] of [[1600, heads], [1500, ['User', 'Waited']], [1440, ['User']], [1280, []]] as const) {
    await page.setViewportSize({ width, height: 900 });
    await expect.poll(shown).toEqual(want);
    await expect(why).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth)).toBe(true);
    if (width > 1280) expect(await why.evaluate((e) => (e.closest('td')?.scrollWidth ?? 1) <= (e.closest('td')?.clientWidth ?? 0))).toBe(true); // all of it is seen
  }
});

test('several jobs are stopped at once, those alone that were chosen and are shown', async ({ page }) => {
  const ids: number[] = [];
  for (let i = 0; i < 6; i++) ids.push(((await server.submit(job(`many-${i}`, { gpus: i < 2 ? 1 : 2 }))) as { id: number }).id);
  await server.signIn(page, 'carol', '/jobs?name=many-');
  const row = (i: number) => page.getByRole('table').getByRole('row').filter({ has: page.getByRole('link', { name: `admin~many-${i}`, exact: true }) });
  await expect(row(0)).toContainText('Running');
  for (const i of [0, 2, 4, 5]) await page.getByLabel(`Select admin~many-${i}`).check();
  // What a filter takes out of sight is not stopped with the rest.
  await page.getByLabel('Search by name').fill('many-5');
  await expect(page.getByRole('button', { name: 'Stop 1 job' })).toBeVisible();
  await page.getByLabel('Search by name').fill('many-');
  await page.getByLabel('Select admin~many-5').uncheck();
  await page.getByRole('button', { name: 'Stop 3 jobs' }).click();
  const ask = page.getByRole('dialog', { name: 'Stop these 3 jobs?' });
  await accessible(page);
  await ask.getByRole('button', { name: 'Cancel' }).click();
  await expect(row(0)).toContainText('Running');
  await page.getByRole('button', { name: 'Stop 3 jobs' }).click();
  await ask.getByRole('button', { name: 'Stop 3 jobs' }).click();
  await expect(ask).toHaveCount(0);
  for (const i of [0, 2, 4]) {
    await expect(row(i)).toContainText('Stopped');
    await expect(page.getByLabel(`Select admin~many-${i}`)).toBeDisabled();
  }
  for (const i of [1, 3, 5]) await expect(row(i)).toContainText(/Running|Waiting/);
  await expect(page.getByRole('button', { name: /^Stop \d/ })).toHaveCount(0);

  // All of a page by one box; one that has ended meanwhile keeps the others from nothing.
  await page.getByLabel('Select all jobs of this page').check();
  await page.getByRole('button', { name: 'Stop 3 jobs' }).click();
  await server.api('POST', `/jobs/${ids[3]}/stop`, {});
  await page.getByRole('dialog').getByRole('button', { name: /^Stop/ }).click();
  for (const i of [1, 3, 5]) await expect(row(i)).toContainText('Stopped');
  await expect(page.getByRole('dialog')).toHaveCount(0);
});

test('jobs of others are no user’s to choose', async ({ page }) => {
  await server.submit(job('of-admin'));
  await server.signIn(page, 'alice', '/jobs');
  await expect(page.getByLabel('Select admin~of-admin')).toBeDisabled();
  await expect(page.getByLabel('Select all jobs of this page')).toBeDisabled();
});
