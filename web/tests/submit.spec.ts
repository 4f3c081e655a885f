import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, Server, twoVCs } from './server';

const server = new Server();
const folder = mkdtempSync(join(tmpdir(), 'comb-code-'));

test.beforeAll(async () => {
  mkdirSync(join(folder, 'storage'));
  await server.start(`${twoVCs}storages:\n  data: {folder: ${join(folder, 'storage')}, readOnly: true}\n`);
  await server.people();
});

test.afterEach(() => server.clear());

test.afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

test('ports, a storage, a second role, retries and a folder with code by the form', async ({ page }) => {
  const said = silent(page);
  const code = join(folder, 'project');
  mkdirSync(join(code, 'sub'), { recursive: true });
  writeFileSync(join(code, 'main.sh'), 'echo "read: $(cat sub/value)"; ls; echo "ports $PAI_PORT_LIST_main_0_http"\n');
  writeFileSync(join(code, 'sub', 'value'), 'from the folder');
  writeFileSync(join(code, '.gitignore'), 'secret.txt\n');
  writeFileSync(join(code, 'secret.txt'), 'not to be sent');
  await server.signIn(page, 'alice', '/submit');
  await page.getByLabel('Name', { exact: true }).fill('whole-form');
  await page.getByLabel('Commands').fill('sh main.sh\necho "data $COMB_STORAGE_DATA"\nsleep 600');
  const file = page.getByRole('textbox', { name: 'Job file (YAML)' });

  const ports = page.getByLabel('Ports');
  await ports.fill('http, ssh x');
  await expect(page.getByText('Not ports. Write names')).toBeVisible();
  await ports.fill('http, ssh 2');
  await expect(file).toContainText('ssh: 2');
  await page.getByLabel('Retries after a failure').fill('2');
  await expect(file).toContainText('jobRetryCount: 2');
  await page.getByRole('combobox', { name: 'Storages' }).click();
  await page.getByRole('option', { name: 'data' }).click();
  await page.keyboard.press('Escape');
  await expect(file).toContainText('- data');
  await page.getByLabel('Shared memory per task (MiB)').fill('64');
  await expect(file).toContainText('shmMB: 64');
  const pull = page.getByRole('combobox', { name: 'Fetch images' });
  await pull.click();
  await page.getByRole('option', { name: 'Always' }).click();
  await expect(file).toContainText('pull: always');
  await pull.click();
  await page.getByRole('option', { name: 'If the machine has none' }).click();
  await expect(file).not.toContainText('pull:');
  await pull.click();
  await page.getByRole('option', { name: 'Always' }).click();
  await page.getByLabel('Choose a folder…').setInputFiles(code);
  const group = page.getByRole('group', { name: 'Code' });
  await expect(group.getByRole('status')).toContainText('3 files');
  await expect(file).toContainText('upload: ');
  await page.getByRole('button', { name: 'Add a task role' }).click();
  await expect(page.getByRole('group', { name: 'Task role role2' })).toBeVisible();
  await accessible(page);
  await page.getByRole('group', { name: 'Task role role2' }).getByRole('button', { name: 'Remove this role' }).click();
  await expect(page.getByRole('region', { name: 'What will happen' })).toContainText('Starts now');
  await page.getByRole('button', { name: 'Submit' }).click();
  await expect(page.getByRole('heading', { name: 'whole-form' })).toBeVisible();
  const { id } = (await server.api('GET', '/jobs/alice~whole-form')) as { id: number };
  const kept = await page.evaluate(async (n) => (await fetch(`/api/v1/jobs/${n}/config`)).text(), id);
  expect(kept).toContain('pull: always');
  expect(kept).toContain('shmMB: 64');
  await page.getByRole('navigation', { name: 'Parts of the job' }).getByRole('link', { name: 'Log' }).click();
  const log = page.getByRole('log');
  await expect(log).toContainText('read: from the folder');
  await expect(log).toContainText('main.sh');
  await expect(log).not.toContainText('secret.txt');
  await expect(log).toContainText(/ports \d+/);
  await expect(log).toContainText(`data ${folder}/storage`);
  expect(said).toEqual([]);
});

test('the virtual cluster of a new job: the only one of its user, else default, else one that is chosen', async ({ page }) => {
  const vc = page.getByRole('combobox', { name: 'Virtual cluster' });
  const verdict = page.getByRole('region', { name: 'What will happen' });
  const out = async () => {
    await page.getByRole('button', { name: 'Sign out' }).click();
    await expect(page.getByLabel('User name')).toBeVisible();
  };
  await server.signIn(page, 'bob', '/submit');
  await expect(vc).toHaveValue('vc1');
  await expect(verdict).toContainText('Starts now');
  await out();
  await server.signIn(page, 'carol', '/submit');
  await expect(vc).toHaveValue('default');
  await out();

  // What a cluster of these tests does not have is put into the answers: two virtual clusters, and none is named default.
  for (const path of ['**/api/v1/vcs', '**/api/v1/me']) {
    await page.route(path, async (r) => {
      const answer = await r.fetch();
      await r.fulfill({ response: answer, body: (await answer.text()).replaceAll('"default"', '"another"') });
    });
  }
  await server.signIn(page, 'carol', '/submit');
  await expect(vc).toHaveValue('');
  await expect(vc).toHaveAttribute('placeholder', 'Choose one');
  await expect(page.getByRole('textbox', { name: 'Job file (YAML)' })).not.toContainText('virtualCluster');
  await vc.click();
  await page.getByRole('option', { name: 'vc1' }).click();
  await expect(page.getByRole('textbox', { name: 'Job file (YAML)' })).toContainText('virtualCluster: vc1');
  await expect(verdict).toContainText('Starts now');
});

