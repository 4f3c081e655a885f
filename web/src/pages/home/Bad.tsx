import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { nodesQuery } from '../../api/cluster';
import type { Node } from '../../api/wire';
import { badOf, badWords, meaningOf, nodeState, reasonOf } from '../../parts/node';
import { text } from '../../text/home';
import { text as nodes } from '../../text/nodes';
import { Failed } from '../../ui/Failed';
import { Section } from '../../ui/Page';
import { State } from '../../ui/State';
import { type Column, Table } from '../../ui/Table';

const columns: Column<Node>[] = [
  { key: 'node', head: nodes.node, narrow: 'title', cell: (n) => <Link to="/nodes" search={{ node: n.name }}>{n.name}</Link> },
  { key: 'state', head: nodes.state, cell: (n) => <State state={nodeState(n)} means={meaningOf(nodeState(n))} /> },
  { key: 'bad', head: nodes.badDevices, named: true, cell: (n) => badWords(n) || '–' },
  { key: 'reason', head: nodes.reason, grow: true, cell: (n) => <span className="muted" title={reasonOf(n)}>{reasonOf(n)}</span> },
];

// Bad lists nodes that are not wholly in service: they explain why less fits than there seems to be.
export function Bad() {
  const list = useQuery(nodesQuery);
  const bad = (list.data?.nodes ?? []).filter((n) => nodeState(n) !== 'Up' || badOf(n) > 0);
  return (
    <Section title={text.bad}>
      {list.error && <Failed error={list.error} onRetry={() => void list.refetch()} />}
      {!list.data && !list.error && <p className="muted">{'\u00a0'}</p> /* keeps the line, so that nothing moves */}
      {list.data && bad.length === 0 && <p className="muted">{text.allWell}</p>}
      {bad.length > 0 && <Table label={text.bad} columns={columns} rows={bad} rowKey={(n) => n.name} />}
    </Section>
  );
}
