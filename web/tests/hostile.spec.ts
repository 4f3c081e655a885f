import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, type Page, test } from '@playwright/test';
import { silent } from './axe';
import * as hostile from './hostile';
import { job, Server } from './server';

const server = new Server();
const folder = mkdtempSync(join(tmpdir(), 'comb-hostile-'));
const storages = ['constructor', 'null', '662e41', `s-${'w'.repeat(61)}`];
const vcs = ['__proto__', 'constructor', `vc-${'w'.repeat(60)}`];
const nodes = ['constructor', '662E41', `node-${'w'.repeat(58)}`];

const cluster = `physicalCluster:
  skuTypes:
    toString: {gpu: 1}
  cellTypes:
    __proto__: {childCellType: toString, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
${nodes.map((n) => `  - {cellType: __proto__, cellAddress: '${n}'}\n`).join('')}virtualClusters:
${vcs.map((v) => `  ${v}:\n    virtualCells: [{cellType: __proto__, cellNumber: 1}]\n    access: {members: [everyone]}\n`).join('')}storages:
${storages.map((s) => `  '${s}': {folder: ${folder}, readOnly: true}\n`).join('')}exitRules:
- {code: 75, class: permanent, means: '${hostile.texts[0]?.replaceAll("'", "''")}', next: '${hostile.texts[1]?.replaceAll("'", "''")}'}
`;

interface Made {
  id: number;
}

const ids: number[] = [];

async function made(source: string): Promise<number> {
  const { id } = (await server.submit(source)) as Made;
  ids.push(id);
  return id;
}

// named gives a job file a name that YAML would take for something else.
function named(source: string, name: string): string {
  return source.replace(/^name: .*/m, `name: "${name}"`);
}

test.beforeAll(async () => {
  await server.start(cluster);
  await server.people();
  for (const name of hostile.userNames) await server.api('POST', '/groups', { name });
  await server.api('POST', '/users', {
    users: hostile.texts.map((text, i) => ({
      name: hostile.userNames[i] ?? `user-${i}`, display: text, email: `${text.replaceAll(/[\s@]/g, '')}@example.com`, groups: hostile.userNames,
    })),
  });
  for (const [i, node] of nodes.entries()) await server.api('POST', `/nodes/${node}/cordon`, { reason: hostile.texts[i] });
  await server.api('POST', `/nodes/${nodes[1]}/drain`, { within: 3600e6, reason: hostile.texts[3] });
  // Jobs of all names, that wait, held for all reasons.
  for (const [i, name] of hostile.names.entries()) {
    const id = await made(named(job('named', { vc: vcs[i % 3] ?? '', gpus: 2 }), name).replace('  main:', `  "${hostile.names[(i + 1) % 7]}":`).replace('type: job', `type: job\ndescription: ${JSON.stringify(hostile.texts[i % hostile.texts.length])}`));
    await server.api('POST', `/jobs/${id}/hold`, { reason: hostile.texts[i % hostile.texts.length] });
    await server.api('PUT', `/jobs/${id}/tags/constructor`);
    await server.api('PUT', `/jobs/${id}/tags/${'t'.repeat(64)}`);
  }
});

test.afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

// harmless wants that nothing ran, that nothing became an element, and that nothing pushes the page wider than it is.
async function harmless(page: Page, where: string): Promise<void> {
  const found = await page.evaluate(() => ({
    hit: 'hit' in window,
    made: document.querySelectorAll('main img, main script, main svg[onload], main b, a[href^="javascript:"]').length,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    said: document.body.innerText.match(/\[object Object\]|NaN|Invalid Date|function \w+\(/g) ?? [],
  }));
  expect.soft(found, where).toEqual({ hit: false, made: 0, wide: 0, said: [] });
}

// widths looks at a page on a large screen and on a phone.
async function widths(page: Page, path: string, wanted: string[]): Promise<void> {
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await page.goto(server.url + path);
    for (const text of wanted) await expect.soft(page.locator('#content').getByText(text, { exact: false }).first(), `${path}: ${text}`).toBeAttached();
    await expect(page.getByRole('heading').first()).toBeVisible();
    await harmless(page, `${path} at ${width}`);
  }
}

