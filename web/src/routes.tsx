import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { Broken } from './shell/Broken';
import { NoPage } from './shell/NoPage';
import { Shell } from './shell/Shell';

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
  createRoute({ ...under, path: '/', component: lazyRouteComponent(() => import('./pages/home/Page'), 'Home') }),
  createRoute({ ...under, path: '/jobs', component: lazyRouteComponent(() => import('./pages/jobs/Page'), 'Jobs') }),
  createRoute({ ...under, path: '/jobs/$job', component: lazyRouteComponent(() => import('./pages/job/Page'), 'JobPage') }),
  createRoute({ ...under, path: '/submit', component: lazyRouteComponent(() => import('./pages/submit/Page'), 'Submit') }),
  createRoute({ ...under, path: '/vcs', component: lazyRouteComponent(() => import('./pages/vcs/Page'), 'VCs') }),
  createRoute({ ...under, path: '/vcs/$vc', component: lazyRouteComponent(() => import('./pages/vcs/One'), 'OneVC') }),
  createRoute({ ...under, path: '/nodes', component: lazyRouteComponent(() => import('./pages/nodes/Page'), 'Nodes') }),
  createRoute({ ...under, path: '/users', component: lazyRouteComponent(() => import('./pages/users/Page'), 'Users') }),
  createRoute({ ...under, path: '/tokens', component: lazyRouteComponent(() => import('./pages/tokens/Page'), 'Tokens') }),
  createRoute({ ...under, path: '/configuration', component: lazyRouteComponent(() => import('./pages/config/Page'), 'Configuration') }),
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
