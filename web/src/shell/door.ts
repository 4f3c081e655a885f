import { lazyPart } from '../ui/lazy';

// What asks for a name and a password: most loads of a page need none of it.
export const SignInPage = lazyPart(() => import('./SignInPage').then((m) => m.SignInPage));
export const Over = lazyPart(() => import('./Over').then((m) => m.Over));

const calm = 3000; // ms after which a page has what it shows

// prepare loads what is shown when the session ends; at that time the server may not have it any more.
export function prepare(): () => void {
  const timer = window.setTimeout(() => void Over.preload(), calm);
  return () => window.clearTimeout(timer);
}
