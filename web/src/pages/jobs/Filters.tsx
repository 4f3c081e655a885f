import { Button, SegmentedControl, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { vcsQuery } from '../../api/cluster';
import { meQuery } from '../../api/people';
import { text } from '../../text/jobs';
import { text as states } from '../../text/states';
import type { JobsAddress } from './address';
import css from './jobs.module.css';

const phases = [
  { value: 'Waiting', label: states.waiting },
  { value: 'Active', label: states.running },
  { value: 'Succeeded', label: states.succeeded },
  { value: 'Failed', label: states.failed },
  { value: 'Stopped', label: states.stopped },
];

interface Props {
  address: JobsAddress;
  onGo: (a: JobsAddress) => void;
}

// Filters are the server's: what is typed goes into the address, and the answer is asked for anew.
export function Filters({ address, onGo }: Props) {
  const me = useQuery(meQuery);
  const vcs = useQuery(vcsQuery);
  const set = (change: JobsAddress) => onGo({ ...address, cursor: '', ...change });
  const mine = me.data?.name ?? '';
  return (
    <div className={css.filters} role="search" aria-label={text.filters}>
      <SegmentedControl
        size="sm"
        aria-label={text.whose}
        value={address.user === mine && mine !== '' ? 'mine' : 'all'}
        onChange={(v) => set({ user: v === 'mine' ? mine : '' })}
        data={[
          { value: 'all', label: text.all },
          { value: 'mine', label: text.mine },
        ]}
      />
      <Select aria-label={text.state} placeholder={text.anyState} clearable clearButtonProps={{ 'aria-label': text.anyState }} data={phases} value={address.state ?? null} onChange={(v) => set({ state: v ?? '' })} />
      <Select aria-label={text.vc} placeholder={text.anyVC} clearable clearButtonProps={{ 'aria-label': text.anyVC }} searchable data={(vcs.data?.vcs ?? []).map((v) => v.name)} value={address.vc ?? null} onChange={(v) => set({ vc: v ?? '' })} />
      <Name name={address.name ?? ''} onName={(name) => set({ name })} />
      {address.tag && (
        <Button size="xs" variant="default" aria-label={text.withoutTag(address.tag)} onClick={() => set({ tag: '' })}>
          {text.tag(address.tag)} ×
        </Button>
      )}
    </div>
  );
}

const settles = 250; // ms after the last letter until the list is asked for

// Name is a part of the names that are wanted. The address has it when nothing was typed for a moment; what the address gets
// from elsewhere, such as filters that are cleared, is shown.
function Name({ name, onName }: { name: string; onName: (name: string) => void }) {
  const [typed, setTyped] = useState(name);
  const [before, setBefore] = useState(name);
  const told = useRef(onName);
  useEffect(() => {
    told.current = onName;
  }, [onName]);
  useEffect(() => {
    if (typed === before) return;
    const timer = window.setTimeout(() => {
      setBefore(typed);
      told.current(typed);
    }, settles);
    return () => window.clearTimeout(timer);
  }, [typed, before]);
  const [seen, setSeen] = useState(name);
  if (seen !== name) {
    setSeen(name);
    if (name !== before) {
      setBefore(name);
      setTyped(name);
    }
  }
  return <TextInput aria-label={text.nameHas} placeholder={text.nameHas} maxLength={255} value={typed} onChange={(e) => setTyped(e.currentTarget.value)} />;
}
