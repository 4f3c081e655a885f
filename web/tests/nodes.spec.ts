import { expect, test } from '@playwright/test';
import { accessible, silent } from './axe';
import { job, served } from './server';

const server = served();

interface CellOf {
  node?: string;
  healthy: boolean;
  state: string;
  children?: CellOf[];
}

function leavesOf(cells: CellOf[]): CellOf[] {
  return cells.flatMap((c) => (c.children ? leavesOf(c.children) : [c]));
}

test('nodes by health: each state has a letter or a mark, which the legend tells', async ({ page }) => {
  const said = silent(page);
  await server.submit(job('on-a-node', { time: '3h' })); // longer than the deadline that is offered
  await server.api('POST', '/nodes/node-b/cordon', { reason: 'a new fan' });
  await server.signIn(page, 'carol', '/nodes');
  await page.getByText('Health', { exact: true }).click();
  await expect(page).toHaveURL(/by=health/);
  const legend = page.getByRole('list', { name: 'Legend' });
  for (const words of ['free', 'U in use', 'bad', 'S on a suspect node', 'D on a node that is down or declared dead', 'C on a node that is cordoned or drains']) await expect(legend.getByRole('listitem').filter({ hasText: new RegExp(`^\\s*${words}$`) })).toHaveCount(1);
  await expect(page.getByTitle(/node-a.*in use/)).toHaveText('U');
  await expect(page.getByTitle(/node-a.*, free/)).toHaveText('');
  await expect(page.getByTitle(/node-b.*, free, on a node that is cordoned or drains/)).toHaveText(['C', 'C']);
  await accessible(page);
  await page.getByText('State', { exact: true }).click();
  await expect(legend).toContainText('kept for a job');
  await expect(legend).toContainText('in use');
  await expect(page.getByTitle(/node-b.*, bad/)).toHaveCount(0); // its GPUs are well

  // What a small cluster does not have by itself is put into the answers: a bad GPU, and a node that is down.
  await page.route('**/api/v1/nodes', async (r) => {
    const answer = await r.fetch();
    const list = (await answer.json()) as { nodes: { name: string; up: boolean }[] };
    for (const n of list.nodes) if (n.name === 'node-b') n.up = false;
    await r.fulfill({ response: answer, json: list });
  });
  await page.route('**/api/v1/cells', async (r) => {
    const answer = await r.fetch();
    const list = (await answer.json()) as { cells: CellOf[] };
    const free = leavesOf(list.cells).find((l) => l.node === 'node-a' && l.state === 'Free');
    if (free) free.healthy = false;
    await r.fulfill({ response: answer, json: list });
  });
  await page.goto(`${server.url}/nodes?by=health&node=node-b`);
  await expect(page.getByTitle(/node-a.*, free, bad/)).toHaveText('×');
  await expect(page.getByTitle(/node-b.*down or declared dead/)).toHaveText(['D', 'D']);
  await expect(page.getByRole('complementary', { name: 'node-b' })).toContainText('The node does not answer. Its jobs may still run');
  await accessible(page);
  await server.api('POST', '/nodes/node-b/uncordon', {});
  expect(said).toEqual([]);
});

test('from a used GPU to its job, and what a drain hits', async ({ page }) => {
  await server.submit(job('on-a-node', { time: '3h' })); // longer than the deadline that is offered
  await server.signIn(page, 'carol', '/nodes');
  await page.getByTitle(/node-[ab].*in use/).click();
  const panel = page.getByRole('complementary', { name: /^node-[ab]$/ });
  await expect(panel.getByRole('link', { name: 'admin~on-a-node' })).toBeVisible();
  await panel.getByRole('button', { name: 'Drain' }).click();
  const ask = page.getByRole('dialog');
  await expect(ask).toContainText('Affected jobs');
  await expect(ask.getByRole('listitem').filter({ hasText: 'admin~on-a-node' })).toContainText(/is stopped, and starts again on node-[ab]/);
  await expect(ask.getByRole('link', { name: 'admin~on-a-node' })).toBeVisible();
  await ask.getByLabel('Reason (users see it)').fill('new memory');
  await ask.getByRole('button', { name: 'Drain' }).click();
  await expect(panel).toContainText(/Running jobs must leave the node\. Deadline: (in 5\d min|\d\d:\d\d)/);

  // The owner of the job is told it on the job's page, and there is no such line when the drain is taken back.
  const coming = page.getByText(/node node-[ab] is drained \(new memory\): the job is told to stop/);
  await panel.getByRole('link', { name: 'admin~on-a-node' }).click();
  await expect(page.getByRole('heading', { name: 'What happens next' })).toBeVisible();
  await expect(coming).toBeVisible();
  await page.goBack();
  await panel.getByRole('button', { name: 'Uncordon' }).click();
  await ask.getByRole('button', { name: 'Uncordon' }).click();
  await expect(panel).not.toContainText('must leave the node');
  await panel.getByRole('link', { name: 'admin~on-a-node' }).click();
  await expect(page.getByRole('heading', { name: 'on-a-node' })).toBeVisible();
  await expect(coming).not.toBeVisible();

  // A node without jobs has nothing that a drain hits.
  await page.goto(`${server.url}/nodes`);
  await page.getByRole('button', { name: /^node-[ab] 0 \/ 2/ }).click();
  await panel.getByRole('button', { name: 'Drain' }).click();
  await expect(ask.getByLabel('Deadline in minutes (0: at once)')).toBeVisible();
  await expect(ask).toContainText('No job runs on it.');
  await expect(ask).not.toContainText('Affected jobs');
});