test('templates: each is a job file without a mistake', async ({ page }) => {
  await server.signIn(page, 'alice', '/submit');
  const begin = page.getByRole('combobox', { name: 'Start from' });
  const verdict = page.getByRole('region', { name: 'What will happen' });
  await begin.click();
  const names = await page.getByRole('option').allTextContents();
  expect(names.length).toBe(18);
  await page.keyboard.press('Escape');
  for (const name of names) {
    await begin.click();
    await page.getByRole('option', { name, exact: true }).click();
    await expect(verdict).toHaveAttribute('aria-busy', 'false');
    await expect(verdict).toContainText(/Starts now|Waits|Can never start|cannot submit/);
    await expect(verdict).not.toContainText('mistake');
  }
});

test('the list sorts what it shows, and finds jobs by a tag', async ({ page }) => {
  for (const name of ['b-small', 'a-large', 'c-none']) {
    const made = (await server.submit(job(name, { gpus: name === 'a-large' ? 2 : 1 }))) as { id: number };
    if (name !== 'c-none') await server.api('PUT', `/jobs/${made.id}/tags/sorted`);
  }
  await server.signIn(page, 'carol', '/jobs?user=admin');
  const names = () => page.getByRole('table').getByRole('row').locator('td[data-narrow=title]').allTextContents();
  await expect.poll(names).toEqual(['admin~c-none', 'admin~a-large', 'admin~b-small']);
  await page.getByRole('button', { name: 'Job', exact: true }).or(page.getByRole('columnheader', { name: 'Name' }).getByRole('button')).first().click();
  await expect.poll(names).toEqual(['admin~a-large', 'admin~b-small', 'admin~c-none']);
  await expect(page).toHaveURL(/sort=name/);
  await page.getByRole('columnheader', { name: 'GPUs' }).getByRole('button').click();
  await page.getByRole('columnheader', { name: 'GPUs' }).getByRole('button').click();
  await expect.poll(async () => (await names())[0]).toBe('admin~a-large');
  await expect(page.getByRole('columnheader', { name: 'GPUs' })).toHaveAttribute('aria-sort', 'descending');
  await page.getByRole('link', { name: 'admin~a-large' }).click();
  await page.getByRole('link', { name: 'sorted', exact: true }).click();
  await expect.poll(names).toEqual(['admin~a-large', 'admin~b-small']);
  await accessible(page);
  await page.getByRole('button', { name: 'Remove the filter tag sorted' }).click();
  await expect.poll(async () => (await names()).length).toBeGreaterThan(2);
});

test('the controls of the list’s filters: state, virtual cluster, own jobs', async ({ page }) => {
  await server.submit(job('runs-here'));
  await server.submit(job('runs-there', { vc: 'vc1' }));
  await server.submit(job('waits-here', { gpus: 2 }));
  await server.signIn(page, 'carol', '/jobs');
  await page.evaluate(async (s) => (await fetch('/api/v1/jobs', { method: 'POST', headers: { 'Content-Type': 'application/yaml' }, body: s })).status, job('of-carol', { vc: 'vc1' }));
  const names = async () => (await page.getByRole('table').getByRole('row').locator('td[data-narrow=title]').allTextContents()).filter((n) => /runs|waits|of-carol/.test(n)).sort();
  const choose = async (box: string, option: string) => {
    await page.getByRole('combobox', { name: box }).click();
    await page.getByRole('option', { name: option, exact: true }).click();
  };
  await expect.poll(names).toEqual(['admin~runs-here', 'admin~runs-there', 'admin~waits-here', 'of-carol']);
  await choose('State', 'Running');
  await expect(page).toHaveURL(/state=Active/);
  await expect.poll(names).toEqual(['admin~runs-here', 'admin~runs-there', 'of-carol']);
  await choose('Virtual cluster', 'vc1');
  await expect(page).toHaveURL(/vc=vc1/);
  await expect.poll(names).toEqual(['admin~runs-there', 'of-carol']);
  await page.getByText('Mine', { exact: true }).click();
  await expect(page).toHaveURL(/user=carol/);
  await expect.poll(names).toEqual(['of-carol']);
  await choose('Virtual cluster', 'vc1'); // which is chosen no more
  await page.getByText('All', { exact: true }).click();
  await choose('State', 'Waiting');
  await expect.poll(names).toEqual(['admin~waits-here']);
  await choose('State', 'Waiting');
  await expect.poll(names).toEqual(['admin~runs-here', 'admin~runs-there', 'admin~waits-here', 'of-carol']);
});

test('the parts of a job’s page: one is marked', async ({ page }) => {
  const made = (await server.submit(job('parts'))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}`);
  const parts = page.getByRole('navigation', { name: 'Parts of the job' });
  for (const name of ['Log', 'Events', 'Job file', 'Overview']) {
    await parts.getByRole('link', { name }).click();
    await expect(parts.locator('[aria-current]')).toHaveText([name]);
  }
});
