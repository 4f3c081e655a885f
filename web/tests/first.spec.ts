import { expect, type Locator, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, served } from './server';

const server = served();

const red = (button: Locator) =>
  button.evaluate((e) => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.color = 'var(--failed)';
    const want = getComputedStyle(probe).color;
    probe.remove();
    const style = getComputedStyle(e);
    return style.color === want || style.backgroundColor === want;
  });

test('Submit shows what is run without scrolling, offers the number that fits, and is off where the job can never start', async ({ page }) => {
  const said = silent(page);
  await page.setViewportSize({ width: 1440, height: 900 });
  await server.submit(job('takes-one', { gpus: 1 }));
  await server.signIn(page, 'alice', '/submit');
  const submit = page.getByRole('button', { name: 'Submit', exact: true });
  const verdict = page.getByRole('region', { name: 'What will happen' });
  await expect(verdict).toContainText('Starts now');
  await expect(page.getByLabel('Commands')).toBeInViewport({ ratio: 1 });
  await expect(submit).toBeInViewport({ ratio: 1 });
  const covered = await page.getByLabel('Commands').evaluate((e) => {
    const box = e.getBoundingClientRect();
    return document.elementFromPoint(box.left + 20, box.bottom - 4) !== e;
  });
  expect(covered).toBe(false);

  await page.getByLabel('GPUs per task').fill('2');
  await expect(verdict).toContainText('Waits');
  await expect(verdict).toContainText('with 1 GPU');
  await expect(submit).toBeEnabled();
  await accessible(page);

  await page.getByLabel('GPUs per task').fill('7');
  await expect(verdict).toContainText('Can never start');
  await expect(submit).toBeDisabled();
  const fits = verdict.getByRole('list', { name: 'What you can change' });
  const one = fits.getByRole('listitem').filter({ hasText: 'with 1 GPU' });
  await one.getByRole('button', { name: 'Use' }).click();
  await expect(page.getByLabel('GPUs per task')).toHaveValue('1');
  await expect(page.getByRole('textbox', { name: 'Job file (YAML)' })).toContainText('gpu: 1');
  await expect(verdict).toContainText('Starts now');
  await expect(submit).toBeEnabled();
  expect(said).toEqual([]);
});

test('the list says why in a few words, and when jobs start and end in columns of their own', async ({ page }) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  const holds = (await server.submit(job('holds', { gpus: 1 }))) as { id: number };
  await server.submit(job('waits', { gpus: 2 }));
  await server.signIn(page, 'carol', '/jobs');
  const row = (name: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name }) });
  await expect(row('admin~waits')).toBeVisible();
  const heads = await page.getByRole('columnheader').allTextContents();
  const cell = (name: string, head: string) => row(name).getByRole('cell').nth(heads.indexOf(head));
  expect(heads).toContain('Starts');
  expect(heads).toContain('Ends');
  await expect(cell('admin~waits', 'Why')).toHaveText('default: 1 of 2 GPUs free');
  await expect(cell('admin~waits', 'Starts')).toHaveText(/within 1\d min/);
  await expect(cell('admin~waits', 'Ends')).toHaveText('');
  await expect(cell('admin~holds', 'Starts')).toHaveText('');
  await expect(cell('admin~holds', 'Ends')).toHaveText(/within 1\d min/);
  const words = cell('admin~waits', 'Why').locator('span');
  expect(await words.evaluate((e) => e.closest('td') !== null && (e.closest('td')?.scrollWidth ?? 0) <= (e.closest('td')?.clientWidth ?? 0))).toBe(true); // all of it is seen

  await page.goto(`${server.url}/jobs/${holds.id}`);
  const tasks = page.getByRole('table', { name: 'Tasks' });
  await expect(tasks).toBeVisible();
  const at = (await tasks.getByRole('columnheader').allTextContents()).indexOf('GPUs');
  await expect(tasks.getByRole('row').nth(1).getByRole('cell').nth(at)).toHaveText('1');
});

test('what stops, drains, revokes or deletes is red, in light and dark; other buttons are not', async ({ page }) => {
  const made = (await server.submit(job('red'))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}`);
  for (const scheme of ['light', 'dark']) {
    await page.goto(`${server.url}/jobs/${made.id}`);
    await page.evaluate((s) => document.documentElement.setAttribute('data-mantine-color-scheme', s), scheme);
    const stop = page.getByRole('button', { name: 'Stop', exact: true });
    await expect(stop).toBeVisible();
    expect(await red(stop)).toBe(true);
    expect(await red(page.getByRole('button', { name: 'Requeue' }))).toBe(false);
    await stop.click();
    await expect.poll(() => red(page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }))).toBe(true);
    expect(await red(page.getByRole('dialog').getByRole('button', { name: 'Cancel' }))).toBe(false);
    await accessible(page);
    await page.keyboard.press('Escape');
    await page.goto(`${server.url}/nodes?node=node-a`);
    await page.evaluate((s) => document.documentElement.setAttribute('data-mantine-color-scheme', s), scheme);
    expect(await red(page.getByRole('button', { name: 'Drain' }))).toBe(true);
    expect(await red(page.getByRole('button', { name: 'Cordon' }))).toBe(false);
    await page.goto(`${server.url}/users`);
    await page.evaluate((s) => document.documentElement.setAttribute('data-mantine-color-scheme', s), scheme);
    expect(await red(page.getByRole('button', { name: 'Delete: bob' }))).toBe(true);
    expect(await red(page.getByRole('button', { name: 'Groups: bob' }))).toBe(false);
    await accessible(page);
  }
});

test('what the server is and runs tasks with is a page for administrators; others read it in plain words', async ({ page, browser }) => {
  const said = silent(page);
  await server.signIn(page, 'carol', '/system');
  await expect(page.getByRole('region', { name: 'This server' })).toContainText('/nonexistent'); // where the engine was looked for
  await accessible(page);
  await page.getByRole('link', { name: 'Nodes' }).click();
  await expect(page.getByText('Tasks run as processes', { exact: true })).toBeVisible();
  expect(said).toEqual([]);

  const alice = await (await browser.newContext()).newPage();
  await server.signIn(alice, 'alice', '/nodes');
  await expect(alice.getByText('Tasks run as processes', { exact: true })).toBeVisible();
  await expect(alice.getByRole('link', { name: 'System' })).toHaveCount(0);
  await alice.goto(`${server.url}/system`);
  await expect(alice.getByText('You may not see this')).toBeVisible();
  await expect(alice.getByText('This page is for administrators.')).toBeVisible();
  expect(await alice.evaluate(async () => (await fetch('/api/v1/nodes')).text())).not.toContain('/nonexistent');
});