test('why a node takes nothing: its reason, and what its GPUs have, in the table and beside the cells', async ({ page }) => {
  // A cluster of pretended GPUs has no driver that could go away: that is put into the answers.
  await page.route('**/api/v1/nodes', async (r) => {
    const answer = await r.fetch();
    const list = (await answer.json()) as { nodes: { name: string; skus: { bad: number; total: number; fault?: string; pretended?: boolean }[] }[] };
    for (const n of list.nodes) if (n.name === 'node-b') n.skus = n.skus.map((s) => ({ ...s, bad: s.total, fault: 'the driver is not there: /dev/nvidiactl is missing', pretended: false }));
    await r.fulfill({ response: answer, json: list });
  });
  await server.signIn(page, 'carol', '/nodes?as=table&node=node-b');
  const row = (name: string) => page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: name });
  await expect(row('node-b')).toContainText('the driver is not there: /dev/nvidiactl is missing');
  await expect(row('node-b')).toContainText('2 of 2 LAB-GPU');
  await expect(row('node-a')).not.toContainText('driver');
  await expect(page.getByRole('complementary', { name: 'node-b' })).toContainText('2 bad: the driver is not there: /dev/nvidiactl is missing');
  await accessible(page);
});

test('a node whose GPUs a pod of others holds: in the table, beside the cells, on Home, and as what a job waits for', async ({ page }) => {
  // Only a cluster of Kubernetes has such pods: they are put into the answers.
  const waits = (await server.submit(job('waits-for-others', { gpus: 2 }))) as { id: number };
  await page.route('**/api/v1/nodes', async (r) => {
    const answer = await r.fetch();
    const list = (await answer.json()) as { nodes: { name: string; skus: { total: number; held_by_others?: number; holders?: string }[] }[] };
    for (const n of list.nodes) if (n.name === 'node-b') n.skus = n.skus.map((s) => ({ ...s, held_by_others: s.total, holders: '2 GPUs held by tenant/<b>thief</b>' }));
    await r.fulfill({ response: answer, json: list });
  });
  await page.route('**/api/v1/cells', async (r) => {
    const answer = await r.fetch();
    const list = (await answer.json()) as { cells: CellOf[] };
    for (const l of leavesOf(list.cells)) if (l.node === 'node-b') l.healthy = false;
    await r.fulfill({ response: answer, json: list });
  });
  const message = 'it would fit if others held no devices of node-b (node-b: 2 GPUs held by tenant/<b>thief</b>)';
  const fix = { kind: 'others', message: 'it would start if others held no devices of node-b' };
  await page.route(`**/api/v1/jobs/${waits.id}`, async (r) => {
    const answer = await r.fetch();
    await r.fulfill({ response: answer, json: { ...(await answer.json()), phase: 'Waiting', attempts: [], tasks: [] } });
  });
  await page.route(`**/api/v1/jobs/${waits.id}/explain`, (r) =>
    r.fulfill({
      json: {
        ref: 'waits-for-others', job: waits.id, name: 'waits-for-others', vc: 'default', phase: 'Waiting',
        gangs: [{
          gang: 0, name: 'default', suggestions: [fix], reason: { code: 'HeldByOthers', message, need: 2, free: 0, total: 2, asks: '2 GPUs' },
          levels: [{ chain: 'LAB-NODE', level: 1, type: 'LAB-NODE', wanted: 1, cells: 1, owned: 1, unused: 1, free: 0, held: [], lent: 0, bad: 0, held_by_others: 1 }],
        }],
      },
    }),
  );
  await server.signIn(page, 'carol', '/nodes?as=table&node=node-b');
  const row = page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: 'node-b' });
  await expect(row).toContainText('Held by others');
  await expect(row).toContainText('2 GPUs held by tenant/<b>thief</b>');
  const panel = page.getByRole('complementary', { name: 'node-b' });
  await expect(panel).toContainText('2 GPUs held by tenant/<b>thief</b>');
  await expect(panel).toContainText('No job starts on GPUs that others hold');
  await page.goto(`${server.url}/nodes?by=health`);
  await expect(page.getByTitle(/node-b.*that others hold/)).toHaveText(['O', 'O']);
  await expect(page.getByRole('list', { name: 'Legend' })).toContainText('O on a node that others hold');
  await accessible(page);
  await page.goto(server.url);
  await expect(page.getByRole('row').filter({ hasText: 'node-b' })).toContainText('2 GPUs held by tenant/<b>thief</b>');
  await page.goto(`${server.url}/jobs/${waits.id}`);
  const why = page.getByRole('main');
  await expect(why).toContainText('It would fit if others held no devices of node-b (node-b: 2 GPUs held by tenant/<b>thief</b>)');
  await expect(why.getByRole('columnheader', { name: 'Held by others' })).toBeVisible();
  await expect(why).toContainText('It would start if others held no devices of node-b');
  await accessible(page);
});
