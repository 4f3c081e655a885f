import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, expect, type Page, test } from '@playwright/test';
import { silent } from './axe';
import { Server } from './server';

// The lab of two machines by clicking: the first administrator, two users, a first job, two virtual clusters, the five experiments,
// and the configuration changed back. What each shows is read off the pages.

const server = new Server();
const files = join(import.meta.dirname, '../../testdata/lab');
const lab = (name: string) => readFileSync(join(files, name), 'utf8');
const forTeams = (file: string) => file.replace('  default:\n', '  default:\n    access: {members: [speech]}\n').replace('  vc1:\n', '  vc1:\n    access: {members: [vision]}\n');

test.beforeAll(() => server.start(forTeams(lab('cluster-one-vc.yaml'))));

// What a browser takes to submit is longer than the lab's jobs run: those that others must find make half of their steps until
// they are released.
const folder = mkdtempSync(join(tmpdir(), 'comb-lab-'));
const held = (file: string, name: string) => file.replace('exec train ', `exec train -until ${join(folder, name)} `);
const release = (name: string) => writeFileSync(join(folder, name), '');

test.afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

interface Person {
  page: Page;
  bodies: Promise<string>[]; // what its browser got
}

async function person(browser: Browser, name: string, password: string): Promise<Person> {
  const page = await (await browser.newContext()).newPage();
  const bodies: Promise<string>[] = [];
  page.on('response', (r) => {
    if (r.url().includes('/api/v1/') && !r.url().includes('follow=true')) bodies.push(r.text().catch(() => ''));
  });
  await page.goto(server.url);
  await page.getByLabel('User name').fill(name);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page.getByRole('navigation', { name: 'Pages' })).toBeVisible();
  return { page, bodies };
}

// submit begins with a template of the lab and gives the job a name.
async function submit(page: Page, template: string, name: string, verdict: RegExp): Promise<void> {
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await page.getByRole('combobox', { name: 'Start from' }).click();
  await page.getByRole('option', { name: `Lab: ${template}`, exact: true }).click();
  await page.getByLabel('Name', { exact: true }).fill(name);
  await expect(page.getByRole('textbox', { name: 'Job file (YAML)' })).toContainText(`name: ${name}`);
  const said = page.getByRole('region', { name: 'What will happen' });
  await expect(said).toContainText(verdict);
  if (verdict.source.includes('never')) return;
  await page.getByRole('button', { name: 'Submit' }).click();
  await expect(page.getByRole('heading', { name })).toBeVisible();
}

interface Run {
  node: string;
  started: number; // milliseconds
  ended: number;
  why: string;
}

async function open(page: Page, name: string): Promise<void> {
  await page.getByRole('link', { name: 'Jobs', exact: true }).click();
  await page.getByRole('link', { name, exact: true }).click();
  await expect(page.getByRole('heading', { name })).toBeVisible();
}

// runs waits until a job has succeeded, and reads its attempts, the first one first.
async function runs(page: Page, name: string): Promise<Run[]> {
  await open(page, name);
  await expect(page.locator('header').getByText('Succeeded')).toBeVisible();
  const rows = page.getByRole('table', { name: 'Attempts' }).getByRole('row');
  await expect(rows.last().locator('time')).toHaveCount(3);
  const read = await rows.evaluateAll((all) =>
    all.slice(1).map((row) => {
      const times = [...row.querySelectorAll('time')].map((t) => Date.parse(t.dateTime));
      const cells = [...row.querySelectorAll('td')].map((c) => c.textContent ?? '');
      return { node: cells[1] ?? '', started: times[1] ?? 0, ended: times[2] ?? 0, why: cells.at(-1) ?? '' };
    }),
  );
  return read.reverse();
}

async function change(page: Page, text: string, reason: string): Promise<void> {
  await page.getByRole('link', { name: 'Configuration' }).click();
  const editor = page.getByRole('textbox', { name: 'Cluster file (YAML)' });
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete'); // over a selection the browser itself tries to put its style on the text, which the policy refuses
  await page.keyboard.insertText(text);
  await apply(page, reason);
}

