import { expect, type Locator, type Page, type Route, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, Server } from './server';

// Every page says that it loads, that it failed, and that it has nothing.

const server = new Server();
let id = 0;

test.beforeAll(async () => {
  await server.start();
  await server.people();
  id = ((await server.submit(job('here', { instances: 2, command: "'echo a line of it; sleep 600'" }))) as { id: number }).id;
});

test.afterAll(() => server.stop());

interface Shown {
  name: string;
  path: () => string;
  api: RegExp; // what the page is about
  there: (page: Page) => Locator; // what shows that it came
  alone?: boolean; // it tries again by itself
}

const main = (page: Page) => page.locator('main');
const pages: Shown[] = [
  { name: 'Home', path: () => '/', api: /v1\/jobs\?/, there: (p) => main(p).getByText('You have no jobs that wait or run') },
  { name: 'Jobs', path: () => '/jobs', api: /v1\/jobs\?/, there: (p) => main(p).getByRole('link', { name: 'admin~here' }) },
  { name: 'a job', path: () => `/jobs/${id}`, api: /v1\/jobs\/\d+$/, there: (p) => main(p).getByRole('table', { name: 'Tasks' }) },
  { name: 'its log', path: () => `/jobs/${id}?tab=log`, api: /\/logs\?/, there: (p) => main(p).getByText('a line of it'), alone: true },
  { name: 'the logs of all its tasks', path: () => `/jobs/${id}?tab=log&task=all`, api: /\/logs\?/, there: (p) => main(p).getByText('main-1 | a line of it'), alone: true },
  { name: 'its events', path: () => `/jobs/${id}?tab=events`, api: /v1\/jobs\/\d+\/events/, there: (p) => main(p).getByText('JobSubmitted') },
  { name: 'its file', path: () => `/jobs/${id}?tab=file`, api: /v1\/jobs\/\d+\/config/, there: (p) => main(p).getByText('protocolVersion: 2') },
  { name: 'Submit', path: () => '/submit', api: /v1\/vcs$/, there: (p) => main(p).getByRole('combobox', { name: 'Virtual cluster' }) },
  { name: 'Virtual clusters', path: () => '/vcs', api: /v1\/vcs$/, there: (p) => main(p).getByRole('link', { name: 'default' }) },
  { name: 'one of them', path: () => '/vcs/default', api: /v1\/vcs$/, there: (p) => main(p).getByRole('img', { name: 'LAB-NODE: ' }) },
  { name: 'Nodes', path: () => '/nodes', api: /v1\/cells$/, there: (p) => main(p).getByRole('button', { name: /^node-a/ }) },
  { name: 'Users', path: () => '/users', api: /v1\/users$/, there: (p) => main(p).getByRole('table', { name: 'Users' }) },
  { name: 'My tokens', path: () => '/tokens', api: /v1\/tokens$/, there: (p) => main(p).getByRole('table', { name: 'My tokens' }) },
  { name: 'Configuration', path: () => '/configuration', api: /v1\/config\/file$/, there: (p) => main(p).getByText('physicalCluster') },
];

test('every page says that it loads', async ({ page }) => {
  await server.signIn(page, 'carol', '/tokens');
  for (const { name, path, api, there } of pages) {
    await test.step(name, async () => {
      let open = () => {};
      const held = new Promise<void>((resolve) => {
        open = resolve;
      });
      await page.route(api, async (r) => {
        await held;
        await r.continue();
      });
      await page.goto(server.url + path());
      await expect(main(page).getByRole('status').filter({ hasText: /Loading|Reading/ }).first(), name).toBeAttached();
      await expect(there(page), name).toHaveCount(0);
      open();
      await expect(there(page), name).toBeVisible();
      await expect(main(page).getByRole('status').filter({ hasText: /Loading|Reading/ }), name).toHaveCount(0);
      await page.unroute(api);
    });
  }
});

test('every page says that it failed, and tries again when it is asked to', async ({ page }) => {
  // What happens is not told: nothing is asked for again but by the button.
  await page.addInitScript(() => Reflect.deleteProperty(window, 'SharedWorker'));
  await page.route('**/api/v1/events?*', () => {});
  await server.signIn(page, 'carol', '/tokens');
  const problem = { status: 500, contentType: 'application/problem+json', body: '{"status":500,"title":"","code":"","detail":"the disk is full"}' };
  for (const { name, path, api, there, alone } of pages) {
    await test.step(name, async () => {
      let broken = true;
      const answer = (r: Route) => (broken ? r.fulfill(problem) : r.continue());
      await page.route(api, answer);
      await page.goto(server.url + path());
      const alert = main(page).getByRole('alert').first();
      await expect(alert, name).toContainText('This could not be loaded');
      await expect(alert, name).toContainText('the disk is full');
      const again = alert.getByRole('button', { name: 'Try again' });
      if (name === 'a job') await accessible(page);
      if (alone) await again.click();
      broken = false;
      if (!alone) await again.click();
      await expect(there(page), name).toBeVisible();
      await expect(main(page).getByRole('alert'), name).toHaveCount(0);
      await page.unroute(api, answer);
    });
  }
});

