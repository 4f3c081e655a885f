import { createRootRoute, createRoute, createRouter } from '@tanstack/react-router';
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

const tree = root.addChildren([
  createRoute({ ...under, path: '/', component: lazyPart(() => import('./pages/home/Page').then((m) => m.Home)) }),
  createRoute({ ...under, path: '/jobs', component: lazyPart(() => import('./pages/jobs/Page').then((m) => m.Jobs)) }),
  createRoute({ ...under, path: '/jobs/$job', component: lazyPart(() => import('./pages/job/Page').then((m) => m.JobPage)) }),
  createRoute({ ...under, path: '/submit', component: lazyPart(() => import('./pages/submit/Page').then((m) => m.Submit)) }),
  createRoute({ ...under, path: '/vcs', component: lazyPart(() => import('./pages/vcs/Page').then((m) => m.VCs)) }),
  createRoute({ ...under, path: '/vcs/$vc', component: lazyPart(() => import('./pages/vcs/One').then((m) => m.OneVC)) }),
  createRoute({ ...under, path: '/nodes', component: lazyPart(() => import('./pages/nodes/Page').then((m) => m.Nodes)) }),
  createRoute({ ...under, path: '/users', component: lazyPart(() => import('./pages/users/Page').then((m) => m.Users)) }),
  createRoute({ ...under, path: '/tokens', component: lazyPart(() => import('./pages/tokens/Page').then((m) => m.Tokens)) }),
  createRoute({ ...under, path: '/configuration', component: lazyPart(() => import('./pages/config/Page').then((m) => m.Configuration)) }),
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
