import { Button, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { createGroup, deleteGroup } from '../../api/people';
import type { Group } from '../../api/wire';
import { users as text } from '../../text/people';
import { Ask } from '../../ui/Ask';
import { Section } from '../../ui/Page';
import { type Column, Table } from '../../ui/Table';
import css from './users.module.css';

const always = 'everyone'; // the group that the server makes and nobody changes

export function Groups({ groups }: { groups: Group[] }) {
  const [name, setName] = useState('');
  const [going, setGoing] = useState('');
  const cache = useQueryClient();
  const anew = () => {
    setName('');
    setGoing('');
    for (const key of ['users', 'groups']) void cache.invalidateQueries({ queryKey: [key] });
  };
  const create = useMutation({ mutationFn: () => createGroup(name, []), onSuccess: anew });
  const remove = useMutation({ mutationFn: () => deleteGroup(going), onSuccess: anew });
  const columns: Column<Group>[] = [
    { key: 'group', head: text.group, narrow: 'title', cell: (g) => g.name },
    { key: 'members', head: text.members, grow: true, cell: (g) => (g.members ?? []).join(', ') || '–' },
    {
      key: 'act', head: text.act, quiet: true,
      cell: (g) =>
        g.name !== always && (
          <Button size="compact-xs" variant="default" color="red" aria-label={`${text.remove}: ${g.name}`} onClick={() => setGoing(g.name)}>
            {text.remove}
          </Button>
        ),
    },
  ];
  return (
    <Section title={text.groupTitle}>
      <Table label={text.groupTitle} columns={columns} rows={groups} rowKey={(g) => g.name} />
      <form
        className={css.newGroup}
        onSubmit={(e) => {
          e.preventDefault();
          create.mutate();
        }}
      >
        <TextInput label={text.groupName} value={name} onChange={(e) => setName(e.currentTarget.value)} error={create.error?.message} />
        <Button type="submit" variant="default" disabled={name === '' || create.isPending}>
          {text.newGroup}
        </Button>
      </form>
      {going && (
        <Ask ends title={text.removeGroup(going)} act={remove.isPending ? text.doing : text.remove} busy={remove.isPending} error={remove.error} onAct={() => remove.mutate()} onClose={() => (remove.reset(), setGoing(''))}>
          <p>{text.removeGroupWhy}</p>
        </Ask>
      )}
    </Section>
  );
}