test('what has nothing says so, and what to do', async ({ page }) => {
  const said = silent(page);
  await server.api('POST', '/users', { users: [{ name: 'eve', password: server.password }] });
  await server.signIn(page, 'eve', '/');
  await expect(page.getByText('You have no jobs that wait or run')).toBeVisible();
  await expect(page.getByText('You are in no virtual cluster')).toBeVisible();
  await expect(main(page).getByRole('link', { name: 'Submit a job' })).toBeVisible();
  await accessible(page);
  await page.goto(`${server.url}/jobs`);
  await expect(page.getByText('No jobs yet')).toBeVisible();
  await page.goto(`${server.url}/jobs?state=Failed`);
  await expect(page.getByText('No job matches these filters')).toBeVisible();
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await expect(page.getByText('No jobs yet')).toBeVisible();
  await page.goto(`${server.url}/vcs/vc1`);
  await expect(page.getByText('No job waits')).toBeVisible();
  await expect(page.getByText('No job runs')).toBeVisible();
  await page.goto(`${server.url}/vcs/none-such`);
  await expect(page.getByText('This does not exist, or you may not see it')).toBeVisible();

  await page.context().clearCookies();
  await server.signIn(page, 'carol', '/');
  const quiet = (await server.submit(job('quiet', { vc: 'vc1' }))) as { id: number };
  await page.goto(`${server.url}/jobs/${quiet.id}?tab=log`);
  await expect(page.getByText('No output yet')).toBeVisible();
  // What a server always has one of at least is taken out of its answers.
  for (const [api, path, words] of [['tokens', '/tokens', 'You have no tokens'], [`jobs/${id}/events?*`, `/jobs/${id}?tab=events`, 'Nothing has happened yet'], ['users', '/users', 'There are no users yet'], ['nodes', '/nodes', 'There are no nodes'], ['vcs', '/vcs', 'There are no virtual clusters']] as const) {
    await page.route(`**/api/v1/${api}`, (r) => r.fulfill({ json: { tokens: [], events: [], users: [], nodes: [], vcs: [] } }));
    await page.goto(server.url + path);
    await expect(page.getByText(words)).toBeVisible();
    await page.unroute(`**/api/v1/${api}`);
  }
  expect(said).toEqual([]);
});

test('pages that no other test looks at: tabs of a job, one that failed, virtual clusters with jobs, the door above a page', async ({ page }) => {
  const fails = (await server.submit(job('fails', { vc: 'vc1', command: "'echo it ends badly >&2; exit 3'" }))) as { id: number };
  await server.submit(job('waits-for-it', { gpus: 2 }));
  await server.signIn(page, 'carol', `/jobs/${fails.id}?tab=overview`);
  await expect(page.locator('header').getByText('Failed')).toBeVisible();
  await expect(page.getByRole('region', { name: 'How it ended' })).toContainText('Next step');
  await accessible(page);
  await page.goto(`${server.url}/jobs/${fails.id}?tab=events`);
  await expect(page.getByRole('table', { name: 'Events' })).toContainText('JobSubmitted');
  await accessible(page);
  await page.goto(`${server.url}/jobs/${fails.id}?tab=file`);
  await expect(main(page).getByText('protocolVersion: 2')).toBeVisible();
  await accessible(page);
  await page.goto(`${server.url}/vcs`);
  await expect(main(page).getByRole('listitem').filter({ hasText: 'default' })).toContainText('1 waiting');
  await accessible(page);
  await page.goto(`${server.url}/vcs/default`);
  await expect(page.getByRole('region', { name: 'Waiting jobs' })).toContainText('waits-for-it');
  const bound = page.getByRole('region', { name: 'Guaranteed cells' });
  await expect(bound.getByRole('img', { name: 'LAB-NODE: 1 of 1 bound' })).toBeVisible();
  await expect(bound.getByRole('row').last()).toContainText(/LAB-NODE.*11$/);
  await accessible(page);
  await page.context().clearCookies();
  await page.getByRole('link', { name: 'My tokens' }).click();
  await expect(page.getByRole('dialog', { name: 'Your session is over' })).toBeVisible();
  await accessible(page);
});
