import { Button, PasswordInput, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { signIn, waysQuery } from '../api/people';
import { signedIn } from '../live/live';
import { text } from '../text/signin';
import { Mistakes } from '../ui/Failed';
import { Provider } from './Provider';
import css from './shell.module.css';

// SignIn asks for name and password, or leads to the identity provider. The server sets a cookie that no script can read.
export function SignIn({ user }: { user?: string | undefined }) {
  const ways = useQuery(waysQuery);
  const [name, setName] = useState(user ?? '');
  const [password, setPassword] = useState('');
  const enter = useMutation({ mutationFn: () => signIn(name, password), onSuccess: (s) => signedIn(s.user), onError: () => setPassword('') });
  const provider = ways.data?.provider;
  return (
    <form
      className={css.signIn}
      onSubmit={(e) => {
        e.preventDefault();
        enter.mutate();
      }}
    >
      {provider && <Provider provider={provider} above={user !== undefined} />}
      <TextInput label={text.user} autoComplete="username" required value={name} onChange={(e) => setName(e.currentTarget.value)} autoFocus={!user} withAsterisk={false} />
      <PasswordInput label={text.password} autoComplete="current-password" required value={password} onChange={(e) => setPassword(e.currentTarget.value)} autoFocus={!!user} withAsterisk={false} />
      {enter.error && (
        <div role="alert" className={css.wrong}>
          <Mistakes error={enter.error} />
        </div>
      )}
      <Button type="submit" fullWidth disabled={enter.isPending}>
        {enter.isPending ? text.entering : text.enter}
      </Button>
    </form>
  );
}