async function apply(page: Page, reason: string): Promise<void> {
  const plan = page.getByRole('region', { name: 'What would change' });
  await expect(plan).toContainText('vc1');
  await plan.getByRole('button', { name: 'Apply' }).click();
  await page.getByRole('dialog').getByLabel('Reason (kept with the version)').fill(reason);
  await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
  await expect(page.getByRole('table', { name: 'Versions' }).getByRole('row').filter({ hasText: 'in force' })).toContainText(reason);
}

test('the lab by clicking', async ({ browser, page: admin }) => {
  const said = silent(admin);
  await admin.goto(server.url);
  await admin.getByLabel('Code').fill(/the code ([a-z0-9-]{20,})/.exec(server.said)?.[1] ?? '');
  await admin.getByLabel('User name').fill('carol');
  await admin.getByLabel('Password').first().fill(server.password);
  await admin.getByRole('button', { name: /administrator/ }).click();
  await expect(admin.getByRole('navigation', { name: 'Pages' })).toBeVisible();

  // Two teams with a user each.
  await admin.getByRole('link', { name: 'Users' }).click();
  for (const group of ['vision', 'speech']) {
    await admin.getByLabel('Name of the group').fill(group);
    await admin.getByRole('button', { name: 'Create a group' }).click();
    await expect(admin.getByRole('table', { name: 'Groups' })).toContainText(group);
  }
  await admin.getByRole('button', { name: 'Create users' }).click();
  const dialog = admin.getByRole('dialog');
  await dialog.getByLabel('Users', { exact: true }).fill('alice,,,vision\nbob,,,speech');
  await dialog.getByRole('button', { name: 'Create users' }).click();
  const shown = (await dialog.getByLabel('New passwords').last().textContent()) ?? '';
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  const passwordOf = (name: string) => new RegExp(`^${name} {2}(\\S+)$`, 'm').exec(shown)?.[1] ?? '';
  const bob = await person(browser, 'bob', passwordOf('bob'));
  const alice = await person(browser, 'alice', passwordOf('alice'));

  await test.step('a first job', async () => {
    await submit(bob.page, 'test job of default', 'first', /Starts now/);
    expect(await runs(bob.page, 'first')).toHaveLength(1);
    await bob.page.getByRole('link', { name: 'Log', exact: true }).click();
    await expect(bob.page.getByRole('log')).toContainText('done: step 60');
  });

  await test.step('two virtual clusters', async () => {
    await change(admin, forTeams(lab('cluster-two-vcs.yaml')), 'a team of its own');
    await submit(bob.page, 'test job of vc1', 'stranger', /cannot submit|Never|never/);
  });

  await test.step('1: safety of virtual clusters', async () => {
    for (const name of ['safety-1', 'safety-2', 'safety-3']) await submit(alice.page, 'test job of vc1', name, /Starts now|Waits/);
    const all = [];
    for (const name of ['safety-1', 'safety-2', 'safety-3']) all.push(...(await runs(alice.page, name)));
    expect(all).toHaveLength(3);
    expect(new Set(all.map((r) => r.node)).size).toBe(1);
    all.sort((a, b) => a.started - b.started);
    for (let i = 1; i < all.length; i++) expect(all[i - 1]?.ended).toBeLessThanOrEqual(all[i]?.started ?? 0);
  });

  await test.step('2: priority and preemption, by a file of one’s own', async () => {
    await submit(alice.page, 'production job of vc1', 'urgent-later', /Starts now|Waits/); // the editor has a production job now
    await runs(alice.page, 'urgent-later');
    await alice.page.getByRole('link', { name: 'Submit', exact: true }).click();
    const editor = alice.page.getByRole('textbox', { name: 'Job file (YAML)' });
    await editor.click();
    await alice.page.keyboard.press('Control+a');
    await alice.page.keyboard.insertText(held(lab('vc1-test.yaml').replace('name: vc1-test', 'name: stopped'), 'stopped'));
    await expect(alice.page.getByRole('region', { name: 'What will happen' })).toContainText('Starts now');
    await alice.page.getByRole('button', { name: 'Submit' }).click();
    await expect(alice.page.locator('header').getByText('Running')).toBeVisible();
    await submit(alice.page, 'production job of vc1', 'urgent', /Starts now|Stopped first/);
    const [urgent] = await runs(alice.page, 'urgent');
    release('stopped');
    const stopped = await runs(alice.page, 'stopped');
    expect(stopped).toHaveLength(2);
    expect(stopped[0]?.why).toContain('urgent');
    expect(stopped[0]?.ended).toBeLessThanOrEqual(urgent?.started ?? 0);
    expect(urgent?.ended).toBeLessThanOrEqual(stopped[1]?.started ?? 0);
  });

  // starts submits a job that is held, by its file, and waits until it runs.
  const starts = async (who: Person, file: string, name: string) => {
    await who.page.getByRole('link', { name: 'Submit', exact: true }).click();
    const editor = who.page.getByRole('textbox', { name: 'Job file (YAML)' });
    await editor.click();
    await who.page.keyboard.press('Control+a');
    await who.page.keyboard.insertText(held(lab(file).replace(/^name: .*$/m, `name: ${name}`), name));
    await expect(who.page.getByRole('region', { name: 'What will happen' })).toContainText(/Starts now/);
    await who.page.getByRole('button', { name: 'Submit' }).click();
    await expect(who.page.locator('header').getByText('Running')).toBeVisible();
  };

  await test.step('3: an opportunistic job', async () => {
    await starts(alice, 'vc1-prod.yaml', 'owner');
    await starts(alice, 'vc1-oppo.yaml', 'borrower');
    await starts(bob, 'default-test.yaml', 'lender');
    release('lender');
    const [lender] = await runs(bob.page, 'lender');
    for (const name of ['owner', 'borrower']) release(name);
    const borrower = await runs(alice.page, 'borrower');
    const [owner] = await runs(alice.page, 'owner');
    expect(borrower).toHaveLength(2);
    expect(borrower[0]?.node).toBe(lender?.node);
    expect(borrower[0]?.node).not.toBe(owner?.node);
    expect(borrower[0]?.ended).toBeLessThanOrEqual(lender?.started ?? 0);
    expect(borrower[0]?.why).not.toContain('lender');
  });

  await test.step('the first configuration again', async () => {
    await admin.getByRole('link', { name: 'Configuration' }).click();
    await admin.reload();
    await admin.getByRole('table', { name: 'Versions' }).getByRole('button', { name: 'Restore version 1', exact: true }).click();
    await apply(admin, 'the last part');
  });

  await test.step('4: a gang', async () => {
    await submit(bob.page, 'test job of default', 'busy', /Starts now/);
    await submit(bob.page, 'gang of two', 'gang', /Waits|Starts now/);
    const [busy] = await runs(bob.page, 'busy');
    const gang = await runs(bob.page, 'gang');
    expect(gang).toHaveLength(1);
    expect(gang[0]?.node.split(', ')).toHaveLength(2);
    expect(busy?.ended).toBeLessThanOrEqual(gang[0]?.started ?? 0);
    await submit(bob.page, 'gang of four', 'too-large', /Can never start/);
    await expect(bob.page.getByRole('region', { name: 'What will happen' })).toContainText('4 GPUs');
  });

  await test.step('5: tasks one by one', async () => {
    await starts(bob, 'incremental-four.yaml', 'single');
    await expect(bob.page.getByRole('table', { name: 'Tasks' }).getByRole('row').filter({ hasText: 'Running' })).toHaveCount(2);
    release('single');
    const single = await runs(bob.page, 'single');
    expect(single).toHaveLength(4);
    single.sort((a, b) => a.started - b.started);
    const atOnce = single.map((r) => single.filter((o) => o.started <= r.started && r.started < o.ended).length);
    expect(Math.max(...atOnce)).toBe(2); // two GPUs: two at a time
    expect(single[2]?.started).toBeGreaterThanOrEqual(Math.min(single[0]?.ended ?? 0, single[1]?.ended ?? 0));
  });

  const got = (await Promise.all(bob.bodies)).join('\n');
  for (const foreign of ['safety-1', 'urgent', 'stopped', 'owner', 'borrower']) expect(got.includes(`"${foreign}"`)).toBe(false);
  expect((await Promise.all(alice.bodies)).join('\n').includes('"lender"')).toBe(false);
  expect(said).toEqual([]);
});
