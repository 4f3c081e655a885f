import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Failure } from '../api/client';
import { signOut } from '../api/people';
import type { Me } from '../api/wire';
import { forgetDrafts } from '../parts/kept';
import { text } from '../text/common';
import { choose, useScheme } from '../theme/scheme';
import { Mark } from './Mark';
import { NavDrawer } from './Nav';
import css from './shell.module.css';

// left forgets what this tab knows of its user, once the session has ended. Where it has not, the page stays as it is.
function left(error: Error | null): void {
  if (error !== null && !(error instanceof Failure && error.status === 401)) return;
  forgetDrafts();
  window.location.replace('/');
}

export function Bar({ me }: { me: Me }) {
  const scheme = useScheme();
  const leave = useMutation({ mutationFn: signOut, onSettled: (_, error) => left(error) });
  return (
    <header className={css.top}>
      <NavDrawer me={me} />
      <Link to="/" className={css.brand} aria-label={text.product}>
        <Mark /> <span>{text.product}</span>
      </Link>
      <div className={css.topRight}>
        <Button size="compact-sm" variant="transparent" className={`${css.scheme} ${css.quiet}`} onClick={() => choose(scheme === 'dark' ? 'light' : 'dark')}>
          {scheme === 'dark' ? text.toLight : text.toDark}
        </Button>
        <span className={css.who} title={me.display ?? me.name}>
          {me.name}
          {me.administrator && <span className="meta"> {text.administrator}</span>}
        </span>
        <Button size="compact-sm" variant="transparent" className={css.quiet ?? ''} disabled={leave.isPending} onClick={() => leave.mutate()}>
          {text.signOut}
        </Button>
      </div>
    </header>
  );
}
