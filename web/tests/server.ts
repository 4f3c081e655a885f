import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, type Page, test } from '@playwright/test';

// A real server with a data directory of its own, and its users.

export const twoVCs = `physicalCluster:
  skuTypes:
    LAB-GPU: {gpu: 1}
  cellTypes:
    LAB-NODE: {childCellType: LAB-GPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - cellType: LAB-NODE
    cellAddress: node-a
  - cellType: LAB-NODE
    cellAddress: node-b
virtualClusters:
  default:
    virtualCells: [{cellType: LAB-NODE, cellNumber: 1}]
    access: {members: [vision]}
  vc1:
    virtualCells: [{cellType: LAB-NODE, cellNumber: 1}]
    access: {members: [speech]}
`;

export class Server {
  url = '';
  private readonly home = mkdtempSync(join(tmpdir(), 'comb-portal-'));
  private child: ChildProcess | undefined;
  readonly password = 'a long password';

  said = ''; // by the server, since it started

  // start starts the server, again on the same port when it ran before. more are arguments of its own.
  async start(cluster = twoVCs, more: string[] = []): Promise<void> {
    const file = join(this.home, 'cluster.yaml');
    writeFileSync(file, cluster);
    this.said = '';
    const listen = this.url === '' ? '127.0.0.1:0' : this.url.replace('http://', '');
    const first = this.url === '' ? ['--cluster', file] : [];
    const bin = process.env.COMB_BIN ?? join(import.meta.dirname, '../../bin/comb');
    const child = spawn(bin, ['serve', '--data', join(this.home, 'data'), '--listen', listen, '--trust-users', '--overcommit', '--virtual-gpus', '64', ...first, ...more], {
      env: { ...process.env, PATH: `${dirname(bin)}:${process.env.PATH ?? ''}`, XDG_STATE_HOME: join(this.home, 'state'), DOCKER_HOST: 'unix:///nonexistent' },
    });
    this.child = child;
    this.url = await new Promise<string>((resolve, reject) => {
      const hear = (b: Buffer) => {
        this.said += b.toString();
        const at = /http:\/\/127\.0\.0\.1:[1-9][0-9]*/.exec(this.said);
        if (at) resolve(at[0]);
      };
      child.stdout?.on('data', hear);
      child.stderr?.on('data', hear);
      child.on('exit', (code) => reject(new Error(`the server ended with ${code}:\n${this.said}`)));
    });
  }

  async kill(): Promise<void> {
    const child = this.child;
    if (child === undefined || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  }

  // clear stops every job, so that the next test finds the cluster free.
  async clear(): Promise<void> {
    for (const job of await this.live()) {
      await this.api('POST', `/jobs/${job}/stop`, {}).catch((e: unknown) => {
        if (!String(e).includes('has ended already')) throw e;
      });
    }
    await expect.poll(() => this.live()).toEqual([]);
  }

  async stop(): Promise<void> {
    await this.clear();
    await this.kill();
    rmSync(this.home, { recursive: true, force: true });
  }

  private async live(): Promise<number[]> {
    const list = (await this.api('GET', '/jobs?state=Waiting&state=Active&limit=1000')) as { jobs: { id: number }[] };
    return list.jobs.map((j) => j.id);
  }

  async api(method: string, path: string, body?: unknown): Promise<unknown> {
    const token = readFileSync(join(this.home, 'data', 'admin-token'), 'utf8').trim();
    const r = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await r.text();
    if (!r.ok) throw new Error(`${method} ${path}: ${r.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  }

  // file gives the cluster file that is in force.
  async file(): Promise<string> {
    const token = readFileSync(join(this.home, 'data', 'admin-token'), 'utf8').trim();
    return (await fetch(`${this.url}/api/v1/config/file`, { headers: { Authorization: `Bearer ${token}` } })).text();
  }

  // people makes alice, who is in vision, bob, who is in speech, and carol, who administrates.
  async people(): Promise<void> {
    for (const name of ['vision', 'speech']) await this.api('POST', '/groups', { name });
    await this.api('POST', '/users', {
      users: [
        { name: 'alice', groups: ['vision'], password: this.password },
        { name: 'bob', groups: ['speech'], password: this.password },
        { name: 'carol', administrator: true, password: this.password },
      ],
    });
  }

  async signIn(page: Page, user: string, path = '/'): Promise<void> {
    await page.goto(this.url + path);
    await page.getByLabel('User name').fill(user);
    await page.getByLabel('Password', { exact: true }).fill(this.password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page.getByRole('navigation', { name: 'Pages' })).toBeVisible();
  }

  submit(source: string): Promise<unknown> {
    return this.api('POST', '/jobs', { source });
  }
}

// served is the server of a file's tests, with its users; what a test left there is ended after it.
export function served(cluster = twoVCs): Server {
  const server = new Server();
  test.beforeAll(async () => {
    await server.start(cluster);
    await server.people();
  });
  test.afterEach(() => server.clear());
  test.afterAll(() => server.stop());
  return server;
}

// job writes a job file of one task.
export function job(name: string, more: { gpus?: number; vc?: string; command?: string; priority?: string; time?: string; instances?: number } = {}): string {
  return `protocolVersion: 2
name: ${name}
type: job
taskRoles:
  main:
    instances: ${more.instances ?? 1}
    resourcePerInstance: {gpu: ${more.gpus ?? 1}}
    commands:
    - ${more.command ?? 'sleep 600'}
defaults:
  virtualCluster: ${more.vc ?? 'default'}
extras:
  hivedScheduler: {jobPriorityClass: ${more.priority ?? 'test'}}
  comb: {timeLimit: ${more.time ?? '15m'}, grace: 1s}
`;
}
