import { createRootRoute, createRoute, createRouter } from '@tanstack/react-router';
import { jobsQuery } from './api/jobs';
import { cache } from './live/live';
import { Home } from './pages/home/Page';
import { filterOf } from './pages/jobs/address';
import { Broken } from './shell/Broken';
import { NoPage } from './shell/NoPage';
import { Shell } from './shell/Shell';
import { lazyPart } from './ui/lazy';

// Address is the part behind the "?": text by name. It is read by hand, since the router's own reading takes text for
// numbers and rounds them.
export type Address = Record<string, string>;

function parse(search: string): Address {
  return Object.fromEntries(new URLSearchParams(search));
}

function write(search: Record<string, unknown>): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(search)) if (typeof v === 'string' && v !== '') q.set(k, v);
  const text = q.toString();
  return text === '' ? '' : `?${text}`;
}

function address(search: Record<string, unknown>): Address {
  const out: Address = {};
  for (const [k, v] of Object.entries(search)) if (typeof v === 'string') out[k] = v;
  return out;
}

const root = createRootRoute({ component: Shell, notFoundComponent: NoPage, validateSearch: address });
const under = { getParentRoute: () => root };

// Each page is a file of its own, but the one that most visits begin with.
const pages = {
  '/jobs': lazyPart(() => import('./pages/jobs/Page').then((m) => m.Jobs)),
  '/jobs/$job': lazyPart(() => import('./pages/job/Page').then((m) => m.JobPage)),
  '/submit': lazyPart(() => import('./pages/submit/Page').then((m) => m.Submit)),
  '/vcs': lazyPart(() => import('./pages/vcs/Page').then((m) => m.VCs)),
  '/vcs/$vc': lazyPart(() => import('./pages/vcs/One').then((m) => m.OneVC)),
  '/nodes': lazyPart(() => import('./pages/nodes/Page').then((m) => m.Nodes)),
  '/users': lazyPart(() => import('./pages/users/Page').then((m) => m.Users)),
  '/tokens': lazyPart(() => import('./pages/tokens/Page').then((m) => m.Tokens)),
  '/system': lazyPart(() => import('./pages/system/Page').then((m) => m.System)),
  '/configuration': lazyPart(() => import('./pages/config/Page').then((m) => m.Configuration)),
};

// begin asks for the file of the page at a path, before the router comes to it. A file that does not come is for the page to say.
export async function begin(path: string): Promise<void> {
  const parts = path.split('/');
  for (const [pattern, page] of Object.entries(pages)) {
    const wanted = pattern.split('/');
    if (wanted.length === parts.length && wanted.every((w, i) => w.startsWith('$') || w === parts[i])) await page.preload();
  }
}

// ask asks for what the page at an address shows first, while its file comes. What Home shows is asked for by Home, which is here.
export function ask(path: string, search: string): void {
  if (path === '/jobs') void cache.prefetchQuery(jobsQuery(filterOf(parse(search))));
}

const tree = root.addChildren([
  createRoute({ ...under, path: '/', component: Home }),
  createRoute({ ...under, path: '/jobs', component: pages['/jobs'] }),
  createRoute({ ...under, path: '/jobs/$job', component: pages['/jobs/$job'] }),
  createRoute({ ...under, path: '/submit', component: pages['/submit'] }),
  createRoute({ ...under, path: '/vcs', component: pages['/vcs'] }),
  createRoute({ ...under, path: '/vcs/$vc', component: pages['/vcs/$vc'] }),
  createRoute({ ...under, path: '/nodes', component: pages['/nodes'] }),
  createRoute({ ...under, path: '/users', component: pages['/users'] }),
  createRoute({ ...under, path: '/tokens', component: pages['/tokens'] }),
  createRoute({ ...under, path: '/system', component: pages['/system'] }),
  createRoute({ ...under, path: '/configuration', component: pages['/configuration'] }),
]);

export const router = createRouter({
  routeTree: tree,
  parseSearch: parse,
  stringifySearch: write,
  defaultErrorComponent: Broken,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