test('hostile names and reasons are text on all pages', async ({ page }) => {
  const said = silent(page);
  await server.signIn(page, 'carol', '/');
  await widths(page, '/', [nodes[1] ?? '', hostile.texts[3] ?? '', hostile.texts[2] ?? '']);
  await widths(page, '/jobs', [...hostile.names, ...vcs]);
  await widths(page, '/jobs?tag=constructor&name=__proto__', ['__proto__', 'Tag constructor']);
  for (const [i, id] of ids.slice(0, 10).entries()) {
    await widths(page, `/jobs/${id}`, [hostile.names[i] ?? '', `admin: ${hostile.texts[i]}`]);
    if (i > 0) continue;
    await widths(page, `/jobs/${id}?tab=events`, [hostile.texts[i] ?? '']);
    await widths(page, `/jobs/${id}?tab=file`, [JSON.stringify(hostile.texts[i])]);
  }
  await widths(page, '/vcs', vcs);
  for (const vc of vcs) await widths(page, `/vcs/${vc}`, [vc]);
  for (const as of ['', '?as=virtual', '?as=table', '?by=job', '?by=state']) await widths(page, `/nodes${as}`, nodes);
  for (const [i, node] of nodes.entries()) await widths(page, `/nodes?node=${node}`, i > 0 ? [hostile.texts[i === 1 ? 3 : i] ?? ''] : []);
  await widths(page, '/users', [...hostile.userNames]);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto(`${server.url}/users`);
  for (const text of hostile.texts) await expect.soft(page.getByRole('table', { name: 'Users' }).getByText(text, { exact: true }).first()).toBeAttached();
  expect(said).toEqual([]);
});

test('hostile output and ends are text', async ({ page }) => {
  const said = silent(page);
  await server.api('POST', `/nodes/${nodes[0]}/uncordon`, {});
  const talks = await made(job('talks', { vc: vcs[0] ?? '', command: `'printf "${hostile.log.join('').replaceAll('"', '\\"').replaceAll("'", "''")}"; echo "${hostile.texts[0]?.replaceAll('"', '\\"')}" >&2; sleep 1; exit 75'` }));
  await server.signIn(page, 'carol', `/jobs/${talks}?tab=log`);
  const log = page.getByRole('log');
  await expect(log).toContainText('<img src=x onerror=window.hit=1>');
  await expect(log).toContainText('red link  cleared');
  await expect(log).toContainText('three');
  await expect(log).not.toContainText('two');
  await harmless(page, 'the log');
  await page.goto(`${server.url}/jobs/${talks}`);
  await expect(page.locator('header').getByText('Failed')).toBeVisible();
  await widths(page, `/jobs/${talks}`, [hostile.texts[0] ?? '', hostile.texts[1] ?? '']);
  await widths(page, `/jobs/${talks}?tab=events`, []);
  await widths(page, '/jobs?state=Failed', [hostile.texts[0] ?? '']);
  expect(said).toEqual([]);
});

test('hostile text that is typed stays text: forms, files, filters, configuration', async ({ page }) => {
  const said = silent(page);
  await server.signIn(page, 'carol', '/submit');
  const verdict = page.getByRole('region', { name: 'What will happen' });
  for (const text of hostile.texts) {
    await page.getByLabel('Name', { exact: true }).fill(text);
    await page.getByLabel('Commands').fill(text);
    await page.getByLabel('Image', { exact: true }).fill(text);
    await expect(page.getByLabel('Name', { exact: true })).toHaveValue(text);
    await expect(verdict).toHaveAttribute('aria-busy', 'false');
    await harmless(page, `Submit, ${text}`);
  }
  const editor = page.getByRole('textbox', { name: 'Job file (YAML)' });
  await editor.click();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete'); // else the browser would keep the style of what was there
  await page.keyboard.insertText(`${job('a')}${hostile.texts.map((t, i) => `${JSON.stringify(`${i}${t}`)}: ${JSON.stringify(t)}\n`).join('')}`);
  await expect(verdict).toContainText('mistake');
  await expect(verdict).toContainText('<img src=x');
  await harmless(page, 'Submit, mistakes');
  for (const name of hostile.names) {
    await page.keyboard.press('Control+a');
    await page.keyboard.press('Delete');
    await page.keyboard.insertText(named(job('named', { vc: '__proto__' }), name));
    await expect(page.getByLabel('Name', { exact: true })).toHaveValue(name);
  }
  for (const text of hostile.texts) {
    for (const key of ['name', 'vc', 'user', 'state', 'tag', 'sort', 'cursor']) {
      if (key !== 'name' && text !== hostile.texts[0] && text !== '__proto__') continue;
      await page.goto(`${server.url}/jobs?${new URLSearchParams({ [key]: text }).toString()}`);
      await expect(page.getByRole('heading', { name: 'Jobs' })).toBeVisible();
      await harmless(page, `Jobs, ${key}=${text}`);
    }
  }
  for (const text of hostile.texts) {
    await page.goto(`${server.url}/vcs/${encodeURIComponent(text)}`);
    await expect(page.getByRole('heading').first()).toBeVisible();
    await harmless(page, `a virtual cluster ${text}`);
    await page.goto(`${server.url}/jobs/${encodeURIComponent(text)}`);
    await expect(page.getByRole('alert').first()).toBeVisible();
    await harmless(page, `a job ${text}`);
  }
  await page.goto(`${server.url}/configuration`);
  const file = page.getByRole('textbox', { name: 'Cluster file (YAML)' });
  await expect(file).toContainText('virtualClusters');
  await file.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.insertText(`${JSON.stringify(hostile.texts[0])}: 1\n`);
  await expect(page.getByRole('region', { name: 'What would change' })).toContainText('<img src=x');
  await harmless(page, 'Configuration, mistakes');
  expect(said).toEqual([]);
});

