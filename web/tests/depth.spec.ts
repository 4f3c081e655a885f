import { readFileSync } from 'node:fs';
import { expect, test } from '@playwright/test';
import { accessible } from './axe';
import { job, Server } from './server';

// What goes wrong late: answers that come after another was asked for, more than a page has, what others do meanwhile.

const server = new Server();

test.beforeAll(async () => {
  await server.start();
  await server.people();
});

test.afterEach(() => server.clear());

test.afterAll(() => server.stop());

async function made(source: string): Promise<number> {
  return ((await server.submit(source)) as { id: number }).id;
}

test('a log: from the list of tasks, found lines one by one, whoever scrolls up stays, the whole as a file', async ({ page }) => {
  const id = await made(job('talks', { instances: 2, command: `'for i in $(seq 200); do echo "line $i of $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"; done; while :; do sleep 0.3; echo more; done'` }));
  await server.signIn(page, 'carol', `/jobs/${id}`);
  await page.getByRole('table', { name: 'Tasks' }).getByRole('link', { name: 'main-1' }).click();
  const log = page.getByRole('log', { name: 'Log of main-1' });
  await expect(log).toContainText('more');
  const find = page.getByLabel('Find in the log');
  await find.fill('line 1');
  const said = page.getByRole('search', { name: 'Search' }).getByRole('status');
  await expect(said).toHaveText('111 lines found');
  await find.press('Enter');
  await expect(said).toHaveText('111 of 111 found');
  await expect(log.locator('[data-mark=at]')).toHaveText('line 199 of 1');
  await page.getByRole('button', { name: 'Previous' }).click();
  await expect(log.locator('[data-mark=at]')).toHaveText('line 198 of 1');
  await page.getByRole('button', { name: 'Next' }).click();
  await find.press('Enter');
  await expect(log.locator('[data-mark=at]')).toHaveText('line 1 of 1');
  await accessible(page);

  // A finger moves the box: what is read stays, though more lines come.
  const follow = page.getByLabel('Follow');
  await follow.check();
  await expect(log).toContainText('more');
  await log.evaluate((e) => e.scrollBy(0, -1000));
  await expect(follow).not.toBeChecked();
  const top = await log.evaluate((e) => e.scrollTop);
  await page.waitForTimeout(1500);
  expect(await log.evaluate((e) => e.scrollTop)).toBe(top);

  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click(), server.api('POST', `/jobs/${id}/stop`, {})]);
  expect(file.suggestedFilename()).toBe('talks-main-1.log');
  expect(readFileSync(await file.path(), 'utf8')).toMatch(/^line 1 of 1\nline 2 of 1\n/);
});

test('the log of an attempt before the latest', async ({ page }) => {
  const id = await made(job('again', { command: `'echo "by attempt $RANDOM$RANDOM"; sleep 600'` }));
  await server.signIn(page, 'carol', `/jobs/${id}?tab=log`);
  const log = page.getByRole('log');
  await expect(log).toContainText('by attempt');
  const first = await log.textContent();
  await server.api('POST', `/jobs/${id}/requeue`, {});
  const attempt = page.getByRole('combobox', { name: 'Attempt' });
  await expect(attempt).toHaveValue('2, the latest');
  await expect(log).toContainText('by attempt');
  expect(await log.textContent()).not.toBe(first);
  await attempt.click();
  await page.getByRole('option', { name: '1', exact: true }).click();
  await expect(log).toHaveText(first ?? '');
  await expect(page).toHaveURL(/attempt=1/);
  await expect(page.getByText('The task has ended')).toBeVisible();
});

test('another virtual cluster shows nothing of the one before, however late its answers are', async ({ page }) => {
  await made(job('of-default'));
  await server.signIn(page, 'carol', '/vcs/default');
  await expect(page.getByRole('region', { name: 'Running jobs' })).toContainText('of-default');
  await page.route(/\/api\/v1\/jobs\?.*vc=vc1/, async (r) => {
    await new Promise((resolve) => setTimeout(resolve, 3000));
    await r.continue();
  });
  await page.evaluate(() => {
    history.pushState(null, '', '/vcs/vc1');
    dispatchEvent(new PopStateEvent('popstate'));
  });
  await expect(page.getByRole('heading', { name: 'vc1' })).toBeVisible();
  expect(await page.locator('main').textContent()).not.toContain('of-default');
  await expect(page.getByText('No job runs')).toBeVisible();
});

