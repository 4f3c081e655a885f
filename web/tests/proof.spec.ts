import { execFileSync } from 'node:child_process';
import { expect, type Page, test } from '@playwright/test';
import { accessible } from './axe';
import { job, served } from './server';

const server = served();

test('ten tabs over HTTP/1.1 are all live, by one stream of events', async ({ page, context }) => {
  await server.signIn(page, 'carol', '/jobs');
  const streams: string[] = [];
  context.on('request', (r) => {
    if (r.url().includes('/events?') && r.url().includes('follow')) streams.push(r.url());
  });
  const tabs = [page];
  for (let i = 1; i < 10; i++) {
    const tab = await context.newPage();
    await tab.goto(`${server.url}/jobs`);
    await expect(tab.getByRole('heading', { name: 'Jobs' })).toBeVisible();
    tabs.push(tab);
  }
  await server.submit(job('for-all-tabs'));
  for (const tab of tabs) await expect(tab.getByRole('row').filter({ hasText: 'for-all-tabs' })).toContainText('Running');
  expect(streams.length).toBeLessThanOrEqual(2);
  // The tab that was there first is closed: another one goes on.
  await page.close();
  await server.submit(job('after-the-first'));
  for (const tab of tabs.slice(1)) await expect(tab.getByRole('row').filter({ hasText: 'after-the-first' })).toBeVisible();
});

