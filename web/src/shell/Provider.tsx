import { Button } from '@mantine/core';
import type { WaysIn } from '../api/wire';
import { text } from '../text/signin';
import css from './shell.module.css';

const longest = 1024; // of a page to come back to, as the server reads it

// begin is where a browser begins to sign in, to come back to the page that it is on.
function begin(path: string): string {
  const here = window.location.pathname + window.location.search;
  return `${path}?${new URLSearchParams({ return: here.length <= longest ? here : '/' }).toString()}`;
}

interface Props {
  provider: NonNullable<WaysIn['provider']>;
  above: boolean; // above a living page, which must stay: the provider opens in a tab of its own
}

// Provider leads to the identity provider.
export function Provider({ provider, above }: Props) {
  return (
    <div className={css.provider}>
      <Button component="a" fullWidth variant="default" href={begin(provider.path)} {...(above ? { target: '_blank', rel: 'noopener' } : {})}>
        {text.provider(provider.title)}
      </Button>
      {above && <p className="meta">{text.providerAbove}</p>}
      <p className={css.or}>{text.or}</p>
    </div>
  );
}
