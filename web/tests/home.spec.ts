import { expect, test } from '@playwright/test';
import { accessible } from './axe';
import { Server, twoVCs } from './server';

const server = new Server();

test.beforeAll(async () => {
  await server.start();
  await server.people();
});

test.afterAll(() => server.stop());

test('bad nodes and GPUs on Home', async ({ page }) => {
  await server.signIn(page, 'alice', '/');
  const bad = page.getByRole('region', { name: 'Nodes out of service' });
  await expect(bad).toContainText('All nodes are in service');
  // What happens to nodes shows without a reload, also to users who may change nothing.
  await server.api('POST', '/nodes/node-a/cordon', { reason: 'a new fan' });
  const row = (name: string) => bad.getByRole('row').filter({ hasText: name });
  await expect(row('node-a')).toContainText('Cordoned');
  await expect(row('node-a')).toContainText('a new fan');
  await server.api('POST', '/nodes/node-b/drain', { within: 3600e6, reason: 'new memory' });
  await expect(row('node-b')).toContainText('Draining');
  await accessible(page);
  await row('node-a').getByRole('link', { name: 'node-a' }).click();
  await expect(page.getByRole('complementary', { name: 'node-a' })).toContainText('a new fan');
  for (const node of ['node-a', 'node-b']) await server.api('POST', `/nodes/${node}/uncordon`, {});
  await page.getByRole('link', { name: 'Home', exact: true }).click();
  await expect(bad).toContainText('All nodes are in service');

  // A GPU that its executor calls bad, of a node in service: how many and why, from the answer's words.
  await page.route('**/api/v1/nodes', async (r) => {
    const answer = await r.fetch();
    const list = (await answer.json()) as { nodes: { name: string; skus: { bad: number; fault?: string }[] }[] };
    for (const n of list.nodes) if (n.name === 'node-b') Object.assign(n.skus[0] ?? {}, { bad: 1, fault: 'GPU 1: 4 uncorrectable errors of its memory' });
    await r.fulfill({ response: answer, json: list });
  });
  await page.reload();
  await expect(row('node-b')).toContainText('1 of 2 LAB-GPU');
  await expect(row('node-b')).toContainText('uncorrectable errors');
  await expect(row('node-a')).toHaveCount(0);
  await page.goto(`${server.url}/nodes?as=table&node=node-b`);
  await expect(page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: 'node-b' })).toContainText('uncorrectable errors');
  await expect(page.getByRole('complementary', { name: 'node-b' })).toContainText('uncorrectable errors');
});

test('a node without the device files of its GPUs is out of service on Home, with the reason', async ({ page }) => {
  const other = new Server();
  await other.start(twoVCs.replace('LAB-GPU: {gpu: 1}', "LAB-GPU: {gpu: 1, deviceFiles: ['/dev/none-such-%d']}"));
  await other.people();
  try {
    await other.signIn(page, 'carol', '/');
    const bad = page.getByRole('region', { name: 'Nodes out of service' });
    await expect(bad.getByRole('row').filter({ hasText: /node-[ab]/ }).first()).toContainText('device file /dev/none-such-0 of SKU LAB-GPU: no such file or directory');
    await accessible(page);
  } finally {
    await other.stop();
  }
});
