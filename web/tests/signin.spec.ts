import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { Provider } from './provider';
import { job, Server } from './server';

const server = new Server();
const provider = new Provider('dora');

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const s = createServer().listen(0, '127.0.0.1', () => {
      const at = s.address();
      s.close(() => resolve(typeof at === 'object' && at !== null ? at.port : 0));
    });
  });
}

test.beforeAll(async () => {
  await provider.start();
  const port = await freePort();
  const file = join(mkdtempSync(join(tmpdir(), 'comb-oidc-')), 'oidc.yaml');
  writeFileSync(file, `issuer: ${provider.issuer}\nclientID: comb\naddress: http://127.0.0.1:${port}\ntitle: House of Keys\n`);
  await server.start(undefined, ['--oidc', file, '--listen', `127.0.0.1:${port}`]);
});

test.afterAll(async () => {
  await server.stop();
  provider.stop();
});

test('the first administrator comes by the code that the server printed', async ({ page }) => {
  const said = silent(page);
  await page.goto(`${server.url}/nodes?by=job`);
  await expect(page.getByRole('heading', { name: 'The first administrator' })).toBeVisible();
  await accessible(page);
  await page.getByLabel('Code').fill('aaaaa-bbbbb-ccccc-ddddd');
  await page.getByLabel('User name').fill('carol');
  await page.getByLabel('New password').fill(server.password);
  await page.getByRole('button', { name: 'Create the administrator' }).click();
  await expect(page.getByRole('alert')).toContainText('code');
  await expect(page.getByLabel('User name')).toHaveValue('carol');
  const code = /the code ([a-z0-9-]{20,})/.exec(server.said)?.[1] ?? '';
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Create the administrator' }).click();
  // It is signed in, at the page that was asked for.
  await expect(page.getByRole('heading', { name: 'Nodes' })).toBeVisible();
  await expect(page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Configuration' })).toBeVisible();
  expect(page.url()).toContain('/nodes?by=job');
  expect(said).toEqual([]);
});

test('a user of the provider signs in by a button, and comes back to the page', async ({ page }) => {
  await page.goto(`${server.url}/jobs?state=Waiting`);
  await expect(page.getByRole('heading', { name: 'Sign in' })).toBeVisible();
  await accessible(page);
  await page.getByRole('link', { name: 'Sign in with House of Keys' }).click();
  await expect(page.getByRole('navigation', { name: 'Pages' })).toBeVisible();
  expect(page.url()).toContain('/jobs?state=Waiting');
  await expect(page.getByText('dora', { exact: true })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Configuration' })).toHaveCount(0);
});

test('a session that ends by the provider goes on by another tab, with the text typed', async ({ page, context }) => {
  await page.goto(`${server.url}/tokens`);
  await page.getByRole('link', { name: 'Sign in with House of Keys' }).click();
  await page.getByRole('button', { name: 'Create a token' }).click();
  await page.getByLabel('Name').fill('typed-before');
  await context.clearCookies();
  const over = page.getByRole('dialog', { name: 'Your session is over' });
  await page.getByRole('dialog', { name: 'Create a token' }).getByRole('button', { name: 'Create a token' }).click();
  await expect(over).toBeVisible();
  const [other] = await Promise.all([context.waitForEvent('page'), over.getByRole('link', { name: 'Sign in with House of Keys' }).click()]);
  await expect(other.getByRole('navigation', { name: 'Pages' })).toBeVisible();
  // What was asked for when the session ended is done now.
  await expect(over).toBeHidden();
  await expect(page.getByText('The token is shown only once').first()).toBeVisible();
});

test('a followed log asks nothing while the session is over, and goes on', async ({ page, context }) => {
  await server.api('POST', '/users', { users: [{ name: 'gina', administrator: true, password: server.password }] });
  const made = (await server.submit(job('talks', { command: `'for i in $(seq 300); do echo "line $i"; sleep 0.2; done'` }))) as { id: number };
  await server.signIn(page, 'gina', `/jobs/${made.id}?tab=log`);
  await expect(page.getByRole('log')).toContainText('line 3');
  let asked = 0;
  page.on('request', (r) => {
    if (r.url().includes('/logs?')) asked++;
  });
  await context.clearCookies();
  await server.kill();
  await server.start(); // which breaks the connection of the log
  const over = page.getByRole('dialog', { name: 'Your session is over' });
  await expect(over).toBeVisible();
  await page.waitForTimeout(3000);
  const before = asked;
  await page.waitForTimeout(3000);
  expect(asked).toBe(before);
  await over.getByLabel('Password', { exact: true }).fill(server.password);
  await over.getByRole('button', { name: 'Sign in' }).click();
  await expect(over).toBeHidden();
  await expect(page.getByRole('log')).toContainText('line 60');
});
