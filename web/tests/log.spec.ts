import { writeFileSync } from 'node:fs';
import { expect, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, served } from './server';

const server = served();

const ended = (id: number, phase: string) => expect.poll(async () => ((await server.api('GET', `/jobs/${id}`)) as { phase: string }).phase).toBe(phase);

test('a failed job opens at its first error, which is on standard error alone', async ({ page }) => {
  const errors = silent(page);
  // The errors come when all before them was read: of two outputs the order is that in which they are read.
  const program = 'echo "in $PWD now"; seq 1 300; until test -e go; do sleep 0.1; done; echo "Traceback (most recent call last):" >&2; echo "RuntimeError: shapes do not fit" >&2; for i in $(seq 1 300); do echo "more $i" >&2; done; exit 3';
  const made = (await server.submit(job('fails', { command: JSON.stringify(program) }))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}?tab=log`);
  await expect(page.getByRole('log').getByText('300', { exact: true })).toBeVisible();
  await page.getByRole('log').press('Home');
  await expect(page.getByRole('log')).toContainText(/in \/\S+ now/);
  writeFileSync(`${/in (\/\S+) now/.exec((await page.getByRole('log').textContent()) ?? '')?.[1] ?? ''}/go`, '');
  await ended(made.id, 'Failed');
  await page.goto(`${server.url}/jobs/${made.id}`);
  const parts = page.getByRole('navigation', { name: 'Parts of the job' });
  await expect(parts.locator('[aria-current]')).toHaveText(['Log']);
  const log = page.getByRole('log');
  const first = log.getByText('Traceback (most recent call last):');
  await expect(first).toBeInViewport();
  await expect(first).toHaveAttribute('data-mark', 'at');
  await expect(log.getByText('RuntimeError: shapes do not fit')).toHaveAttribute('data-error', 'true');
  await expect(log.getByText('300', { exact: true })).not.toHaveAttribute('data-error');
  // What the colour tells is said to those who do not see it, once for lines that stand together, and not copied.
  const said = log.locator('.hidden');
  await expect(said).toHaveText(['standard error: ']);
  await expect(said).toHaveCSS('user-select', 'none');
  await expect(first).toHaveText('standard error: Traceback (most recent call last):');
  await expect(page.getByRole('region', { name: 'How it ended' })).toContainText('code 3');
  await accessible(page);

  await log.press('End');
  await expect(log.getByText('more 300')).toBeInViewport();
  await page.getByRole('button', { name: 'First error' }).click();
  await expect(first).toBeInViewport();
  await parts.getByRole('link', { name: 'Overview' }).click();
  await expect(page.getByRole('table', { name: 'Tasks' })).toBeVisible();
  await expect(parts.locator('[aria-current]')).toHaveText(['Overview']);
  expect(errors).toEqual([]);
});

test('of several tasks the one that failed first is shown, and which output is a click', async ({ page }) => {
  const program = 'echo "out $PAI_TASK_INDEX"; if test "$PAI_TASK_INDEX" = 1; then echo "ValueError: bad rank" >&2; exit 2; fi; sleep 600';
  const made = (await server.submit(job('rank', { instances: 2, command: JSON.stringify(program) }))) as { id: number };
  await ended(made.id, 'Failed');
  await server.signIn(page, 'carol', `/jobs/${made.id}`);
  const log = page.getByRole('log', { name: 'Log of main-1' });
  await expect(log.getByText('ValueError: bad rank')).toHaveAttribute('data-mark', 'at');
  await expect(log).toContainText('out 1');
  await page.getByText('Errors', { exact: true }).click();
  await expect(page).toHaveURL(/output=stderr/);
  await expect(log).not.toContainText('out 1');
  await expect(log).toContainText('ValueError: bad rank');
  await page.getByText('Output', { exact: true }).click();
  await expect(log).toContainText('out 1');
  await expect(log).not.toContainText('ValueError');
  await page.getByText('Both', { exact: true }).click();
  await expect(page).not.toHaveURL(/output=/);
  await expect(log).toContainText('ValueError: bad rank');
});

test('a log stays where its reader is, though the job fails meanwhile', async ({ page }) => {
  const program = 'echo "in $PWD now"; seq 1 200; if test "$PAI_TASK_INDEX" = 1; then until test -e fail; do sleep 0.1; done; echo "ValueError: bad rank" >&2; seq 1 200; exit 2; fi; sleep 600';
  const made = (await server.submit(job('later', { instances: 2, command: JSON.stringify(program) }))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}?tab=log`);
  await page.getByRole('combobox', { name: 'Task' }).click();
  await page.getByRole('option', { name: 'main-1' }).click();
  const log = page.getByRole('log');
  await expect(log).toContainText('200');
  await log.press('Home');
  await expect(log).toContainText(/in \/\S+ now/);
  const folder = /in (\/\S+) now/.exec((await log.textContent()) ?? '')?.[1] ?? '';
  // Two read it: one the task that fails, one none that was named.
  const other = await page.context().newPage();
  await other.goto(`${server.url}/jobs/${made.id}?tab=log`);
  await expect(other.getByRole('log', { name: 'Log of main-0' })).toContainText('200');
  writeFileSync(`${folder}/fail`, '');
  await ended(made.id, 'Failed');

  await page.bringToFront();
  const button = page.getByRole('button', { name: 'First error' });
  await expect(button).toBeVisible();
  await expect(log.getByText(`in ${folder}`)).toBeInViewport();
  await expect(log.locator('[data-mark=at]')).toHaveCount(0);
  await button.click();
  await expect(log.getByText('ValueError: bad rank')).toHaveAttribute('data-mark', 'at');

  await other.bringToFront();
  await expect(other.locator('header').getByText('Failed')).toBeVisible();
  await expect(other.getByText('The task has ended')).toBeVisible();
  await expect(other.getByRole('log', { name: 'Log of main-0' })).toBeVisible();
  await expect(other.getByRole('navigation', { name: 'Parts of the job' }).locator('[aria-current]')).toHaveText(['Log']);
  await other.close();
});

test('both outputs are followed in the order in which they are printed', async ({ page }) => {
  const program = 'for i in 1 2 3; do until test -e go$i; do sleep 0.1; done; echo "out $i"; until test -e err$i; do sleep 0.1; done; echo "err $i" >&2; done; sleep 600';
  const made = (await server.submit(job('talks', { command: JSON.stringify(`echo "in $PWD"; ${program}`) }))) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}?tab=log`);
  const log = page.getByRole('log');
  await expect(log).toContainText(/in \/\S+/);
  const folder = /in (\/\S+?)(?:out|standard|$)/.exec((await log.textContent()) ?? '')?.[1] ?? '';
  for (const i of [1, 2, 3]) {
    writeFileSync(`${folder}/go${i}`, '');
    await expect(log).toContainText(`out ${i}`);
    writeFileSync(`${folder}/err${i}`, '');
    await expect(log).toContainText(`err ${i}`);
  }
  const order = ['out 1', 'standard error: err 1', 'out 2', 'standard error: err 2', 'out 3', 'standard error: err 3'];
  await expect(log).toContainText(order.join(''));
  await page.reload();
  await expect(log).toContainText(order.join(''));
  await expect(page.getByText('Live')).toBeVisible();
});
