import { Button, PasswordInput, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { setUp } from '../api/people';
import { signedIn } from '../live/live';
import { text } from '../text/signin';
import { Mistakes } from '../ui/Failed';
import css from './shell.module.css';

// SetUp makes the first administrator with the code that the server printed when it started.
export function SetUp() {
  const [code, setCode] = useState('');
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const cache = useQueryClient();
  const make = useMutation({
    mutationFn: () => setUp(code.trim(), name, password),
    onSuccess: (s) => {
      void cache.invalidateQueries({ queryKey: ['ways'] });
      signedIn(s.user);
    },
  });
  return (
    <form
      className={css.signIn}
      onSubmit={(e) => {
        e.preventDefault();
        make.mutate();
      }}
    >
      <TextInput label={text.code} description={text.codeHint} required maxLength={100} autoComplete="one-time-code" autoFocus withAsterisk={false} value={code} onChange={(e) => setCode(e.currentTarget.value)} />
      <TextInput label={text.user} required autoComplete="username" withAsterisk={false} value={name} onChange={(e) => setName(e.currentTarget.value)} />
      <PasswordInput label={text.newPassword} required autoComplete="new-password" withAsterisk={false} value={password} onChange={(e) => setPassword(e.currentTarget.value)} />
      {make.error && (
        <div role="alert" className={css.wrong}>
          <Mistakes error={make.error} />
        </div>
      )}
      <Button type="submit" fullWidth disabled={make.isPending}>
        {make.isPending ? text.making : text.make}
      </Button>
    </form>
  );
}
