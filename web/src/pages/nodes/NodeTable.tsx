import { UnstyledButton } from '@mantine/core';
import type { Node } from '../../api/wire';
import { badWords, meaningOf, nodeState, reasonOf } from '../../parts/node';
import { text } from '../../text/nodes';
import { State } from '../../ui/State';
import { type Column, Table } from '../../ui/Table';
import css from './nodes.module.css';

interface Props {
  nodes: Node[];
  chosen: string;
  onChoose: (node: string) => void;
}

function used(n: Node): string {
  return (n.skus ?? []).map((s) => `${s.used} / ${s.total} ${s.sku}`).join(', ');
}

export function NodeTable({ nodes, chosen, onChoose }: Props) {
  const columns: Column<Node>[] = [
    {
      key: 'node', head: text.node, narrow: 'title',
      cell: (n) => (
        <UnstyledButton className={css.pick} aria-pressed={n.name === chosen} onClick={() => onChoose(n.name)}>
          {n.name}
        </UnstyledButton>
      ),
    },
    { key: 'state', head: text.state, cell: (n) => <State state={nodeState(n)} means={meaningOf(nodeState(n))} /> },
    { key: 'used', head: text.used, cell: used },
    { key: 'bad', head: text.badDevices, named: true, cell: (n) => badWords(n) || '–' },
    { key: 'reason', head: text.reason, grow: true, cell: (n) => <span className="muted" title={reasonOf(n)}>{reasonOf(n)}</span> },
  ];
  return <Table label={text.title} columns={columns} rows={nodes} rowKey={(n) => n.name} />;
}