test('hostile names of storages, ports and files of an upload', async ({ page }) => {
  const said = silent(page);
  const code = join(folder, '<b>code');
  mkdirSync(code);
  for (const name of ['<img src=x onerror="window.hit=1">', '__proto__', 'פרק', `${'w'.repeat(200)}`, "a 'quoted' $(name)"]) writeFileSync(join(code, name), 'echo of a file\n');
  for (const node of nodes.slice(1)) await server.api('POST', `/nodes/${node}/uncordon`, {});
  await server.signIn(page, 'carol', '/submit');
  const file = page.getByRole('textbox', { name: 'Job file (YAML)' });
  await page.getByLabel('Name', { exact: true }).fill('hostile-files');
  await page.getByRole('combobox', { name: 'Virtual cluster' }).click();
  await page.getByRole('option', { name: vcs[2] ?? '', exact: true }).click();
  await page.getByRole('combobox', { name: 'Storages' }).click();
  for (const name of storages) await page.getByRole('option', { name, exact: true }).click();
  await page.keyboard.press('Escape');
  for (const name of storages) await expect(file).toContainText(name);
  const ports = page.getByLabel('Ports');
  await ports.fill('constructor, __proto__ 2, toString, null');
  await ports.blur();
  await expect(ports).toHaveValue('constructor, __proto__ 2, toString, null');
  await expect(file).toContainText('__proto__: 2');
  await page.getByLabel('Choose a folder…').setInputFiles(code);
  await expect(page.getByRole('group', { name: 'Code' }).getByRole('status')).toContainText('5 files');
  await page.getByLabel('Commands').fill('ls');
  await harmless(page, 'Submit, names');
  await expect(page.getByRole('region', { name: 'What will happen' })).toContainText(/Starts now|Waits/);
  await page.getByRole('button', { name: 'Submit' }).click();
  await expect(page.getByRole('heading', { name: 'hostile-files' })).toBeVisible();
  await expect(page.locator('header').getByText('Succeeded')).toBeVisible();
  await expect(page.getByRole('table', { name: 'Tasks' })).toContainText(/\d{4,}, \d{4,}|__proto__/);
  await harmless(page, 'a job with names');
  await page.getByRole('navigation', { name: 'Parts of the job' }).getByRole('link', { name: 'Log' }).click();
  await expect(page.getByRole('log')).toContainText('<img src=x onerror="window.hit=1">');
  await expect(page.getByRole('log')).toContainText('w'.repeat(200));
  await harmless(page, 'a log of names');
  expect(said).toEqual([]);
});

test('hostile reasons of versions, and names of tokens', async ({ page }) => {
  const said = silent(page);
  await server.signIn(page, 'carol', '/tokens');
  for (const text of hostile.texts.slice(0, 5)) {
    await page.getByRole('button', { name: 'Create a token' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill(text);
    await dialog.getByRole('button', { name: 'Create a token' }).click();
    await expect(dialog.locator('pre')).toContainText(/^comb_/);
    await dialog.getByRole('button', { name: 'Close' }).last().click();
  }
  await widths(page, '/tokens', hostile.texts.slice(0, 5));
  await page.setViewportSize({ width: 1440, height: 900 });
  for (const text of hostile.texts.slice(0, 3)) {
    await page.goto(`${server.url}/configuration`);
    const file = page.getByRole('textbox', { name: 'Cluster file (YAML)' });
    await expect(file).toContainText('virtualClusters');
    await file.click();
    await page.keyboard.press('Control+Home');
    await page.keyboard.insertText(`# ${text}\n`);
    const plan = page.getByRole('region', { name: 'What would change' });
    await plan.getByRole('button', { name: 'Apply' }).click();
    await page.getByRole('dialog').getByLabel('Reason (kept with the version)').fill(text);
    await page.getByRole('dialog').getByRole('button', { name: 'Apply' }).click();
    await expect(plan).toContainText('Edit the file to see what would change');
  }
  await widths(page, '/configuration', hostile.texts.slice(0, 3));
  expect(said).toEqual([]);
});
