import { Button, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { deleteUser, meQuery, updateUser } from '../../api/people';
import type { User } from '../../api/wire';
import { users as text } from '../../text/people';
import { Ask } from '../../ui/Ask';
import { Secret } from '../../ui/Secret';
import { newPassword } from './csv';
import css from './users.module.css';

type What = 'groups' | 'numbers' | 'reset' | 'block' | 'remove';

function wordsOf(what: What, u: User, own: boolean): { title: string; act: string; why: string } {
  if (own && (what === 'reset' || what === 'remove' || (what === 'block' && !u.blocked))) return text.own[what];
  switch (what) {
    case 'groups':
      return { title: text.setGroups(u.name), act: text.act, why: '' };
    case 'numbers':
      return { title: text.setNumbers(u.name), act: text.act, why: text.numbersWhy };
    case 'reset':
      return { title: text.resetTitle(u.name), act: text.reset, why: text.resetWhy };
    case 'block':
      return u.blocked ? { title: text.unblockTitle(u.name), act: text.unblock, why: '' } : { title: text.blockTitle(u.name), act: text.block, why: text.blockWhy };
    case 'remove':
      return { title: text.removeTitle(u.name), act: text.remove, why: text.removeWhy };
    default:
      return what satisfies never;
  }
}

// Said is what an administrator has written.
interface Said {
  groups: string;
  uid: string;
  gid: string;
}

// numberOf reads a number of the machines' users; an empty text takes it away, as the server is told by -1.
function numberOf(written: string): number {
  if (written.trim() === '') return -1;
  if (!/^\s*\d{1,10}\s*$/.test(written)) throw new Error(text.badNumber(written));
  return Number(written);
}

// run does it, and gives a password that is to be shown, "" for none.
async function run(what: What, user: User, { groups, uid, gid }: Said): Promise<string> {
  switch (what) {
    case 'groups':
      await updateUser(user.name, { groups: groups.split(/[,;\s]+/).filter((g) => g !== '') });
      return '';
    case 'numbers':
      await updateUser(user.name, { uid: numberOf(uid), gid: numberOf(gid) });
      return '';
    case 'reset': {
      const password = newPassword();
      await updateUser(user.name, { password });
      return password;
    }
    case 'block':
      await updateUser(user.name, { blocked: !user.blocked });
      return '';
    case 'remove':
      await deleteUser(user.name);
      return '';
    default:
      return what satisfies never;
  }
}

// Change has what may be done with a user; each asks first.
export function Change({ user }: { user: User }) {
  const [what, setWhat] = useState<What | ''>('');
  return (
    <span className={css.acts}>
      <Act name={text.groups} user={user} onClick={() => setWhat('groups')} />
      <Act name={text.numbers} user={user} onClick={() => setWhat('numbers')} />
      <Act name={text.reset} user={user} onClick={() => setWhat('reset')} />
      <Act name={user.blocked ? text.unblock : text.block} user={user} onClick={() => setWhat('block')} />
      <Act name={text.remove} user={user} ends onClick={() => setWhat('remove')} />
      {what && <Sure what={what} user={user} onClose={() => setWhat('')} />}
    </span>
  );
}

function Act({ name, user, ends = false, onClick }: { name: string; user: User; ends?: boolean; onClick: () => void }) {
  return (
    <Button size="compact-xs" variant="default" {...(ends ? { color: 'red' } : {})} aria-label={`${name}: ${user.name}`} onClick={onClick}>
      {name}
    </Button>
  );
}

function Sure({ what, user, onClose }: { what: What; user: User; onClose: () => void }) {
  const [said, setSaid] = useState<Said>({ groups: (user.groups ?? []).join(', '), uid: String(user.uid ?? ''), gid: String(user.gid ?? '') });
  const cache = useQueryClient();
  const act = useMutation({
    mutationFn: () => run(what, user, said),
    onSuccess: (password) => {
      for (const key of ['users', 'groups']) void cache.invalidateQueries({ queryKey: [key] });
      if (password === '') onClose();
    },
  });
  const own = useQuery(meQuery).data?.name === user.name;
  const words = wordsOf(what, user, own);
  if (act.data) return <Secret title={text.passwords} secret={act.data} onClose={onClose}>{text.made}</Secret>;
  return (
    <Ask ends={what === 'remove' || (what === 'block' && !user.blocked)} title={words.title} act={act.isPending ? text.doing : words.act} busy={act.isPending} error={act.error} onAct={() => act.mutate()} onClose={onClose}>
      {words.why && <p>{words.why}</p>}
      {what === 'groups' && <TextInput label={text.groups} value={said.groups} onChange={(e) => setSaid({ ...said, groups: e.currentTarget.value })} data-autofocus />}
      {what === 'numbers' && <TextInput label={text.uid} inputMode="numeric" value={said.uid} onChange={(e) => setSaid({ ...said, uid: e.currentTarget.value })} data-autofocus />}
      {what === 'numbers' && <TextInput label={text.gid} inputMode="numeric" value={said.gid} onChange={(e) => setSaid({ ...said, gid: e.currentTarget.value })} />}
    </Ask>
  );
}
