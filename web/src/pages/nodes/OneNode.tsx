import { Button, NumberInput, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { newKey } from '../../api/client';
import { cordon, drain, drainPlanQuery, uncordon } from '../../api/cluster';
import { meQuery } from '../../api/people';
import type { CellList, Node } from '../../api/wire';
import { told } from '../../format/sentence';
import { leavesOf } from '../../map/cells';
import { isPretended, meaningOf, nodeState } from '../../parts/node';
import { may } from '../../parts/rights';
import { text } from '../../text/nodes';
import { Ago } from '../../ui/Ago';
import { Ask } from '../../ui/Ask';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
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
      <State state={nodeState(node)} />
      {meaningOf(nodeState(node)) && <p>{meaningOf(nodeState(node))}</p>}
      {node.reason && <p className="muted">{node.reason}</p>}
      {isPretended(node) && <p className="muted">{text.pretended}.</p>}
      {node.drain ? <p>{text.drains} <Ago at={node.drain} /></p> : null}
      <ul className={css.skus}>
        {(node.skus ?? []).map((s) => (
          <li key={`${s.chain} ${s.sku}`}>
            {s.sku}: {text.onNode(s.used, s.total)}
            {s.holders && `, ${s.holders}`}
            {s.bad > 0 && `, ${s.bad} ${text.bad}${s.fault ? `: ${s.fault}` : ''}`}
          </li>
        ))}
      </ul>
      <Jobs title={text.jobs} jobs={jobs} />
      {may(me.data, 'change the cluster') && <Change node={node} />}
    </aside>
  );
}

interface OnIt {
  id: number | undefined;
  ref: string | undefined; // none of one that its reader may not see
}

function Jobs({ title, jobs }: { title: string; jobs: OnIt[] }) {
  if (jobs.length === 0) return null;
  return (
    <div>
      <h3>{title}</h3>
      <ul className={css.skus}>
        {jobs.map((j) => (
          <li key={j.id}>
            {j.ref ? <Link to="/jobs/$job" params={{ job: String(j.id) }}>{j.ref}</Link> : <span className="muted">{text.someJob} ({j.id})</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}

type Verb = 'cordon' | 'drain' | 'uncordon';

const asks = {
  cordon: { act: text.cordon, title: text.cordonTitle, why: text.cordonWhy },
  drain: { act: text.drain, title: text.drainTitle, why: text.drainWhy },
  uncordon: { act: text.uncordon, title: text.uncordonTitle, why: text.uncordonWhy },
};

function Change({ node }: { node: Node }) {
  const [open, setOpen] = useState<{ verb: Verb; key: string } | null>(null);
  const verbs: Verb[] = node.cordoned ? ['uncordon'] : ['cordon', 'drain'];
  return (
    <div className={css.verbs}>
      {verbs.map((verb) => (
        <Button key={verb} variant="default" {...(verb === 'drain' ? { color: 'red' } : {})} onClick={() => setOpen({ verb, key: newKey() })}>
          {asks[verb].act}
        </Button>
      ))}
      {open && <AskOne key={open.key} node={node} verb={open.verb} idempotency={open.key} onClose={() => setOpen(null)} />}
    </div>
  );
}

// Fates are what would become of each job, as the code that decides sees it now.
function Fates({ node, minutes }: { node: string; minutes: number }) {
  const plan = useQuery(drainPlanQuery(node, minutes));
  if (plan.error) return <Failed error={plan.error} onRetry={() => void plan.refetch()} />;
  if (!plan.data) return <Loading rows={2} />;
  const all = [...(plan.data.jobs ?? []), ...(plan.data.others ?? [])];
  if (all.length === 0) return <p>{text.hitsNone}</p>;
  return (
    <div>
      <h3>{text.hits}</h3>
      <ul className={css.fates}>
        {all.map((e) => (
          <li key={`${e.attempt.job} ${e.attempt.gang} ${e.attempt.n}`}>
            <Link to="/jobs/$job" params={{ job: String(e.attempt.job) }}>{e.ref}</Link> {told(e.says)}
          </li>
        ))}
      </ul>
    </div>
  );
}

interface AskProps {
  node: Node;
  verb: Verb;
  idempotency: string;
  onClose: () => void;
}

function AskOne({ node, verb, idempotency, onClose }: AskProps) {
  const [reason, setReason] = useState('');
  const [minutes, setMinutes] = useState<number | string>(60);
  const act = useMutation({
    mutationFn: () => {
      if (verb === 'uncordon') return uncordon(node.name, idempotency);
      if (verb === 'drain') return drain(node.name, Number(minutes), reason, idempotency);
      return cordon(node.name, reason, idempotency);
    },
    onSuccess: onClose,
  });
  const a = asks[verb];
  return (
    <Ask ends={verb === 'drain'} title={a.title(node.name)} act={act.isPending ? text.doing : a.act} busy={act.isPending} error={act.error} onAct={() => act.mutate()} onClose={onClose}>
      <p>{a.why}</p>
      {verb === 'drain' && <NumberInput label={text.within} required withAsterisk={false} min={0} max={525_600} allowDecimal={false} value={minutes} onChange={setMinutes} />}
      {verb === 'drain' && <Fates node={node.name} minutes={Number(minutes)} />}
      {verb !== 'uncordon' && <TextInput label={text.why} maxLength={1000} required withAsterisk={false} value={reason} onChange={(e) => setReason(e.currentTarget.value)} data-autofocus />}
    </Ask>
  );
}
