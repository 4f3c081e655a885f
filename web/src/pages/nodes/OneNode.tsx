import { Button, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { newKey } from '../../api/client';
import { cordon, uncordon } from '../../api/cluster';
import { meQuery } from '../../api/people';
import type { CellList, Node } from '../../api/wire';
import { leavesOf } from '../../map/cells';
import { nodeState } from '../../parts/node';
import { may } from '../../parts/rights';
import { text } from '../../text/nodes';
import { Ask } from '../../ui/Ask';
import { State } from '../../ui/State';
import css from './nodes.module.css';

// OneNode is what there is to know about the node that was chosen, and what may be done with it.
export function OneNode({ node, cells }: { node: Node; cells: CellList }) {
  const me = useQuery(meQuery);
  const on = new Set((cells.cells ?? []).flatMap(leavesOf).filter((l) => l.node === node.name && l.job).map((l) => l.job));
  const jobs = [...on].map((id) => ({ id, ref: cells.names?.find((n) => n.id === id)?.ref }));
  return (
    <aside className={css.one} aria-label={node.name}>
      <h2>{node.name}</h2>
      <State state={nodeState(node)} detail={node.reason} />
      <ul className={css.skus}>
        {(node.skus ?? []).map((s) => (
          <li key={`${s.chain} ${s.sku}`}>
            {s.sku}: {text.onNode(s.used, s.total)}
            {s.bad > 0 && `, ${s.bad} ${text.bad}`}
          </li>
        ))}
      </ul>
      {jobs.length > 0 && <h3>{text.jobs}</h3>}
      <ul className={css.skus}>
        {jobs.map((j) => (
          <li key={j.id}>
            {j.ref ? <Link to="/jobs/$job" params={{ job: String(j.id) }}>{j.ref}</Link> : <span className="muted">{text.someJob} ({j.id})</span>}
          </li>
        ))}
      </ul>
      {may(me.data, 'change the cluster') && <Change node={node} />}
    </aside>
  );
}

function Change({ node }: { node: Node }) {
  const [key, setKey] = useState('');
  const [reason, setReason] = useState('');
  const out = !!node.cordoned;
  const act = useMutation({ mutationFn: () => (out ? uncordon(node.name, key) : cordon(node.name, reason, key)), onSuccess: () => setKey('') });
  return (
    <div>
      <Button variant="default" onClick={() => setKey(newKey())}>
        {out ? text.uncordon : text.cordon}
      </Button>
      {key && (
        <Ask title={out ? text.uncordonTitle(node.name) : text.cordonTitle(node.name)} act={act.isPending ? text.doing : out ? text.uncordon : text.cordon} busy={act.isPending} error={act.error} onAct={() => act.mutate()} onClose={() => setKey('')}>
          <p>{out ? text.uncordonWhy : text.cordonWhy}</p>
          {!out && <TextInput label={text.why} maxLength={1000} required withAsterisk={false} value={reason} onChange={(e) => setReason(e.currentTarget.value)} data-autofocus />}
        </Ask>
      )}
    </div>
  );
}
