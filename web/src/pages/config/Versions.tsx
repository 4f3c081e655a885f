import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { configVersionFile, configVersionsQuery } from '../../api/cluster';
import type { ConfigVersion } from '../../api/wire';
import { text } from '../../text/config';
import { Ago } from '../../ui/Ago';
import { Failed } from '../../ui/Failed';
import { Section } from '../../ui/Page';
import { type Column, Table } from '../../ui/Table';

// Versions are the cluster files that were applied. One is put into the editor, where its plan stands beside it.
export function Versions({ onTake }: { onTake: (version: number, file: string) => void }) {
  const list = useQuery(configVersionsQuery);
  const [error, setError] = useState<Error | null>(null);
  const taken = useRef(0);
  const take = (v: ConfigVersion) => {
    setError(null);
    const turn = ++taken.current;
    configVersionFile(v.version).then(
      (file) => turn === taken.current && onTake(v.version, file), // not one that was asked for before another
      (e: Error) => turn === taken.current && setError(e),
    );
  };
  const rows = list.data?.versions ?? [];
  if (list.error) return <Failed error={list.error} onRetry={() => void list.refetch()} />;
  if (rows.length === 0) return null;
  return (
    <Section title={text.versions}>
      {error && <Failed error={error} />}
      <Table label={text.versions} columns={columns(take)} rows={rows} rowKey={(v) => String(v.version)} />
      {list.data?.next ? <p className="meta">{text.older(rows.length)}</p> : null}
    </Section>
  );
}

function columns(take: (v: ConfigVersion) => void): Column<ConfigVersion>[] {
  return [
    { key: 'version', head: text.version, narrow: 'title', cell: (v) => (v.present ? text.inForce(v.version) : v.version) },
    { key: 'time', head: text.applied, named: true, cell: (v) => <Ago at={v.time} /> },
    { key: 'author', head: text.by, named: true, cell: (v) => v.author },
    { key: 'reason', head: text.reason, grow: true, cell: (v) => [v.reason, v.restores && text.restores(v.restores)].filter(Boolean).join(', ') || '–' },
    {
      key: 'take',
      head: text.restore,
      quiet: true,
      cell: (v) =>
        v.present || v.bytes === 0 ? null : (
          <Button size="xs" variant="default" onClick={() => take(v)} aria-label={text.restoreVersion(v.version)}>
            {text.restore}
          </Button>
        ),
    },
  ];
}
