import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { waysQuery } from '../api/people';
import { text as common } from '../text/common';
import { text } from '../text/signin';
import { Failed } from '../ui/Failed';
import { Mark } from './Mark';
import { SetUp } from './SetUp';
import { SignIn } from './SignIn';
import css from './shell.module.css';

// SignInPage is the door: the first administrator is made there, all others sign in. Afterwards the page of the address is shown.
export function SignInPage() {
  const ways = useQuery(waysQuery);
  const [other, setOther] = useState(false); // signs in although a first administrator is wanted
  if (ways.isPending) return null;
  const first = ways.data?.setup === true && !other;
  return (
    <main className={css.gate}>
      <div className={css.gateCard}>
        <div className={css.brand}>
          <Mark size={28} /> <span>{common.product}</span>
        </div>
        <h1>{first ? text.setupTitle : text.title}</h1>
        {first && <p className="muted">{text.setupWhy}</p>}
        {ways.error && <Failed error={ways.error} onRetry={() => void ways.refetch()} />}
        {first ? <SetUp /> : <SignIn />}
        {ways.data?.setup ? (
          <div>
            <Button size="compact-sm" variant="transparent" className={css.quiet ?? ''} onClick={() => setOther(!other)}>
              {other ? text.toSetup : text.toSignIn}
            </Button>
          </div>
        ) : (
          <p className="meta">{text.help}</p>
        )}
      </div>
    </main>
  );
}
