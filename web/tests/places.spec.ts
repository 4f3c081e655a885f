import { expect, type Page, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, served, twoVCs } from './server';

// What a page says to those who may not see it, of what an address asks for and is not there, and on a phone.

const server = served(twoVCs.replace('access: {members: [speech]}', 'access: {members: [speech], viewers: [vision]}'));

const ended = (id: number, phase: string) => expect.poll(async () => ((await server.api('GET', `/jobs/${id}`)) as { phase: string }).phase).toBe(phase);

// submitted submits a file as the one who is signed in.
async function submitted(page: Page, source: string): Promise<number> {
  return page.evaluate(async (s) => ((await (await fetch('/api/v1/jobs', { method: 'POST', headers: { 'Content-Type': 'application/yaml' }, body: s })).json()) as { id: number }).id, source);
}

test('a viewer of a virtual cluster reads the page of a job without what it may not see, and what is in the way by its user', async ({ page, browser }) => {
  const bob = await (await browser.newContext()).newPage();
  await server.signIn(bob, 'bob');
  const runs = await submitted(bob, job('eval', { vc: 'vc1', gpus: 2 }));
  const waits = await submitted(bob, job('waits', { vc: 'vc1', gpus: 2 }));
  const said = silent(page);
  await server.signIn(page, 'alice', `/jobs/${runs}`);
  await expect(page.getByRole('table', { name: 'Tasks' })).toBeVisible();
  await expect(page.locator('main [aria-busy=true]')).toHaveCount(0);
  await expect(page.locator('main').getByRole('alert')).toHaveCount(0);
  await page.goto(`${server.url}/jobs/${waits}`);
  await expect(page.getByRole('table', { name: 'In the way' }).getByRole('link', { name: 'bob~eval', exact: true })).toBeVisible();
  await bob.goto(`${server.url}/jobs/${waits}`);
  await expect(bob.getByRole('table', { name: 'In the way' }).getByRole('link', { name: 'eval', exact: true })).toBeVisible();
  expect(said).toEqual([]);
  // The same of what a configuration hits.
  await page.context().clearCookies();
  await server.signIn(page, 'carol', '/configuration');
  const editor = page.getByRole('textbox', { name: 'Cluster file (YAML)' });
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText((await server.file()).replace(/ {2}vc1:[^]*$/, ''));
  await expect(page.getByRole('table', { name: 'Running jobs' }).getByRole('link', { name: 'bob~eval', exact: true })).toBeVisible();
});

test('a page that its reader may not see says why, and where to go', async ({ page }) => {
  await server.signIn(page, 'alice', '/system');
  const main = page.locator('main');
  await expect(main).toContainText('You may not see this');
  await expect(main).toContainText('This page is for administrators');
  await accessible(page);
  await main.getByRole('link', { name: 'Nodes' }).click();
  await expect(page.getByRole('heading', { name: 'Nodes' })).toBeVisible();
  await page.goto(`${server.url}/users`);
  await expect(main.getByRole('alert')).toContainText('You may not see this');
  await expect(page.getByRole('button', { name: 'Create users' })).toHaveCount(0);
  await page.goto(`${server.url}/vcs/nosuch`);
  await expect(main).toContainText('You can see no virtual cluster nosuch');
  await main.getByRole('link', { name: 'All virtual clusters' }).click();
  await expect(page.getByRole('heading', { name: 'Virtual clusters' })).toBeVisible();
  await page.goto(`${server.url}/jobs/nosuch`);
  await expect(main.getByRole('alert')).toContainText('You can see no job nosuch');
  await expect(main).not.toContainText('comb job');
  await main.getByRole('link', { name: 'All jobs that you may see' }).click();
  await expect(page.getByRole('heading', { name: 'Jobs' })).toBeVisible();
});

test('a server that does not answer is said once where something could not be read', async ({ page }) => {
  await server.signIn(page, 'alice', '/nodes');
  await page.route('**/api/v1/jobs/7', (r) => r.abort());
  await page.goto(`${server.url}/jobs/7`);
  const alert = page.locator('main').getByRole('alert');
  await expect(alert).toContainText('The server does not answer');
  expect((await alert.innerText()).match(/does not answer/g)).toHaveLength(1);
});

