import { useQuery } from '@tanstack/react-query';
import { Outlet } from '@tanstack/react-router';
import { Suspense, useEffect } from 'react';
import { Failure } from '../api/client';
import { infoQuery } from '../api/cluster';
import { meQuery } from '../api/people';
import type { Me } from '../api/wire';
import { capital } from '../format/sentence';
import { now, stamp } from '../format/time';
import { anew, isOther, listen, useConnection } from '../live/live';
import { text as common } from '../text/common';
import { Failed } from '../ui/Failed';
import { Loading } from '../ui/Loading';
import { Bar } from './Bar';
import { Over, prepare, SignInPage } from './door';
import { Nav } from './Nav';
import css from './shell.module.css';

// Shell is what stands around every page. Nobody signed in sees the door instead, at the same address.
export function Shell() {
  const me = useQuery(meQuery);
  if (me.isPending) {
    return (
      <main className={css.gate}>
        <div className={css.gateCard}>
          <Loading rows={2} />
        </div>
      </main>
    );
  }
  if (me.data) return isOther(me.data.name) ? <Other /> : <House me={me.data} out={me.error instanceof Failure && me.error.status === 401} />;
  if (me.error) {
    return (
      <main className={css.gate}>
        <Failed error={me.error} onRetry={() => void me.refetch()} />
      </main>
    );
  }
  return (
    <Suspense>
      <SignInPage />
    </Suspense>
  );
}

// Other stands for a moment when another user has signed in, in this tab or another one: what is here is not theirs.
function Other() {
  useEffect(anew, []);
  return null;
}

// Banner says what holds for every page: that the server does not answer, or what it says of itself, such as a Kubernetes
// whose API server is away.
function Banner({ lost }: { lost: number }) {
  const info = useQuery(infoQuery);
  const texts = lost > 0 ? [common.lost(stamp(lost, now()))] : (info.data?.conditions ?? []).map((c) => `${capital(c)}.`);
  if (texts.length === 0) return null;
  return (
    <div role="status" className={css.banner}>
      {texts.map((t) => (
        <div key={t}>{t}</div>
      ))}
    </div>
  );
}

function House({ me, out }: { me: Me; out: boolean }) {
  const { lost, over } = useConnection();
  useEffect(listen, []);
  useEffect(prepare, []);
  return (
    <div className={css.house}>
      <a className={css.skip} href="#content">
        {common.skip}
      </a>
      <Bar me={me} />
      <Nav me={me} />
      <main id="content" tabIndex={-1} className={css.content}>
        <Banner lost={lost} />
        <Outlet />
      </main>
      {(over || out) && (
        <Suspense>
          <Over user={me.name} />
        </Suspense>
      )}
    </div>
  );
}
