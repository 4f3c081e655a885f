import { type Cookie, type Page, test } from '@playwright/test';
import { job, Server } from '../tests/server';
import { Bare } from './bare';

// Figures of the portal, one a line: name value unit. A real server, a real browser.

const say = (name: string, value: number, unit: string) => console.log(`${name} ${value >= 100 ? value.toFixed(0) : value.toFixed(2)} ${unit}`);

function quantile(all: number[], q: number): number {
  const sorted = [...all].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0;
}

async function enter(server: Server, page: Page): Promise<void> {
  await server.signIn(page, 'carol');
}

// shift adds up how far things jumped on a page since it was loaded.
async function shift(page: Page): Promise<number> {
  return page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        let sum = 0;
        const o = new PerformanceObserver((list) => {
          for (const e of list.getEntries()) sum += (e as unknown as { value: number }).value;
        });
        o.observe({ type: 'layout-shift', buffered: true });
        setTimeout(() => resolve(sum), 300);
      }),
  );
}

const home = `[...document.querySelectorAll('h1')].some((h) => h.textContent === 'Home')`;
const tenRows = `document.querySelectorAll('tr, [role=row]').length > 10`;

// firstRows measures a list in browsers that have none of the portal yet.
async function firstRows(url: string, cookies: Cookie[]): Promise<number> {
  const bare = new Bare();
  try {
    const all: number[] = [];
    for (let i = 0; i < 5; i++) all.push(await bare.load(await bare.fresh(url, cookies), `${url}/jobs`, tenRows, 1));
    return quantile(all, 0.5) / 1000;
  } finally {
    await bare.close();
  }
}

// loads measures Home in browsers that do not have it yet, and in those that do.
async function loads(url: string, cookies: Cookie[]): Promise<void> {
  const bare = new Bare();
  try {
    const first: number[] = [];
    const later: number[] = [];
    for (let i = 0; i < 5; i++) {
      const context = await bare.fresh(url, cookies);
      first.push(await bare.load(context, `${url}/`, home, 4));
      for (let k = 0; k < 2; k++) later.push(await bare.load(context, `${url}/`, home, 4));
    }
    say('portal_first_load_seconds{cpu="4x slower",quantile="0.5"}', quantile(first, 0.5) / 1000, 's');
    say('portal_later_load_seconds{cpu="4x slower",quantile="0.5"}', quantile(later, 0.5) / 1000, 's');
  } finally {
    await bare.close();
  }
}

test('the first load, a log line, layout shift', async ({ browser }) => {
  const server = new Server();
  await server.start();
  await server.people();
  try {
    const page = await (await browser.newContext()).newPage();
    await enter(server, page);
    const cold = await (await browser.newContext({ storageState: await page.context().storageState() })).newPage();
    const cdp = await cold.context().newCDPSession(cold);
    await cdp.send('Network.enable');
    let bytes = 0;
    cdp.on('Network.loadingFinished', (e) => (bytes += e.encodedDataLength));
    await cold.goto(`${server.url}/`);
    await cold.getByRole('heading', { name: 'Home' }).waitFor();
    await cold.waitForLoadState('networkidle', { timeout: 5000 }).catch(() => {}); // the stream of events stays open
    await cold.waitForTimeout(500);
    say('portal_first_load_bytes{gzip="yes"}', bytes / 1000, 'kB');
    await cold.context().close();
    await loads(server.url, await page.context().cookies());

    const made = (await server.submit(job('clock', { command: `'while :; do date +%s%N; sleep 0.2; done'` }))) as { id: number };
    await page.goto(`${server.url}/jobs/${made.id}?tab=log`);
    await page.getByRole('log').getByText(/^\d{19}$/).first().waitFor();
    const late = await page.evaluate(
      () =>
        new Promise<number[]>((resolve) => {
          const out: number[] = [];
          const seen = new Set([...document.querySelectorAll('[role=log] *')].map((e) => e.textContent ?? ''));
          const look = () => {
            for (const e of document.querySelectorAll('[role=log] *')) {
              const t = e.textContent ?? '';
              if (/^\d{19}$/.test(t) && !seen.has(t)) {
                seen.add(t);
                out.push(Date.now() - Number(t.slice(0, 13)));
              }
            }
            if (out.length < 40) requestAnimationFrame(look);
            else resolve(out);
          };
          requestAnimationFrame(look);
        }),
    );
    say('portal_log_line_seconds{quantile="0.5"}', quantile(late, 0.5) / 1000, 's');
    say('portal_log_line_seconds{quantile="0.99"}', quantile(late, 0.99) / 1000, 's');
    for (const path of ['/', '/jobs', `/jobs/${made.id}`, '/submit', '/vcs', '/nodes', '/configuration']) {
      await page.goto(server.url + path);
      await page.waitForTimeout(1500);
      say(`portal_layout_shift{page="${path.replace(/\d+/, 'JOB')}"}`, await shift(page), 'score');
    }
    await page.context().close();
  } finally {
    await server.clear();
    await server.stop();
  }
});

