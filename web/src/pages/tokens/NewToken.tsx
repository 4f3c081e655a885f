import { Checkbox, MultiSelect, Select, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { createToken, meQuery } from '../../api/people';
import { tokens as text } from '../../text/people';
import { Ask } from '../../ui/Ask';
import { Wrong } from '../../ui/Failed';
import { Secret } from '../../ui/Secret';

// NewToken makes a token and shows it this once.
export function NewToken({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [life, setLife] = useState('30d');
  const [readOnly, setReadOnly] = useState(false);
  const [vcs, setVCs] = useState<string[]>([]);
  const me = useQuery(meQuery).data;
  const cache = useQueryClient();
  const create = useMutation({
    mutationFn: async () => {
      if (name.trim() === '') throw new Wrong(text.noName);
      return createToken({ name, expires: life, read_only: readOnly, vcs });
    },
    onSuccess: () => void cache.invalidateQueries({ queryKey: ['tokens'] }),
  });
  if (create.data) return <Secret title={text.secret} secret={create.data.secret} onClose={onClose}>{text.secretHow} <code className="whole">{text.secretFlag}</code></Secret>;
  const own = (me?.vcs ?? []).map((v) => v.name);
  return (
    <Ask title={text.create} act={create.isPending ? text.doing : text.create} busy={create.isPending} error={create.error} onAct={() => create.mutate()} onClose={onClose}>
      <TextInput label={text.name} description={text.nameHint} value={name} onChange={(e) => setName(e.currentTarget.value)} data-autofocus />
      <Select label={text.expires} data={text.lives} value={life} onChange={(v) => setLife(v ?? '30d')} allowDeselect={false} />
      {own.length > 0 && <MultiSelect label={text.vcs} description={text.vcsHint} placeholder={vcs.length === 0 ? text.allVCs : ''} data={own} value={vcs} onChange={setVCs} searchable={own.length > 10} />}
      <Checkbox label={text.readOnly} checked={readOnly} onChange={(e) => setReadOnly(e.currentTarget.checked)} />
    </Ask>
  );
}