test('what ends soon is sought among all jobs, and a line is that of its virtual cluster', async ({ page }) => {
  await server.api('POST', '/users', { users: [{ name: 'dave', administrator: true, password: server.password }] });
  await server.signIn(page, 'dave', '/submit');
  const mine = (source: string) => page.evaluate(async (s) => (await fetch('/api/v1/jobs', { method: 'POST', headers: { 'Content-Type': 'application/yaml' }, body: s })).status, source);
  await mine(job('long', { time: '3h', priority: 'crit' }));
  await mine(job('short', { time: '1h', priority: 'crit' }));
  for (let i = 0; i < 25; i++) await mine(job(`waits-${i}`, { gpus: 2, priority: i === 24 ? 'prod' : 'test' }));
  await page.goto(`${server.url}/`);
  const ends = page.getByRole('table', { name: 'Jobs that end soon' }).getByRole('row');
  await expect(ends.nth(1)).toContainText('short');
  await expect(ends.nth(2)).toContainText('long');
  await page.goto(`${server.url}/vcs/default`);
  const line = page.getByRole('region', { name: 'Waiting jobs' }).getByRole('row');
  await expect(line.nth(1)).toContainText('waits-24');
  await expect(line.nth(1)).toContainText(/within \d+|by (\w+ )?\d\d:\d\d/); // when the one of 3 h has ended
  await expect(line.nth(2)).toContainText('waits-0');
  await expect(line).toHaveCount(26);
});

test('what others do shows to those who do not see their jobs', async ({ page }) => {
  await server.signIn(page, 'alice', '/vcs');
  const bar = page.getByRole('img', { name: /^vc1, / });
  await expect(bar).toHaveAttribute('aria-label', /2 free/);
  await made(job('of-others', { vc: 'vc1', gpus: 2 }));
  await expect(bar).toHaveAttribute('aria-label', /2 of 2 used/);
});

test('cleared filters are cleared, and a dialog opens without the error of the one before', async ({ page }) => {
  const id = await made(job('stays'));
  await server.signIn(page, 'carol', '/jobs?name=no-such');
  const name = page.getByLabel('Search by name');
  await expect(name).toHaveValue('no-such');
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await expect(name).toHaveValue('');
  await name.pressSequentially('stays');
  await expect(page).toHaveURL(/name=stays$/);
  await expect(page.getByRole('row').filter({ hasText: 'stays' })).toBeVisible();

  await page.goto(`${server.url}/jobs/${id}`);
  await page.route('**/stop', (r) => r.fulfill({ status: 409, contentType: 'application/problem+json', body: '{"status":409,"detail":"it has just ended"}' }));
  const stop = page.getByRole('button', { name: 'Stop', exact: true });
  await stop.click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Stop', exact: true }).click();
  await expect(dialog.getByRole('alert')).toContainText('This was not done');
  await expect(dialog.getByRole('alert')).toContainText('it has just ended');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await expect(dialog).toBeHidden();
  await stop.click();
  await expect(dialog).toBeVisible();
  await expect(dialog.getByRole('alert')).toHaveCount(0);
});

test('a file that would be refused cannot be submitted, and mistakes go with the text that had them', async ({ page }) => {
  await server.signIn(page, 'alice', '/submit');
  await page.getByLabel('Name', { exact: true }).fill('not a name');
  await page.getByLabel('Time limit').fill('soon');
  const verdict = page.getByRole('region', { name: 'What will happen' });
  await expect(verdict).toContainText('2 mistakes');
  await expect(verdict).toContainText('is not a name');
  await expect(page.getByRole('button', { name: 'Submit' })).toBeDisabled();
  await page.getByLabel('Name', { exact: true }).fill('a-name');
  await page.getByLabel('Time limit').fill('1h');
  await expect(verdict).toContainText('Starts now');
  await expect(verdict).not.toContainText('is not a name');
  await expect(page.getByRole('button', { name: 'Submit' })).toBeEnabled();
});

test('a script with indented lines goes through the form as it is', async ({ page }) => {
  await server.signIn(page, 'alice', '/submit');
  await page.getByLabel('Name', { exact: true }).fill('script');
  await page.getByLabel('CPUs per task').pressSequentially('0.5');
  await page.getByLabel('Commands').fill('cat <<X\nif:\n    four spaces\nX\nsleep 600');
  await expect(page.getByRole('textbox', { name: 'Job file (YAML)' })).toContainText('cpu: 0.5');
  await expect(page.getByRole('region', { name: 'What will happen' })).toContainText('Starts now');
  await page.getByRole('button', { name: 'Submit' }).click();
  await page.getByRole('navigation', { name: 'Parts of the job' }).getByRole('link', { name: 'Log' }).click();
  await expect(page.getByRole('log')).toContainText('if:');
  expect(await page.getByRole('log').textContent()).toContain('    four spaces');
});

