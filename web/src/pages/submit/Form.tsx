import { Button, MultiSelect, NumberInput, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { storagesQuery, vcsQuery } from '../../api/cluster';
import { meQuery } from '../../api/people';
import { text } from '../../text/submit';
import { Code } from './Code';
import { type Draft, keysAt, listAt, textAt } from './draft';
import { ownVCs } from './own';
import { set } from './patch';
import { Role } from './Role';
import css from './submit.module.css';

const priorities = Object.entries(text.classes).map(([value, label]) => ({ value, label }));
const pulls = Object.entries(text.pulls).map(([value, label]) => ({ value, label }));
const vcPath = ['defaults', 'virtualCluster'];
const classPath = ['extras', 'hivedScheduler', 'jobPriorityClass'];
const ownPath = ['extras', 'comb', 'priority'];
const limitPath = ['extras', 'comb', 'timeLimit'];

// Form shows the keys of a job file that most jobs need. What it does not know stays in the file.
// What is run, and on how much, comes first: it is seen without scrolling.
export function Form({ draft, template }: { draft: Draft; template: ReactNode }) {
  const vcs = useQuery(vcsQuery);
  const me = useQuery(meQuery);
  if (draft.read === null) return <><p className={css.warn}>{text.notYaml}</p>{template}</>;
  const names = ownVCs(me.data, vcs.data?.vcs ?? []);
  const vc = textAt(draft.read, vcPath);
  const roles = keysAt(draft.read, ['taskRoles']);
  return (
    <div className={css.form}>
      <div className={css.fields}>
        {template}
        <TextInput label={text.name} value={textAt(draft.read, ['name'])} onChange={(e) => draft.put(['name'], e.currentTarget.value)} />
        <Select label={text.vc} data={vc && !names.includes(vc) ? [...names, vc] : names} value={vc || null} placeholder={text.chooseVC} onChange={(v) => draft.put(vcPath, v ?? undefined)} allowDeselect={false} searchable={names.length > 10} />
      </div>
      {roles.map((name) => (
        <Role key={name} name={name} draft={draft} alone={roles.length === 1} vc={vcs.data?.vcs?.find((v) => v.name === vc)} />
      ))}
      <div>
        <Button size="xs" variant="default" onClick={() => addRole(draft, roles)}>
          {text.addRole}
        </Button>
      </div>
      <div className={css.more}>
        <Priority draft={draft} />
        <TextInput label={text.limit} description={text.limitHint} placeholder="90m" value={textAt(draft.read, limitPath)} onChange={(e) => draft.put(limitPath, e.currentTarget.value || undefined)} />
        <NumberInput label={text.retries} description={text.retriesHint} min={-2} max={10_000} allowDecimal={false} value={textAt(draft.read, ['jobRetryCount']) || 0} onChange={(v) => draft.put(['jobRetryCount'], v === '' || v === 0 ? undefined : Number(v))} />
        <Pull draft={draft} />
        <Storages draft={draft} />
      </div>
      <Code draft={draft} />
    </div>
  );
}

// Priority is a class, or a number between them that the file has: a class that is chosen takes its place.
function Priority({ draft }: { draft: Draft }) {
  const own = textAt(draft.read, ownPath);
  const choose = (name: string | null) => {
    if (name !== null && name !== own) draft.setText(set(set(draft.text, ownPath, undefined), classPath, name));
  };
  return <Select label={text.priority} data={own ? [...priorities, { value: own, label: text.ownPriority(own) }] : priorities} value={own || textAt(draft.read, classPath) || 'test'} onChange={choose} allowDeselect={false} />;
}

const pullPath = ['extras', 'comb', 'pull'];

// Pull is whether the images are fetched where the machine has them.
function Pull({ draft }: { draft: Draft }) {
  const own = textAt(draft.read, pullPath);
  const known = pulls.some((p) => p.value === own);
  return <Select label={text.pull} description={text.pullHint} data={own && !known ? [...pulls, { value: own, label: own }] : pulls} value={own || 'missing'} allowDeselect={false}
    onChange={(v) => draft.put(pullPath, v === 'missing' ? undefined : (v ?? undefined))} />;
}

const storagesPath = ['extras', 'comb', 'storages'];

// Storages are those that the cluster has and the file names.
function Storages({ draft }: { draft: Draft }) {
  const known = useQuery(storagesQuery);
  const chosen = listAt(draft.read, storagesPath);
  const names = [...new Set([...(known.data?.storages ?? []).map((s) => s.name), ...chosen])];
  if (names.length === 0) return null;
  return <MultiSelect classNames={{ input: css.chosen ?? '' }} label={text.storages} description={text.storageHint} placeholder={chosen.length === 0 ? text.noStorages : ''} data={names} value={chosen}
    onChange={(v) => draft.put(storagesPath, v.length === 0 ? undefined : v)} />;
}

function addRole(draft: Draft, roles: string[]): void {
  let n = roles.length + 1;
  while (roles.includes(`role${n}`)) n++;
  const role = ['taskRoles', `role${n}`];
  let file = set(draft.text, [...role, 'instances'], 1);
  file = set(file, [...role, 'resourcePerInstance', 'gpu'], 1);
  draft.setText(set(file, [...role, 'commands'], ['echo hello']));
}
