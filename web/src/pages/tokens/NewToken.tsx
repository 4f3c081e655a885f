import { Checkbox, Select, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { createToken } from '../../api/people';
import { tokens as text } from '../../text/people';
import { Ask } from '../../ui/Ask';
import { Secret } from '../../ui/Secret';

// NewToken makes a token and shows it this once.
export function NewToken({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [life, setLife] = useState('30d');
  const [readOnly, setReadOnly] = useState(false);
  const cache = useQueryClient();
  const create = useMutation({
    mutationFn: () => createToken(name, life, readOnly),
    onSuccess: () => void cache.invalidateQueries({ queryKey: ['tokens'] }),
  });
  if (create.data) return <Secret title={text.secret} say={text.secretHow} secret={create.data.secret} onClose={onClose} />;
  return (
    <Ask title={text.create} act={create.isPending ? text.doing : text.create} busy={create.isPending} error={create.error} onAct={() => create.mutate()} onClose={onClose}>
      <TextInput label={text.name} description={text.nameHint} required withAsterisk={false} value={name} onChange={(e) => setName(e.currentTarget.value)} data-autofocus />
      <Select label={text.expires} data={text.lives} value={life} onChange={(v) => setLife(v ?? '30d')} allowDeselect={false} />
      <Checkbox label={text.readOnly} checked={readOnly} onChange={(e) => setReadOnly(e.currentTarget.checked)} />
    </Ask>
  );
}
