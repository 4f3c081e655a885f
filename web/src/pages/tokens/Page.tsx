import { Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { meQuery, revokeToken, tokensQuery } from '../../api/people';
import type { Token } from '../../api/wire';
import { tokens as text } from '../../text/people';
import { Ago } from '../../ui/Ago';
import { Ask } from '../../ui/Ask';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Page } from '../../ui/Page';
import { type Column, Table } from '../../ui/Table';
import { NewToken } from './NewToken';

const facts = (own: string | undefined): Column<Token>[] => [
  { key: 'name', head: text.name, narrow: 'title', cell: (t) => t.name || t.id },
  { key: 'kind', head: text.kind, grow: true, cell: (t) => [text.kinds[t.kind], t.read_only && text.onlyReads, (t.vcs ?? []).length > 0 && text.only(t.vcs ?? []), t.id === own && text.thisOne].filter(Boolean).join(' · ') },
  { key: 'created', head: text.created, named: true, cell: (t) => <Ago at={t.created} /> },
  { key: 'used', head: text.used, named: true, cell: (t) => (t.used ? <Ago at={t.used} /> : <span className="muted">{text.never}</span>) },
  { key: 'ends', head: text.ends, named: true, cell: (t) => (t.expires ? <Ago at={t.expires} /> : <span className="muted">{text.never}</span>) },
];

export function Tokens() {
  const tokens = useQuery(tokensQuery);
  const me = useQuery(meQuery);
  const [making, setMaking] = useState(false);
  const [going, setGoing] = useState<Token | null>(null);
  const cache = useQueryClient();
  const revoke = useMutation({
    mutationFn: (id: string) => revokeToken(id),
    onSuccess: () => {
      setGoing(null);
      void cache.invalidateQueries({ queryKey: ['tokens'] });
    },
  });
  const act: Column<Token> = {
    key: 'act', head: text.act, quiet: true,
    cell: (t) => (
      <Button size="compact-xs" variant="default" color="red" aria-label={`${text.revoke}: ${t.name || t.id}`} onClick={() => setGoing(t)}>
        {text.revoke}
      </Button>
    ),
  };
  const rows = tokens.data?.tokens ?? [];
  return (
    <Page title={text.title} facts={<span className="muted">{text.why}</span>} actions={<Button onClick={() => setMaking(true)}>{text.create}</Button>}>
      {tokens.error && <Failed error={tokens.error} onRetry={() => void tokens.refetch()} />}
      {tokens.isPending && <Loading />}
      {tokens.data && rows.length === 0 && <Empty title={text.none} />}
      {rows.length > 0 && <Table label={text.title} columns={[...facts(me.data?.token?.id), act]} rows={rows} rowKey={(t) => t.id} />}
      {making && <NewToken onClose={() => setMaking(false)} />}
      {going && (
        <Ask ends title={text.revokeTitle(going.name || going.id)} act={revoke.isPending ? text.doing : text.revoke} busy={revoke.isPending} error={revoke.error} onAct={() => revoke.mutate(going.id)} onClose={() => (revoke.reset(), setGoing(null))}>
          <p>{text.revokeWhy}</p>
        </Ask>
      )}
    </Page>
  );
}