test('a log of 100 MB: its end, a search, back to the middle, and lines before those that were read', async ({ page }) => {
  const made = (await server.submit(
    job('large-log', { command: `'awk "BEGIN { for (i = 0; i < 1300000; i++) print \\"line \\" i \\" of a log that is long enough to fill one hundred megabytes, with a text\\" }"; echo the-last-line; sleep 600'` }),
  )) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}?tab=log`);
  const log = page.getByRole('log');
  await expect(log).toContainText('the-last-line');
  await page.getByLabel('Find in the log').fill('line 1299998 of');
  await expect(page.getByRole('status').filter({ hasText: '1 line found' })).toBeVisible();
  await page.getByLabel('Find in the log').press('Enter');
  await expect(page.getByRole('status').filter({ hasText: '1 of 1 found' })).toBeVisible();
  await expect(log).toContainText('line 1299998 of a log');
  await page.getByLabel('Find in the log').fill('');
  await log.focus();
  await page.keyboard.press('Home');
  await expect(log).not.toContainText('the-last-line');
  await expect.poll(() => log.evaluate((e) => e.scrollTop)).toBe(0); // the browser scrolls there in steps
  await page.keyboard.press('End');
  await expect(log).toContainText('the-last-line');
  const nodes = await log.evaluate((e) => e.querySelectorAll('*').length);
  expect(nodes).toBeLessThan(500); // what is not seen is not there

  // A search is of the lines that were read, and says so; earlier ones come by a button, and what is read stays in sight.
  await page.reload(); // it was read from its beginning on before
  await expect(log).toContainText('the-last-line');
  const find = page.getByRole('search', { name: 'Search' }).getByRole('status');
  await page.getByLabel('Find in the log').fill('line 1288000 of');
  await expect(find).toHaveText(/^No line found in the last 10,00\d lines \(older lines not searched\)$/);
  await expect(page.getByText('Download has the complete log')).toBeVisible();
  await log.focus();
  await page.keyboard.press('Home');
  await expect(log).toContainText('line 1290010 of');
  await page.getByRole('button', { name: 'Earlier lines' }).click();
  await expect(find).toHaveText(/^1 line found in the last 2\d,\d\d\d lines \(older lines not searched\)$/);
  await expect(log).toContainText('line 1290010 of');
  await page.getByLabel('Find in the log').press('Enter');
  await expect(log.locator('[data-mark=at]')).toContainText('line 1288000 of a log');
});

test('the logs of all tasks in one view, each line behind the name of its task', async ({ page }) => {
  const made = (await server.submit(
    job('two-tasks', { instances: 2, command: `'for i in 1 2 3; do echo "line $i of task $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"; sleep 0.5; done; printf unfinished'` }),
  )) as { id: number };
  await server.signIn(page, 'carol', `/jobs/${made.id}?tab=log`);
  const log = page.getByRole('log');
  await expect(log).toContainText('line 1 of task 0');
  await page.getByRole('combobox', { name: 'Task' }).click();
  await page.getByRole('option', { name: 'all tasks' }).click();
  for (const task of [0, 1]) {
    for (const line of [1, 2, 3]) await expect(log).toContainText(`main-${task} | line ${line} of task ${task}`);
    await expect(log).toContainText(`main-${task} | unfinished`);
  }
  await page.getByLabel('Find in the log').fill('line 2');
  await expect(page.getByRole('status').filter({ hasText: '2 lines found' })).toBeVisible();
  await page.getByText('Only lines found').click();
  await expect(log).not.toContainText('line 3');
  await accessible(page);
  // All of them as one archive, which is whole and has each stream of each task.
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'All logs' }).click()]);
  expect(file.suggestedFilename()).toBe(`two-tasks-${made.id}-logs.zip`);
  const listed = execFileSync('python3', ['-m', 'zipfile', '-l', await file.path()]).toString();
  for (const name of ['main-0.stdout.log', 'main-0.stderr.log', 'main-1.stdout.log', 'main-1.stderr.log']) expect(listed).toContain(name);
});

interface Stop {
  at: string; // what has the focus, "end" for nothing
  main: boolean; // it is within the page itself, not beside it
  bare: string; // what had the focus before, if nothing looked otherwise while it had
}

// stop says what has the focus. What had it at the last call is looked at once more: it, its label or something around it must have
// had another ring then.
function stop(page: Page): Promise<Stop> {
  return page.evaluate(async () => {
    const rings = (e: Element) => {
      const around: Element[] = e instanceof HTMLInputElement ? [...(e.labels ?? [])] : [];
      for (let up: Element | null = e; up; up = up.parentElement) around.push(up);
      return around.map((one) => getComputedStyle(one)).map((s) => `${s.outlineStyle} ${s.outlineWidth} ${s.boxShadow}`).join('\n');
    };
    const kept: { last?: { e: Element; at: string; rings: string } | undefined } = Reflect.get(window, 'kept') ?? {};
    Reflect.set(window, 'kept', kept);
    const { last } = kept;
    if ([last?.e, document.activeElement].some((one) => one?.closest('.cm-editor'))) await new Promise((resolve) => setTimeout(resolve, 50)); // an editor shows it a little later
    const bare = last?.e.isConnected && last.e !== document.activeElement && rings(last.e) === last.rings ? last.at : '';
    const e = document.activeElement;
    kept.last = undefined;
    if (!e || e === document.body) return { at: 'end', main: false, bare };
    const r = e.getBoundingClientRect();
    const at = `${e.tagName} ${e.getAttribute('aria-label') ?? e.textContent?.slice(0, 40) ?? ''} ${Math.round(r.top + scrollY)} ${Math.round(r.left)}`;
    kept.last = { e, at, rings: rings(e) };
    return { at, main: e.closest('main') !== null, bare };
  });
}

test('by keyboard alone through all pages', async ({ page }) => {
  const made = (await server.submit(job('keys'))) as { id: number };
  await server.signIn(page, 'carol', '/');
  for (const path of ['/', '/jobs', `/jobs/${made.id}`, `/jobs/${made.id}?tab=log`, '/submit', '/vcs', '/vcs/default', '/nodes', '/users', '/tokens', '/configuration']) {
    await page.goto(server.url + path);
    await expect(page.getByRole('heading').first()).toBeVisible();
    await expect(page.locator('main [aria-busy=true]')).toHaveCount(0);
    const seen = new Set<string>();
    let within = 0; // stops in the page itself
    let trapped = 0;
    let before = '';
    for (let i = 0; i < 150; i++) {
      await page.keyboard.press('Tab');
      const { at, main, bare } = await stop(page);
      expect(bare, `${path}: the focus is not to be seen`).toBe('');
      if (at === 'end') break;
      if (main) within++;
      trapped = at === before ? trapped + 1 : 0;
      expect(trapped, `${path}: Tab stays at ${at}`).toBeLessThan(3);
      before = at;
      if (seen.has(at) && i > 60) break;
      seen.add(at);
    }
    expect(seen.size, path).toBeGreaterThan(8);
    expect(within, `${path}: stops in the page itself`).toBeGreaterThan(0);
  }
  await accessible(page);
});

test('what is not there, what cannot be read, and what is too much, is said', async ({ page }) => {
  await server.signIn(page, 'bob', '/jobs/999999');
  await expect(page.getByRole('alert')).toContainText('you may not see it');
  await page.goto(`${server.url}/nothing-here`);
  await expect(page.getByRole('heading').first()).toBeVisible();
  await accessible(page);
  await page.goto(`${server.url}/jobs?name=no-such-name`);
  await expect(page.getByText('No job matches').or(page.getByText('match')).first()).toBeVisible();
  await page.route('**/api/v1/vcs', (r) => r.abort());
  await page.goto(`${server.url}/vcs`);
  await expect(page.getByRole('alert').first()).toBeVisible();
  await accessible(page);
  await page.unroute('**/api/v1/vcs');
  // The page looks again by itself every ten seconds; that its button does so too is for states.spec.ts.
  await expect(page.getByRole('link', { name: 'default' })).toBeVisible();
});
