import { expect, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, served } from './server';

const server = served();

test('an administrator makes users by clicking, and one of them signs in', async ({ page, browser }) => {
  const said = silent(page);
  await server.signIn(page, 'carol', '/users');
  await expect(page.getByRole('table', { name: 'Users' }).getByRole('row').filter({ hasText: 'alice' })).toContainText('vision');
  await accessible(page);
  await page.getByRole('button', { name: 'Create users' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Users', { exact: true }).fill('erin,Erin E.,erin@example.com,nobody');
  await dialog.getByRole('button', { name: 'Create users' }).click();
  await expect(dialog.getByRole('alert')).toContainText('nobody');
  await dialog.getByLabel('Users', { exact: true }).fill('erin,Erin E.,erin@example.com,vision');
  await dialog.getByRole('button', { name: 'Create users' }).click();
  const shown = await dialog.getByLabel('New passwords').last().textContent();
  const password = /^erin {2}(\S+)$/.exec(shown ?? '')?.[1] ?? '';
  expect(password).toHaveLength(20);
  await accessible(page);
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(page.getByRole('table', { name: 'Users' }).getByRole('row').filter({ hasText: 'Erin E.' })).toBeVisible();

  const other = await (await browser.newContext()).newPage();
  await other.goto(`${server.url}/users`);
  await other.getByLabel('User name').fill('erin');
  await other.getByLabel('Password', { exact: true }).fill(password);
  await other.getByRole('button', { name: 'Sign in' }).click();
  await expect(other.getByRole('alert')).toContainText('You may not see this');
  await expect(other.getByRole('link', { name: 'Users' })).toHaveCount(0);
  await accessible(other);

  await page.getByRole('button', { name: 'Block: erin' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Block' }).click();
  await expect(page.getByRole('table', { name: 'Users' }).getByRole('row').filter({ hasText: 'Erin E.' })).toContainText('Blocked');
  await expect(other.getByRole('dialog', { name: 'Your session is over' })).toBeVisible();
  expect(said).toEqual([]);
});

test('an administrator gives a user a new password, and deletes a user', async ({ page, browser }) => {
  const said = silent(page);
  await server.api('POST', '/users', { users: [{ name: 'frank', groups: ['vision'], password: server.password }] });
  const frank = await (await browser.newContext()).newPage();
  await server.signIn(frank, 'frank', '/jobs');
  await server.signIn(page, 'carol', '/users');
  const users = page.getByRole('table', { name: 'Users' });
  const groups = page.getByRole('table', { name: 'Groups' });

  await page.getByRole('button', { name: 'New password: frank' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('Their sessions and tokens end at once');
  await accessible(page);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await frank.reload();
  await expect(frank.getByRole('heading', { name: 'Jobs' })).toBeVisible(); // nothing was done
  await page.getByRole('button', { name: 'New password: frank' }).click();
  await dialog.getByRole('button', { name: 'New password' }).click();
  const password = (await dialog.getByLabel('New passwords').last().textContent()) ?? '';
  expect(password).toMatch(/^[a-z2-9]{20}$/);
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(dialog).toHaveCount(0);
  expect(await page.locator('body').textContent()).not.toContain(password);

  // The session ends, the old password is refused, the new one goes on where the page was.
  const over = frank.getByRole('dialog', { name: 'Your session is over' });
  await expect(over).toBeVisible();
  await over.getByLabel('Password', { exact: true }).fill(server.password);
  await over.getByRole('button', { name: 'Sign in' }).click();
  await expect(over.getByRole('alert')).toContainText('password');
  await over.getByLabel('Password', { exact: true }).fill(password);
  await over.getByRole('button', { name: 'Sign in' }).click();
  await expect(over).toBeHidden();
  await expect(frank.getByRole('heading', { name: 'Jobs' })).toBeVisible();

  // Deleted: gone from users and groups, its session ends, and it cannot sign in.
  await page.getByRole('button', { name: 'Delete: frank' }).click();
  await expect(dialog).toContainText('Their jobs stay');
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await expect(users.getByRole('row').filter({ hasText: 'frank' })).toHaveCount(0);
  await expect(users.getByRole('row').filter({ hasText: 'alice' })).toHaveCount(1);
  await expect(groups).not.toContainText('frank');
  await expect(over).toBeVisible();
  await over.getByLabel('Password', { exact: true }).fill(password);
  await over.getByRole('button', { name: 'Sign in' }).click();
  await expect(over.getByRole('alert')).toBeVisible();
  expect(said).toEqual([]);
  await frank.context().close();
});

test('an administrator changes groups of a user, lets a blocked one in again, and deletes a group', async ({ page, browser }) => {
  const said = silent(page);
  await server.api('POST', '/groups', { name: 'robots' });
  await server.api('POST', '/users', { users: [{ name: 'gil', groups: ['vision'], password: server.password }] });
  await server.signIn(page, 'carol', '/users');
  const gil = page.getByRole('table', { name: 'Users' }).getByRole('row').filter({ hasText: 'gil' });
  const group = (name: string) => page.getByRole('table', { name: 'Groups' }).getByRole('row').filter({ has: page.getByRole('cell', { name, exact: true }) });
  const dialog = page.getByRole('dialog');
  await expect(group('vision')).toContainText('gil');

  await page.getByRole('button', { name: 'Groups: gil' }).click();
  await expect(dialog.getByLabel('Groups', { exact: true })).toHaveValue('vision');
  await dialog.getByLabel('Groups', { exact: true }).fill('robots, none-such');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await expect(dialog.getByRole('alert')).toContainText('none-such');
  await dialog.getByLabel('Groups', { exact: true }).fill('robots; speech');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await expect(dialog).toHaveCount(0);
  await expect(gil).toContainText('robots, speech');
  await expect(group('robots')).toContainText('gil');
  await expect(group('vision')).not.toContainText('gil');

  await page.getByRole('button', { name: 'UID: gil' }).click();
  await expect(dialog.getByLabel('UID')).toHaveValue('');
  await dialog.getByLabel('UID').fill('many');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await expect(dialog.getByRole('alert')).toContainText('many is not a number');
  await dialog.getByLabel('UID').fill('0');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await expect(dialog.getByRole('alert')).toContainText('uid');
  await dialog.getByLabel('UID').fill('4001');
  await dialog.getByLabel('GID').fill('4000');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await expect(dialog).toHaveCount(0);
  const kept = async () => ((await server.api('GET', '/users')) as { users: { name: string }[] }).users.find((u) => u.name === 'gil');
  expect(await kept()).toMatchObject({ uid: 4001, gid: 4000 });
  await page.getByRole('button', { name: 'UID: gil' }).click();
  await expect(dialog.getByLabel('UID')).toHaveValue('4001');
  await dialog.getByLabel('UID').fill('');
  await dialog.getByRole('button', { name: 'Change' }).click();
  await expect(dialog).toHaveCount(0);
  expect(await kept()).not.toHaveProperty('uid');

  await page.getByRole('button', { name: 'Block: gil', exact: true }).click();
  await dialog.getByRole('button', { name: 'Block' }).click();
  await expect(gil).toContainText('Blocked');
  await page.getByRole('button', { name: 'Unblock: gil' }).click();
  await expect(dialog).toContainText('Let gil sign in again?');
  await dialog.getByRole('button', { name: 'Unblock' }).click();
  await expect(gil).not.toContainText('Blocked');
  const other = await (await browser.newContext()).newPage();
  await server.signIn(other, 'gil', '/');
  await other.context().close();

  await page.getByRole('button', { name: 'Delete: robots' }).click();
  await expect(dialog).toContainText('Delete group robots?');
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await expect(group('robots')).toHaveCount(0);
  await expect(gil).toContainText('speech');
  await expect(gil).not.toContainText('robots');
  await expect(page.getByRole('button', { name: 'Delete: everyone' })).toHaveCount(0);
  await server.api('DELETE', '/users/gil');
  expect(said).toEqual([]);
});

test('a token is shown once and ends', async ({ page }) => {
  await server.signIn(page, 'alice', '/tokens');
  await page.getByRole('button', { name: 'Create a token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('nightly');
  await dialog.getByRole('button', { name: 'Create a token' }).click();
  await expect(dialog.locator('pre')).toContainText(/^comb_/);
  const token = (await dialog.locator('pre').textContent()) ?? '';
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  await expect(dialog).toHaveCount(0);
  const kept = await page.evaluate(() => document.documentElement.outerHTML + JSON.stringify([sessionStorage, localStorage]) + window.location.href);
  expect(kept).not.toContain(token);
  await expect(page.getByRole('row').filter({ hasText: 'nightly' })).toContainText('for a program');
  await accessible(page);
  await page.getByRole('button', { name: 'Revoke: nightly' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(page.getByRole('row').filter({ hasText: 'nightly' })).toHaveCount(0);
});

test('nodes: cells, table, what runs, cordon', async ({ page }) => {
  await server.submit(job('on-a-node'));
  await server.signIn(page, 'carol', '/nodes');
  const node = page.getByRole('button', { name: /^node-[ab] 1 \/ 2/ });
  await node.click();
  const name = ((await node.textContent()) ?? '').slice(0, 6);
  const panel = page.getByRole('complementary', { name });
  await expect(panel).toContainText('on-a-node');
  await accessible(page);
  // The same by what is bound to which virtual cluster, and by priority.
  await page.getByText('By virtual cluster', { exact: true }).click();
  await expect(page.getByRole('heading', { name: 'default', exact: true })).toBeVisible();
  await page.getByText('Priority', { exact: true }).click();
  await expect(page.getByRole('list', { name: 'Legend' })).toContainText('test (10)');
  await accessible(page);
  await panel.getByRole('button', { name: 'Cordon' }).click();
  await page.getByRole('dialog').getByLabel('Reason (users see it)').fill('a new fan');
  await page.getByRole('dialog').getByRole('button', { name: 'Cordon' }).click();
  await expect(panel).toContainText('a new fan');
  await page.getByText('Table', { exact: true }).click();
  await expect(page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: name })).toContainText('Cordoned');
  await accessible(page);
  await panel.getByRole('button', { name: 'Uncordon' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Uncordon' }).click();
  await expect(page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: name })).toContainText('In service');
  // Drained at once, what runs there leaves it, and runs on the other one.
  await panel.getByRole('button', { name: 'Drain' }).click();
  await page.getByRole('dialog').getByLabel('Deadline in minutes (0: at once)').fill('0');
  await page.getByRole('dialog').getByLabel('Reason (users see it)').fill('new memory');
  await accessible(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
  await expect(page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: name })).toContainText('Draining');
  await expect(panel).not.toContainText('on-a-node');
  await panel.getByRole('button', { name: 'Uncordon' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Uncordon' }).click();
  await expect(page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: name })).toContainText('In service');
});

test('a job is held, gets another priority, is released and requeued', async ({ page }) => {
  await server.submit(job('fills', { gpus: 2 }));
  await server.submit(job('waits', { gpus: 2 }));
  await server.signIn(page, 'carol', '/jobs');
  await page.getByRole('link', { name: /waits$/ }).first().click();
  const header = page.locator('main header');
  const ask = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Hold' }).click();
  await ask.getByLabel('Reason (users see it)').fill('no data yet');
  await accessible(page);
  await ask.getByRole('button', { name: 'Hold' }).click();
  await expect(header.getByText('Held', { exact: true })).toBeVisible();
  await expect(header).toContainText('carol: no data yet');
  await expect(page.getByRole('region', { name: 'Why it waits' })).toContainText('On hold by carol (no data yet)');
  await page.getByRole('button', { name: 'Change priority' }).click();
  await ask.getByLabel('Priority, -1 to 1000').fill('200');
  await ask.getByRole('button', { name: 'Change priority' }).click();
  await expect(header).toContainText('200');
  await page.getByRole('button', { name: 'Release' }).click();
  await ask.getByRole('button', { name: 'Release' }).click();
  await expect(header.getByText('Running')).toBeVisible();
  await accessible(page);
  await page.getByRole('button', { name: 'Requeue' }).click();
  await ask.getByLabel('Reason (users see it)').fill('a slow node');
  await ask.getByRole('button', { name: 'Requeue' }).click();
  await expect(page.getByRole('table', { name: 'Tasks' }).getByRole('row').filter({ hasText: 'Running' })).toContainText('2');
});

test('the configuration: marks, a plan, apply, somebody who was faster', async ({ page }) => {
  await server.signIn(page, 'carol', '/configuration');
  const editor = page.getByRole('textbox', { name: 'Cluster file (YAML)' });
  await expect(editor).toContainText('virtualClusters');
  await accessible(page);
  await editor.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.insertText('  vc2: {polcy: drf}\n');
  const plan = page.getByRole('region', { name: 'What would change' });
  await expect(plan).toContainText('did you mean policy');
  await page.keyboard.press('Control+z');
  await page.keyboard.insertText('  vc2: {policy: drf}\n');
  await expect(plan).toContainText('vc2');
  await accessible(page);
  await plan.getByRole('button', { name: 'Apply' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
  await expect(plan).toContainText('Edit the file to see what would change');
  await page.getByRole('link', { name: 'Virtual clusters' }).click();
  await page.getByRole('link', { name: 'vc2' }).click();
  await expect(page.getByRole('heading', { name: 'vc2' })).toBeVisible();
  await accessible(page);

  // What was applied is a version; an earlier one comes back with its plan.
  await page.goto(`${server.url}/configuration`);
  const versions = page.getByRole('table', { name: 'Versions' });
  await expect(versions.getByRole('row').filter({ hasText: 'in force' })).toContainText('carol');
  await versions.getByRole('button', { name: 'Restore version 1', exact: true }).click();
  await expect(plan).toContainText('vc2');
  await plan.getByRole('button', { name: 'Apply' }).click();
  await page.getByRole('dialog').getByLabel('Reason (kept with the version)').fill('too early');
  await accessible(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
  await expect(versions.getByRole('row').filter({ hasText: 'in force' })).toContainText('too early, version 1 restored');
});

test('hostile names and output are text', async ({ page }) => {
  const said = silent(page);
  const made = (await server.submit(job('hostile', { command: `'printf "<img src=x onerror=alert(1)> \\033[31mred\\033[0m \\033]0;title\\007 \\342\\200\\256end\\n"; sleep 600'` }))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}?tab=log`);
  await expect(page.getByRole('log')).toContainText('<img src=x onerror=alert(1)> red');
  expect(await page.getByRole('log').locator('img').count()).toBe(0);
  await page.goto(`${server.url}/jobs?name=${encodeURIComponent('"><script>alert(1)</script>')}&state=Nothing`);
  await expect(page.getByRole('alert')).toBeVisible();
  await page.goto(`${server.url}/vcs/${encodeURIComponent('<b>662E41</b>')}`);
  await expect(page.getByRole('heading', { name: '<b>662E41</b>' })).toBeVisible();
  expect(said).toEqual([]);
});

test('by keyboard alone: sign in, submit, stop', async ({ page }) => {
  await page.goto(`${server.url}/submit`);
  await expect(page.getByLabel('User name')).toBeFocused();
  await page.keyboard.type('alice');
  await page.keyboard.press('Tab');
  await page.keyboard.type(server.password);
  await page.keyboard.press('Enter');
  const name = page.getByLabel('Name', { exact: true });
  await expect(name).toBeVisible();
  for (let i = 0; i < 30 && !(await name.evaluate((e) => e === document.activeElement)); i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('by-keys');
  await expect(page.getByRole('region', { name: 'What will happen' })).toContainText(/Starts now|Waits/);
  await page.keyboard.press('Enter');
  const stop = page.getByRole('button', { name: 'Stop', exact: true });
  await expect(stop).toBeVisible();
  for (let i = 0; i < 40 && !(await stop.evaluate((e) => e === document.activeElement)); i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Cancel' })).toBeFocused();
  await page.keyboard.press('Tab');
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.locator('header').getByText(/^Stopp(ing|ed)$/).first()).toBeVisible();
});