test('200,000 jobs', async ({ browser }) => {
  const server = new Server();
  const total = Number(process.env.BENCH_WEB_JOBS ?? 200_000);
  await server.start();
  await server.people();
  try {
    // Two jobs hold all GPUs: what comes after them waits, and needs no process.
    for (const vc of ['default', 'vc1']) await server.submit(job(`holds-${vc}`, { vc, gpus: 2, priority: 'crit', time: '10h' }));
    let sent = 0;
    const begin = Date.now();
    const name = ['train', 'sweep', 'eval', 'pretrain'];
    await Promise.all(
      Array.from({ length: 48 }, async () => {
        while (sent < total - 2) {
          const n = sent++;
          await server.submit(job(`${name[n % 4] ?? ''}-${n}`, { vc: n % 3 === 0 ? 'vc1' : 'default', priority: n % 5 === 0 ? 'prod' : 'test' }));
        }
      }),
    );
    say('portal_jobs_submitted_per_second', total / ((Date.now() - begin) / 1000), '1/s');
    const page = await (await browser.newContext()).newPage();
    await enter(server, page);
    say(`portal_jobs_first_rows_seconds{jobs="${total}",quantile="0.5"}`, await firstRows(server.url, await page.context().cookies()), 's');
    await page.goto(`${server.url}/jobs`);
    await page.getByRole('table').getByRole('row').nth(5).waitFor();
    for (const filter of ['state=Waiting', 'vc=vc1', 'name=eval', 'state=Waiting&vc=vc1&name=eval-1', 'sort=name', 'state=Waiting&sort=-gpus']) {
      const at = Date.now();
      const answer = page.waitForResponse((r) => r.url().includes('/api/v1/jobs?') && r.url().includes(new URLSearchParams(filter).keys().next().value ?? ''));
      await page.evaluate((f) => {
        history.pushState(null, '', `/jobs?${f}`);
        dispatchEvent(new PopStateEvent('popstate'));
      }, filter);
      await answer;
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
      say(`portal_jobs_filter_seconds{filter="${filter}"}`, (Date.now() - at) / 1000, 's');
    }
    await page.context().close();
  } finally {
    await server.kill();
    await server.stop().catch(() => {});
  }
});

const racks = 125;

// large is a cluster of 1,000 nodes with 8 GPUs each.
function large(): string {
  const cells = Array.from({ length: racks }, (_, r) => `  - cellType: RACK\n    cellAddress: r${r}\n    cellChildren: [${Array.from({ length: 8 }, (_, n) => `{cellAddress: r${r}n${n}}`).join(', ')}]\n`);
  return `physicalCluster:
  skuTypes:
    GPU: {gpu: 1, cpu: 1, memory: 1Mi}
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 8, isNodeLevel: true}
    RACK: {childCellType: NODE, childCellNumber: 8}
  physicalCells:
${cells.join('')}virtualClusters:
  default:
    virtualCells: [{cellType: RACK.NODE, cellNumber: 600}]
  vc1:
    virtualCells: [{cellType: RACK.NODE, cellNumber: 400}]
`;
}

test('1,000 nodes of 8 GPUs', async ({ browser }) => {
  const server = new Server();
  await server.start(large());
  await server.people();
  try {
    for (let i = 0; i < 20; i++) await server.submit(job(`holds-${i}`, { gpus: 8 }));
    const page = await (await browser.newContext()).newPage();
    await enter(server, page);
    const at = Date.now();
    await page.goto(`${server.url}/nodes`);
    await page.getByText('r0n0').first().waitFor();
    say('portal_nodes_first_seconds{nodes="1000"}', (Date.now() - at) / 1000, 's');
    await page.mouse.move(700, 600);
    const frames = page.evaluate(
      () =>
        new Promise<number[]>((resolve) => {
          const out: number[] = [];
          let before = performance.now();
          const next = (now: number) => {
            out.push(now - before);
            before = now;
            if (out.length < 240) requestAnimationFrame(next);
            else resolve(out);
          };
          requestAnimationFrame(next);
        }),
    );
    for (let i = 0; i < 80; i++) {
      await page.mouse.wheel(0, 160);
      await page.waitForTimeout(30);
    }
    const took = await frames;
    say('portal_nodes_frame_seconds{quantile="0.5"}', quantile(took, 0.5), 'ms');
    say('portal_nodes_frame_seconds{quantile="0.95"}', quantile(took, 0.95), 'ms');
    await page.context().close();
  } finally {
    await server.clear();
    await server.stop();
  }
});
