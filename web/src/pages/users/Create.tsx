import { Textarea } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { createUsers } from '../../api/people';
import { users as text } from '../../text/people';
import { Ask } from '../../ui/Ask';
import { Secret } from '../../ui/Secret';
import { newPassword, usersOf } from './csv';

// Create makes one user or many, and shows their passwords this once.
export function Create({ onClose }: { onClose: () => void }) {
  const [lines, setLines] = useState('');
  const cache = useQueryClient();
  const create = useMutation({
    mutationFn: async () => {
      const list = usersOf(lines, newPassword);
      await createUsers(list);
      return list.map((u) => `${u.name}  ${u.password ?? ''}`).join('\n');
    },
    onSuccess: () => {
      for (const key of ['users', 'groups']) void cache.invalidateQueries({ queryKey: [key] });
    },
  });
  if (create.data !== undefined) return <Secret title={text.passwords} secret={create.data} onClose={onClose}>{text.made}</Secret>;
  return (
    <Ask title={text.create} act={create.isPending ? text.doing : text.create} busy={create.isPending} error={create.error} onAct={() => create.mutate()} onClose={onClose}>
      <p>{text.createHow}</p>
      <Textarea label={text.lines} placeholder={text.example} autosize minRows={4} maxRows={12} value={lines} onChange={(e) => setLines(e.currentTarget.value)} data-autofocus />
    </Ask>
  );
}
