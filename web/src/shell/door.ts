import { lazyPart } from '../ui/lazy';

// What asks for a name and a password: most loads of a page need none of it.
export const SignInPage = lazyPart(() => import('./SignInPage').then((m) => m.SignInPage));
export const Over = lazyPart(() => import('./Over').then((m) => m.Over));

const calm = 3000; // ms after which a page has what it shows
const again = 30_000; // ms after which a file that did not come is asked for once more

// prepare loads what is shown when the session ends; at that time the server may not have it any more.
export function prepare(): () => void {
  let timer = 0;
  let over = false;
  const load = () =>
    void Over.preload().then(() => {
      if (!Over.there() && !over) timer = window.setTimeout(load, again);
    });
  timer = window.setTimeout(load, calm);
  return () => {
    over = true;
    window.clearTimeout(timer);
  };
}
