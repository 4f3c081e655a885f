import { Button, NumberInput, Select, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';
import type { VC } from '../../api/wire';
import { text } from '../../text/submit';
import { commandsOf } from './commands';
import { type Draft, listAt, textAt } from './draft';
import { imageOf, withImage } from './image';
import type { Path } from './patch';
import { portsOf, withPorts } from './ports';
import css from './submit.module.css';

interface Props {
  name: string;
  draft: Draft;
  alone: boolean;
  vc: VC | undefined;
}

export function Role({ name, draft, alone, vc }: Props) {
  const path = ['taskRoles', name];
  const sku = ['extras', 'hivedScheduler', 'taskRoles', name, 'skuType'];
  const skus = [...new Set((vc?.skus ?? []).map((s) => s.sku))];
  const chosen = textAt(draft.read, sku);
  return (
    <fieldset className={css.role}>
      <legend>{text.role(name)}</legend>
      <div className={css.fields}>
        <Count label={text.tasks} draft={draft} path={[...path, 'instances']} min={1} />
        <Count label={text.gpu} draft={draft} path={[...path, 'resourcePerInstance', 'gpu']} min={0} />
      </div>
      <Textarea
        label={text.commands}
        description={text.commandsHint}
        autosize
        minRows={2}
        maxRows={12}
        classNames={{ input: css.commands ?? '' }}
        value={listAt(draft.read, [...path, 'commands']).join('\n')}
        onChange={(e) => draft.put([...path, 'commands'], commandsOf(e.currentTarget.value, listAt(draft.read, [...path, 'commands'])))}
      />
      <div className={css.fields}>
        <Count label={text.cpu} draft={draft} path={[...path, 'resourcePerInstance', 'cpu']} min={0} decimal />
        <Count label={text.memory} draft={draft} path={[...path, 'resourcePerInstance', 'memoryMB']} min={0} />
        <Select label={text.sku} placeholder={text.anySku} clearable clearButtonProps={{ 'aria-label': text.anySku }} data={chosen && !skus.includes(chosen) ? [...skus, chosen] : skus} value={chosen || null} onChange={(v) => draft.put(sku, v ?? undefined)} />
        <Image draft={draft} role={name} />
        <Ports draft={draft} role={name} />
        <Count label={text.shm} hint={text.shmHint} draft={draft} path={[...path, 'extraContainerOptions', 'shmMB']} min={0} />
      </div>
      {!alone && (
        <div>
          <Button size="xs" variant="default" onClick={() => draft.put(path, undefined)}>
            {text.removeRole}
          </Button>
        </div>
      )}
    </fieldset>
  );
}

// Ports are typed as words; what is no list of ports yet stays in the field alone.
function Ports({ draft, role }: { draft: Draft; role: string }) {
  const [typed, setTyped] = useState<string | null>(null);
  const shown = typed ?? portsOf(draft.read, role);
  return (
    <TextInput label={text.ports} description={text.portsHint} placeholder={text.noPorts} value={shown}
      error={typed !== null && withPorts(draft.text, role, typed) === null ? text.badPorts : undefined}
      onChange={(e) => {
        const words = e.currentTarget.value;
        setTyped(words);
        const file = withPorts(draft.text, role, words);
        if (file !== null && file !== draft.text) draft.setText(file);
      }}
      onBlur={() => {
        if (typed !== null && withPorts(draft.text, role, typed) !== null) setTyped(null);
      }} />
  );
}

interface CountProps {
  label: string;
  hint?: string;
  draft: Draft;
  path: Path;
  min: number;
  decimal?: boolean;
}

function Count({ label, hint, draft, path, min, decimal = false }: CountProps) {
  return (
    <NumberInput label={label} {...(hint ? { description: hint } : {})} min={min} max={10_000_000} allowDecimal={decimal} decimalScale={3} clampBehavior="none" value={textAt(draft.read, path)}
      onChange={(v) => draft.put(path, v === '' ? undefined : Number(v))} />
  );
}

// Image is the address of the image that a role's prerequisite names.
function Image({ draft, role }: { draft: Draft; role: string }) {
  return <TextInput label={text.image} description={text.imageHint} placeholder={text.noImage} value={imageOf(draft.read, role).uri} onChange={(e) => draft.setText(withImage(draft.text, role, e.currentTarget.value))} />;
}