test('a part of a job that is not there: Overview; a task or an attempt that is not there is said', async ({ page }) => {
  const made = (await server.submit(job('parts'))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}?tab=nonsense`);
  const parts = page.getByRole('navigation', { name: 'Parts of the job' });
  await expect(parts.locator('[aria-current]')).toHaveText(['Overview']);
  await expect(page.getByRole('table', { name: 'Tasks' })).toContainText('Running');
  await page.goto(`${server.url}/jobs/${made.id}?tab=log&task=nosuch-7`);
  await expect(page.getByText('There is no task nosuch-7: this is the log of main-0.')).toBeVisible();
  await accessible(page);
  await page.goto(`${server.url}/jobs/${made.id}?tab=log&attempt=99`);
  await expect(page.getByText('There is no attempt 99 of main-0: this is the latest.')).toBeVisible();
  await page.goto(`${server.url}/jobs/${made.id}?tab=log&task=main-0&attempt=1`);
  await expect(page.getByText('Follow')).toBeVisible();
  await expect(page.getByText('There is no')).toHaveCount(0);
});

test('how jobs failed is told apart in the list, and above its log a job’s page does not say to read it', async ({ page }) => {
  const fails = async (name: string, says: string) => {
    const { id } = (await server.submit(job(name, { command: JSON.stringify(`echo "${says}" >&2; exit 1`) }))) as { id: number };
    await ended(id, 'Failed');
    return id;
  };
  const id = await fails('zero', 'ZeroDivisionError: division by zero');
  await fails('rank', 'RuntimeError: bad rank');
  await server.signIn(page, 'carol', '/jobs?state=Failed');
  const why = (name: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name: `admin~${name}`, exact: true }) }).locator('td[data-grow]');
  await expect(why('zero')).toHaveText(/^ZeroDivisionError: division by zero/);
  await expect(why('rank')).toHaveText(/^RuntimeError: bad rank/);
  await page.goto(`${server.url}/jobs/${id}`);
  const end = page.getByRole('region', { name: 'How it ended' });
  await expect(end).toContainText('ZeroDivisionError');
  await expect(end).not.toContainText('Next step');
  await page.goto(`${server.url}/jobs/${id}?tab=overview`);
  await expect(end).toContainText('Next step');
});

test('why a held job waits names no command: its release is a button beside it', async ({ page }) => {
  await server.submit(job('fills', { gpus: 2 }));
  const made = (await server.submit(job('is-held', { gpus: 2 }))) as { id: number };
  await server.api('POST', `/jobs/${made.id}/hold`, { reason: 'new data' });
  await server.signIn(page, 'carol', `/jobs/${made.id}`);
  const why = page.getByRole('region', { name: 'Why it waits' });
  await expect(why).toContainText('On hold by admin (new data)');
  await expect(why).not.toContainText('comb job release');
  await expect(page.getByRole('button', { name: 'Release' })).toBeVisible();
  await page.goto(`${server.url}/jobs?name=is-held`);
  await expect(page.getByRole('row').filter({ hasText: 'is-held' }).locator('td[data-grow]')).toHaveText('On hold by admin (new data)');
});

test('on a phone: all colours to choose, boxes to choose jobs, and each job’s virtual cluster at the same place', async ({ page }) => {
  await server.submit(job('runs', { gpus: 2 }));
  await server.submit(job('waits', { gpus: 2 }));
  await server.signIn(page, 'carol', '/nodes');
  await page.setViewportSize({ width: 390, height: 844 });
  const colour = page.getByRole('radiogroup', { name: 'Colour by' });
  for (const name of ['Virtual cluster', 'Health']) {
    const label = colour.getByText(name, { exact: true });
    const whole = await label.evaluate((e) => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= window.innerWidth);
    expect(whole, name).toBe(true);
  }
  await accessible(page);
  await page.goto(`${server.url}/jobs`);
  const row = (name: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name: `admin~${name}`, exact: true }) });
  await expect(row('waits')).toContainText('Waiting');
  await expect(row('runs')).toContainText('Running');
  for (const name of ['runs', 'waits']) {
    const [title, vc] = [await row(name).getByRole('link').boundingBox(), await row(name).getByTitle('default', { exact: true }).boundingBox()];
    expect((vc?.y ?? 0) - (title?.y ?? 0), `${name}: below its name`).toBeGreaterThan(15);
  }
  await accessible(page);
  await page.getByLabel('Select admin~waits').check();
  await expect(page.getByRole('button', { name: 'Stop 1 job' })).toBeVisible();
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth)).toBe(true);
});
