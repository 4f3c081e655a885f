import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Me } from '../api/wire';
import { may } from '../parts/rights';
import { text } from '../text/common';
import css from './shell.module.css';

const pages = [
  { to: '/', name: text.nav.home, admin: false },
  { to: '/jobs', name: text.nav.jobs, admin: false },
  { to: '/submit', name: text.nav.submit, admin: false },
  { to: '/vcs', name: text.nav.vcs, admin: false },
  { to: '/nodes', name: text.nav.nodes, admin: false },
  { to: '/tokens', name: text.nav.tokens, admin: false },
  { to: '/users', name: text.nav.users, admin: true, verb: 'see users and groups' },
  { to: '/configuration', name: text.nav.config, admin: true, verb: 'see the cluster file' },
  { to: '/system', name: text.nav.system, admin: true, verb: 'change the cluster' },
] as const;

function Links({ me, onGo }: { me: Me; onGo?: () => void }) {
  return (
    <ul>
      {pages
        .filter((p) => !p.admin || may(me, p.verb))
        .map((p) => (
          <li key={p.to} data-admin={p.admin || undefined}>
            <Link to={p.to} activeOptions={{ exact: p.to === '/', includeSearch: false }} activeProps={{ 'aria-current': 'page' }} onClick={onGo}>
              {p.name}
            </Link>
          </li>
        ))}
    </ul>
  );
}

export function Nav({ me }: { me: Me }) {
  return (
    <nav className={css.nav} aria-label={text.nav.label}>
      <Links me={me} />
    </nav>
  );
}

// NavDrawer is the same on a phone: a button that opens the list below the bar.
export function NavDrawer({ me }: { me: Me }) {
  const [open, setOpen] = useState(false);
  return (
    <div className={css.drawer}>
      <Button size="compact-sm" variant="default" aria-expanded={open} aria-controls="drawer" onClick={() => setOpen(!open)}>
        {text.menu}
      </Button>
      {open && (
        <nav id="drawer" className={css.drawerList} aria-label={text.nav.label}>
          <Links me={me} onGo={() => setOpen(false)} />
        </nav>
      )}
    </div>
  );
}
