import { expect, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, served } from './server';

const server = served();

test('a dialog gives the keyboard back to what opened it, or to the page where that is gone', async ({ page }) => {
  const made = (await server.submit(job('asked'))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}`);
  const dialog = page.getByRole('dialog');
  for (const [path, name] of [[`/jobs/${made.id}`, 'Stop'], [`/jobs/${made.id}`, 'Requeue'], ['/users', 'UID: bob'], ['/users', 'Create users'], ['/tokens', 'Create a token'], ['/nodes?node=node-a', 'Drain']] as const) {
    await page.goto(server.url + path);
    const button = page.getByRole('button', { name, exact: true });
    await button.focus();
    await page.keyboard.press('Enter');
    await expect(dialog).toBeVisible();
    await expect(dialog.locator(':focus')).toHaveCount(1);
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
    await expect(button, name).toBeFocused();
  }
  // A dialog that another one follows gives it back to what opened the first.
  await page.goto(`${server.url}/tokens`);
  await page.getByRole('button', { name: 'Create a token' }).click();
  await dialog.getByLabel('Name').fill('keyboard');
  await page.keyboard.press('Enter');
  await expect(dialog.getByRole('button', { name: 'Copy' })).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('button', { name: 'Create a token' })).toBeFocused();
  // What opened it is gone: the page has the keyboard.
  await page.goto(`${server.url}/jobs`);
  await page.getByLabel('Select admin~asked').check();
  await page.getByRole('button', { name: 'Stop 1 job' }).click();
  await dialog.getByRole('button', { name: 'Stop 1 job' }).click();
  await expect(dialog).toHaveCount(0);
  await expect(page.locator('#content')).toBeFocused();
});

test('a dialog that ends something begins at Cancel: Enter twice ends nothing', async ({ page }) => {
  const made = (await server.submit(job('goes-on'))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}`);
  const dialog = page.getByRole('dialog');
  for (const [path, name] of [[`/jobs/${made.id}`, 'Stop'], ['/users', 'Delete: bob'], ['/users', 'Block: bob']] as const) {
    await page.goto(server.url + path);
    await page.getByRole('button', { name, exact: true }).focus();
    await page.keyboard.press('Enter');
    await expect(dialog.getByRole('button', { name: 'Cancel' })).toBeFocused();
    await page.keyboard.press('Enter');
    await expect(dialog).toHaveCount(0);
  }
  await expect(page.getByRole('row').filter({ hasText: 'bob' }).first()).not.toContainText('Blocked');
  expect(((await server.api('GET', `/jobs/${made.id}`)) as { phase: string; stopping?: boolean }).stopping ?? false).toBe(false);
});

test('what is stopped together is named, the first ten', async ({ page }) => {
  for (let i = 0; i < 12; i++) await server.submit(job(`named-${String(i).padStart(2, '0')}`, { gpus: 2 }));
  await server.signIn(page, 'carol', '/jobs?name=named-&sort=name');
  await page.getByLabel('Select all jobs of this page').check();
  await page.getByRole('button', { name: 'Stop 12 jobs' }).click();
  const named = page.getByRole('dialog').getByRole('list', { name: 'Jobs to stop' }).getByRole('listitem');
  await expect(named).toHaveText([...Array.from({ length: 10 }, (_, i) => `admin~named-0${i}`), 'and 2 more jobs']);
  await accessible(page);
});

test('a token: a name is asked for, it is for some virtual clusters alone, and all of it is shown and copied', async ({ page, context }) => {
  const said = silent(page);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await server.signIn(page, 'carol', '/tokens');
  await page.getByRole('button', { name: 'Create a token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Create a token' }).click();
  await expect(dialog.getByRole('alert')).toContainText('A token needs a name');
  await dialog.getByLabel('Name').fill('of-vc1');
  await dialog.getByRole('combobox', { name: 'Virtual clusters' }).click();
  await page.getByRole('option', { name: 'vc1' }).click();
  await page.keyboard.press('Tab');
  await accessible(page);
  await dialog.getByRole('button', { name: 'Create a token' }).click();
  const secret = dialog.locator('pre');
  await expect(secret).toContainText(/^comb_/);
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 844 });
    expect(await secret.evaluate((e) => e.scrollWidth <= e.clientWidth)).toBe(true); // nothing is cut off
  }
  expect(await dialog.getByText('--token-file').evaluate((e) => e.getClientRects().length)).toBe(1); // in one line
  await expect(dialog.getByRole('button', { name: 'Cancel' })).toHaveCount(0);
  await accessible(page);
  await dialog.getByRole('button', { name: 'Copy' }).click();
  await expect(dialog.getByRole('status')).toHaveText('Copied');
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(await secret.textContent());
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await page.setViewportSize({ width: 1440, height: 900 });
  const row = page.getByRole('row').filter({ hasText: 'of-vc1' });
  await expect(row).toContainText('only vc1');
  await expect(row).toContainText(/\d s ago/);
  expect(said).toEqual([]);
});

test('without a clipboard for scripts, as over plain HTTP, what is selected is copied', async ({ page, context }) => {
  await context.grantPermissions(['clipboard-read']);
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined }));
  await server.signIn(page, 'alice', '/tokens');
  await page.getByRole('button', { name: 'Create a token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('plain');
  await dialog.getByRole('button', { name: 'Create a token' }).click();
  await dialog.getByRole('button', { name: 'Copy' }).click();
  await expect(dialog.getByRole('status')).toHaveText('Copied');
  expect(await page.evaluate(() => getSelection()?.toString())).toBe(await dialog.locator('pre').textContent());
});

test('who blocks, deletes or renews the own account is told so', async ({ page }) => {
  await server.signIn(page, 'carol', '/users');
  const dialog = page.getByRole('dialog');
  for (const [act, title] of [['Block', 'Block yourself?'], ['Delete', 'Delete yourself?'], ['New password', 'Give yourself a new password?']] as const) {
    await page.getByRole('button', { name: `${act}: carol` }).click();
    await expect(dialog).toContainText(title);
    await expect(dialog).toContainText('this session too');
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
  }
  await page.getByRole('button', { name: 'Block: bob' }).click();
  await expect(dialog).toContainText('Block bob?');
});

test('what may be done with a user is seen, however long the names', async ({ page }) => {
  const display = 'Wolfeschlegelsteinhausenbergerdorff Hubert Blaine';
  await server.api('POST', '/users', { users: [{ name: 'long', display, email: 'wolfeschlegelsteinhausenbergerdorff@a-long-domain.example.org', groups: ['vision', 'speech'], password: server.password }] });
  await server.signIn(page, 'carol', '/users');
  for (const width of [1440, 1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await page.getByRole('button', { name: 'Delete: long' }).scrollIntoViewIfNeeded();
    await expect(page.getByRole('button', { name: 'Delete: long' })).toBeInViewport({ ratio: 1 });
    const groups = page.getByRole('table', { name: 'Users' }).getByTitle('speech, vision').or(page.getByRole('table', { name: 'Users' }).getByTitle('vision, speech'));
    expect(await groups.evaluate((e) => (e.closest('td')?.scrollWidth ?? 1) <= (e.closest('td')?.clientWidth ?? 0)), `groups at ${width}`).toBe(true);
  }
  await accessible(page);
  await server.api('DELETE', '/users/long');
});
