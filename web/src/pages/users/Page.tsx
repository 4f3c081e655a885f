import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { groupsQuery, meQuery, usersQuery } from '../../api/people';
import type { User } from '../../api/wire';
import { may } from '../../parts/rights';
import { users as text } from '../../text/people';
import { Ago } from '../../ui/Ago';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Page } from '../../ui/Page';
import { State } from '../../ui/State';
import { type Column, Table } from '../../ui/Table';
import { Change } from './Change';
import { Create } from './Create';
import { Groups } from './Groups';

const columns: Column<User>[] = [
  { key: 'name', head: text.name, narrow: 'title', cell: (u) => <span title={u.name}>{u.name}</span> },
  { key: 'display', head: text.display, narrow: 'hidden', gives: true, cell: (u) => <span title={u.display}>{u.display || '–'}</span> },
  { key: 'email', head: text.email, narrow: 'hidden', from: 1400, gives: true, cell: (u) => <span title={u.email}>{u.email || '–'}</span> },
  { key: 'groups', head: text.groups, named: true, grow: true, cell: (u) => <span title={(u.groups ?? []).join(', ')}>{(u.groups ?? []).join(', ') || '–'}</span> },
  { key: 'state', head: text.state, cell: stateOf },
  { key: 'created', head: text.created, narrow: 'hidden', from: 1500, cell: (u) => <Ago at={u.created} /> },
  { key: 'act', head: text.act, quiet: true, cell: (u) => <Change user={u} /> },
];

function stateOf(u: User) {
  if (u.blocked) return <State state="Blocked" />;
  return <span className="muted">{[u.administrator ? text.admin : text.active, !u.has_password && text.noPassword].filter(Boolean).join(', ')}</span>;
}

export function Users() {
  const users = useQuery(usersQuery);
  const groups = useQuery(groupsQuery);
  const me = useQuery(meQuery).data;
  const [making, setMaking] = useState(false);
  const rows = users.data?.users ?? [];
  return (
    <Page title={text.title} actions={may(me, 'change users and groups') && <Button onClick={() => setMaking(true)}>{text.create}</Button>}>
      {users.error && <Failed error={users.error} onRetry={() => void users.refetch()} />}
      {users.isPending && <Loading />}
      {users.data && rows.length === 0 && <Empty title={text.none}>{text.noneWhy}</Empty>}
      {rows.length > 0 && <Table label={text.title} columns={columns} rows={rows} rowKey={(u) => u.name} />}
      {groups.error && !users.error && <Failed error={groups.error} onRetry={() => void groups.refetch()} />}
      {groups.data && <Groups groups={groups.data.groups ?? []} />}
      {making && <Create onClose={() => setMaking(false)} />}
    </Page>
  );
}