test('a configuration that was typed stays, tells what starts, and that another was faster', async ({ page, browser }) => {
  await made(job('fills', { gpus: 2 }));
  await made(job('waits', { gpus: 2 }));
  await server.signIn(page, 'carol', '/configuration');
  const editor = page.getByRole('textbox', { name: 'Cluster file (YAML)' });
  const plan = page.getByRole('region', { name: 'What would change' });
  await expect(editor).toContainText('virtualClusters');
  await editor.click();
  await page.keyboard.press('Control+Home');
  const present = (await server.file()).replace('cellNumber: 1}]\n    access: {members: [vision]}', 'cellNumber: 2}]\n    access: {members: [vision]}').replace(/ {2}vc1:[^]*$/, '');
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete');
  await page.keyboard.insertText(present);
  await expect(plan.getByRole('table', { name: 'Starting jobs' }).getByRole('row').nth(1)).toContainText('waits');
  await accessible(page);

  // Another page and a reload leave it.
  await page.getByRole('link', { name: 'Nodes' }).click();
  await expect(page.getByRole('heading', { name: 'Nodes' })).toBeVisible();
  await page.goBack();
  await expect(editor).not.toContainText('vc1');
  await page.reload();
  await expect(editor).not.toContainText('vc1');
  await expect(plan).toContainText('waits');

  // Another administrator applies before.
  const other = await (await browser.newContext()).newPage();
  await server.signIn(other, 'carol', '/configuration');
  await other.getByRole('textbox', { name: 'Cluster file (YAML)' }).click();
  await other.keyboard.press('Control+End');
  await other.keyboard.insertText('  vc3: {policy: drf}\n');
  await other.getByRole('region', { name: 'What would change' }).getByRole('button', { name: 'Apply' }).click();
  await other.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
  await expect(other.getByText('Edit the file to see what would change')).toBeVisible();
  await expect(plan).toContainText('Someone else changed the configuration');
  await expect(editor).not.toContainText('vc3');
  await accessible(page);
  await plan.getByRole('button', { name: 'Discard changes' }).click();
  await expect(editor).toContainText('vc3');
});

test('the virtual view has switches and GPUs, and what is not bound', async ({ page }) => {
  const small = new Server();
  await small.start(`physicalCluster:
  skuTypes:
    GPU: {gpu: 1}
  cellTypes:
    SWITCH: {childCellType: GPU, childCellNumber: 2}
    NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n1}
virtualClusters:
  halves:
    virtualCells: [{cellType: NODE.SWITCH, cellNumber: 1}]
  pieces:
    virtualCells: [{cellType: NODE.SWITCH.GPU, cellNumber: 2}]
`);
  await small.people();
  try {
    await small.submit(job('one-switch', { vc: 'halves', gpus: 2 }));
    await small.submit(job('one-gpu', { vc: 'pieces', gpus: 1 }));
    await small.signIn(page, 'carol', '/nodes?as=virtual');
    const halves = page.getByRole('region', { name: 'halves' });
    await expect(halves.getByRole('button')).toHaveText(/^n1 SWITCH [01] 2 \/ 2/);
    const pieces = page.getByRole('region', { name: 'pieces' });
    await expect(pieces.getByRole('button')).toHaveText(/^n1 GPU [0-3] 1 \/ 1/);
    await expect(pieces).toContainText('Guaranteed, not in use: 1 × GPU');
    await accessible(page);
    await pieces.getByRole('button').click();
    await expect(page.getByRole('complementary', { name: 'n1' })).toContainText('one-gpu');
  } finally {
    await small.stop();
  }
});

test('what happens before the stream of events has begun shows, too', async ({ page }) => {
  const id = await made(job('early'));
  await page.addInitScript(() => Reflect.deleteProperty(window, 'SharedWorker')); // the page has a stream of its own then
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  await page.route('**/api/v1/events?*', async (r) => {
    await gate;
    await r.continue();
  });
  await server.signIn(page, 'carol', `/jobs/${id}`);
  await expect(page.locator('header').getByText('Running')).toBeVisible();
  await server.api('POST', `/jobs/${id}/stop`, {});
  await expect.poll(async () => ((await server.api('GET', `/jobs/${id}`)) as { phase: string }).phase).toBe('Stopped');
  open();
  await expect(page.locator('header').getByText('Stopped')).toBeVisible();
});
