import { expect, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, Server } from './server';

const server = new Server();

test.beforeAll(async () => {
  await server.start();
  await server.people();
});

test.afterAll(() => server.stop());

test('sign in, submit by the form, see the job wait and why, read its log', async ({ page }) => {
  const said = silent(page);
  await page.goto(`${server.url}/submit`);
  await page.getByLabel('User name').fill('alice');
  await page.getByLabel('Password', { exact: true }).fill('not the password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('alert')).toContainText('password');
  await accessible(page);
  await page.getByLabel('Password', { exact: true }).fill(server.password);
  await page.getByRole('button', { name: 'Sign in' }).click();

  // The first takes both GPUs of its node.
  await page.getByLabel('Name', { exact: true }).fill('first');
  await page.getByLabel('GPUs per task').fill('2');
  await page.getByLabel('Commands').fill('for i in $(seq 3); do echo "line $i of first"; done\nsleep 600');
  const verdict = page.getByRole('region', { name: 'What will happen' });
  await expect(verdict).toContainText('Starts now');
  await expect(verdict).toContainText('Guaranteed: it gets cells of VC default');
  await expect(page.getByLabel('Job file (YAML)').last()).toContainText('gpu: 2');
  await accessible(page);
  await page.getByRole('button', { name: 'Submit' }).click();
  await expect(page.getByRole('heading', { name: 'first' })).toBeVisible();
  await expect(page.locator('header').getByText('Running')).toBeVisible();
  await accessible(page);

  await page.getByRole('navigation', { name: 'Parts of the job' }).getByRole('link', { name: 'Log' }).click();
  await expect(page.getByRole('log')).toContainText('line 3 of first');
  await accessible(page);

  // The second waits for it, and says so.
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await page.getByLabel('Name', { exact: true }).fill('second');
  await expect(verdict).toContainText('Waits');
  await page.getByRole('button', { name: 'Submit' }).click();
  const why = page.getByRole('region', { name: 'Why it waits' });
  await expect(why).toContainText('VCBusy');
  await expect(why.getByRole('table', { name: 'In the way' })).toContainText('first');
  await expect(why).toContainText('1st of 1 job');
  await accessible(page);

  // When the first is stopped, the second starts without a reload.
  await why.getByRole('link', { name: 'first' }).click();
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click();
  await expect(page.locator('header').getByText('Stopped')).toBeVisible();
  await page.getByRole('link', { name: 'Jobs', exact: true }).click();
  await expect(page.getByRole('row').filter({ hasText: 'second' })).toContainText('Running');
  await accessible(page);
  await page.getByRole('link', { name: 'Home', exact: true }).click();
  await expect(page.getByRole('list', { name: 'My jobs by state' })).toContainText('1');
  await accessible(page);
  expect(said).toEqual([]);
});

test('an editor marks what the server refuses, and form and file change each other', async ({ page }) => {
  await server.signIn(page, 'alice', '/submit');
  const editor = page.getByRole('textbox', { name: 'Job file (YAML)' });
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(job('marked').replace('type: job', '# kept\ntype: job\nspeed: 3'));
  const verdict = page.getByRole('region', { name: 'What will happen' });
  await expect(verdict).toContainText('1 mistake');
  await expect(verdict).toContainText('line 5');
  await expect(page.locator('.cm-lint-marker-error')).toHaveCount(1);
  await page.getByLabel('Name', { exact: true }).fill('renamed');
  await expect(editor).toContainText('name: renamed');
  await expect(editor).toContainText('# kept');
  await page.reload();
  await expect(page.getByLabel('Name', { exact: true })).toHaveValue('renamed');
});

test('a foreign job does not exist, and nothing of it is sent', async ({ page }) => {
  const made = (await server.submit(job('hidden-name-of-carol'))) as { id: number };
  const bodies: Promise<string>[] = [];
  page.on('response', (r) => {
    if (r.url().includes('/api/v1/') && !r.url().includes('/events')) bodies.push(r.text().catch(() => ''));
  });
  await server.signIn(page, 'bob', `/jobs/${made.id}`);
  await expect(page.getByRole('alert')).toContainText('you may not see it');
  await page.getByRole('link', { name: 'Jobs', exact: true }).click();
  await expect(page.getByText('No jobs yet')).toBeVisible();
  await page.getByRole('link', { name: 'Virtual clusters' }).click();
  await expect(page.getByRole('link', { name: 'vc1' })).toBeVisible();
  expect((await Promise.all(bodies)).join('\n')).not.toContain('hidden-name-of-carol');
});

test('a killed server: a banner, and live again when it is back', async ({ page }) => {
  await server.signIn(page, 'alice', '/submit');
  await page.getByLabel('Name', { exact: true }).fill('typed-before-the-kill');
  await server.kill();
  await expect(page.getByText('The server does not answer. This page shows')).toBeVisible();
  await server.start();
  await expect(page.getByText('The server does not answer. This page shows')).toBeHidden();
  await expect(page.getByLabel('Name', { exact: true })).toHaveValue('typed-before-the-kill');
  await expect(page.getByRole('region', { name: 'What will happen' })).toContainText(/Starts now|Waits/);
});

test('a session that is over asks for the password above the page', async ({ page }) => {
  await server.signIn(page, 'alice', '/submit');
  await page.getByLabel('Name', { exact: true }).fill('typed-before-the-end');
  await page.context().clearCookies();
  const dialog = page.getByRole('dialog', { name: 'Your session is over' });
  await page.getByLabel('GPUs per task').fill('1');
  await expect(dialog).toBeVisible();
  await dialog.getByLabel('Password', { exact: true }).fill(server.password);
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByLabel('Name', { exact: true })).toHaveValue('typed-before-the-end');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible();
  expect(await page.evaluate(() => sessionStorage.getItem('comb-draft'))).toBeNull();
});
