import { expect, type Page, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, served } from './server';

// What a waiting job could be changed to, and copies of jobs: both open in Submit with the job's own file.

const server = served();

// submitted submits a file as the one who is signed in.
async function submitted(page: Page, source: string): Promise<number> {
  return page.evaluate(async (s) => ((await (await fetch('/api/v1/jobs', { method: 'POST', headers: { 'Content-Type': 'application/yaml' }, body: s })).json()) as { id: number }).id, source);
}

const comment = '# two would be faster';
const editor = (page: Page) => page.getByRole('textbox', { name: 'Job file (YAML)' });

test('a job that waits: what would let it start opens in Submit with the change made, the rest as it was', async ({ page }) => {
  const said = silent(page);
  await server.submit(job('fills'));
  await server.signIn(page, 'carol', '/jobs');
  const id = await submitted(page, job('asks-for-two', { gpus: 2 }).replace('type: job', `type: job ${comment}`));
  await page.goto(`${server.url}/jobs/${id}`);
  const why = page.getByRole('region', { name: 'Why it waits' });
  const fix = (name: RegExp) => why.getByRole('link', { name });
  await expect(why).toContainText('What would let it start');
  await expect(why).not.toContainText('No change of the job');
  await accessible(page);

  await fix(/^Open in Submit: it would start as an opportunistic job/).click();
  await expect(page.getByText(`A copy of job ${id}. That job has not ended`)).toBeVisible();
  await expect(page.getByRole('combobox', { name: 'Priority' })).toHaveValue(/^Opportunistic/);
  await expect(editor(page)).toContainText('jobPriorityClass: oppo');
  await expect(editor(page)).toContainText(comment);
  await page.goBack();

  await fix(/^Open in Submit: it would start in virtual cluster vc1/).click();
  await expect(page.getByRole('combobox', { name: 'Virtual cluster' })).toHaveValue('vc1');
  await expect(editor(page)).toContainText('virtualCluster: vc1');
  await expect(editor(page)).toContainText(comment);
  await page.goBack();

  await fix(/^Open in Submit: it would start with 1 GPU per task/).click();
  await expect(page.getByLabel('GPUs per task')).toHaveValue('1');
  await expect(page.getByLabel('Name', { exact: true })).toHaveValue('asks-for-two');
  await expect(editor(page)).toContainText('gpu: 1');
  await expect(editor(page)).toContainText(comment);
  const verdict = page.getByRole('region', { name: 'What will happen' });
  await expect(verdict).toContainText('has not ended yet: stop it first, or choose another name');
  await server.api('POST', `/jobs/${id}/stop`, {});
  await expect(verdict).toContainText('Starts now');
  await expect(page.getByText(`A copy of job ${id}`)).not.toContainText('has not ended');
  await page.getByRole('button', { name: 'Submit' }).click();
  await expect(page.getByRole('heading', { name: 'asks-for-two' })).toBeVisible();
  await expect(page.locator('header').getByText('Running')).toBeVisible();
  expect(said).toEqual([]);
});

test('a priority between the classes is shown as it is, and a class takes its place', async ({ page }) => {
  await server.signIn(page, 'carol', '/jobs');
  const id = await submitted(page, job('own-priority').replace('hivedScheduler: {jobPriorityClass: test}', 'hivedScheduler:\n    jobPriorityClass: test'));
  await page.goto(`${server.url}/submit?from=${id}&priority=11`); // as a suggestion has it
  const priority = page.getByRole('combobox', { name: 'Priority' });
  await expect(priority).toHaveValue('11 (from the file)');
  const verdict = page.getByRole('region', { name: 'What will happen' });
  await page.getByLabel('Name', { exact: true }).fill('of-another-name');
  await expect(verdict).toContainText('Starts now');
  await priority.click();
  await page.getByRole('option', { name: 'Production' }).click();
  await expect(editor(page)).toContainText('jobPriorityClass: prod');
  await expect(editor(page)).not.toContainText('priority: 11');
  await expect(editor(page)).toContainText('timeLimit: 15m');
  await expect(verdict).toHaveAttribute('aria-busy', 'false');
  await expect(verdict).toContainText('Starts now');
});

test('a clone opens with the job’s file; its secrets are to be put in again', async ({ page }) => {
  await server.signIn(page, 'alice', '/jobs');
  const plain = await submitted(page, job('plain').replace('type: job', `type: job ${comment}`));
  await page.goto(`${server.url}/jobs/${plain}`);
  await page.getByRole('link', { name: 'Clone' }).click();
  await expect(page.getByLabel('Name', { exact: true })).toHaveValue('plain');
  await expect(editor(page)).toContainText(comment);
  await expect(page.getByText('The secrets of the job are masked')).toHaveCount(0);

  const secret = await submitted(page, `${job('with-a-secret')}secrets: {token: not-for-all}\n`);
  await page.goto(`${server.url}/jobs/${secret}`);
  await page.getByRole('link', { name: 'Clone' }).click();
  await expect(page.getByText('The secrets of the job are masked')).toBeVisible();
  await expect(editor(page)).toContainText('******');
  expect(await page.content()).not.toContain('not-for-all');
  await accessible(page);
});

test('what is told of a fetch stands on the job’s page as long as the server tells it', async ({ page }) => {
  await server.submit(job('fills', { gpus: 2 }));
  const made = (await server.submit(job('fetches', { gpus: 2 }))) as { id: number };
  // These tests have no registry: its words are put into the answers.
  const words = ['image train:1 is fetched by node-a: 40 %', 'the registry is asked again in 30 s'];
  let told = words;
  await page.route(`**/api/v1/jobs/${made.id}`, async (r) => {
    const answer = await r.fetch();
    await r.fulfill({ response: answer, json: { ...((await answer.json()) as object), notices: told } });
  });
  await server.signIn(page, 'carol', `/jobs/${made.id}`);
  const notices = page.getByRole('region', { name: 'Notices' });
  await expect(notices.getByRole('listitem')).toHaveText(words);
  told = words.slice(1);
  await server.api('POST', `/jobs/${made.id}/update`, { priority: 9 });
  await expect(notices.getByRole('listitem')).toHaveText(told);
  told = [];
  await server.api('POST', `/jobs/${made.id}/update`, { priority: 8 });
  await expect(page.locator('article > header')).toContainText('Priority 8');
  await expect(notices).toHaveCount(0);
});
