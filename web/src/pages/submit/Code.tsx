import { Button } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { sendUpload, uploadsQuery } from '../../api/jobs';
import { bytes } from '../../format/quantity';
import { kept } from '../../parts/leftout';
import { digest, type Packed, tar } from '../../parts/tar';
import { text } from '../../text/submit';
import { Failed, Wrong } from '../../ui/Failed';
import { type Draft, textAt } from './draft';
import css from './submit.module.css';

const path = ['extras', 'comb', 'upload'];

// Code is the folder that the tasks begin in: it is packed here, sent, and named in the file by its digest.
export function Code({ draft }: { draft: Draft }) {
  const input = useRef<HTMLInputElement>(null);
  const client = useQueryClient();
  const [said, setSaid] = useState('');
  const now = textAt(draft.read, path);
  const act = useMutation({
    mutationFn: async (files: Packed[]) => {
      if (!window.isSecureContext) throw new Wrong(text.insecure); // it cannot sum bytes up there
      setSaid(text.packing);
      const limits = await client.fetchQuery(uploadsQuery);
      const left = await kept(files);
      const size = left.reduce((n, f) => n + f.data.size, 0);
      if (left.length === 0) throw new Wrong(text.emptyFolder);
      if (left.length > limits.limit_files) throw new Wrong(text.tooMany(left.length, limits.limit_files));
      if (size > limits.limit_bytes) throw new Wrong(text.tooLarge(bytes(size), bytes(limits.limit_bytes)));
      const archive = tar(left);
      const name = await digest(archive);
      setSaid(text.sending(left.length, bytes(archive.size)));
      await sendUpload(name, archive);
      return { name, words: text.sent(left.length, bytes(archive.size)) };
    },
    onSuccess: ({ name, words }) => {
      setSaid(words);
      draft.put(path, name);
    },
    onError: () => setSaid(''),
  });
  return (
    <div className={css.code} role="group" aria-label={text.code}>
      <span>{text.code}</span>
      <input ref={input} type="file" multiple hidden aria-label={text.choose} {...{ webkitdirectory: '' }}
        onChange={(e) => {
          const files = [...(e.currentTarget.files ?? [])].map((f) => ({ name: f.webkitRelativePath.split('/').slice(1).join('/') || f.name, data: f }));
          e.currentTarget.value = '';
          if (files.length > 0) act.mutate(files);
        }} />
      <Button size="xs" variant="default" disabled={act.isPending} onClick={() => input.current?.click()}>
        {text.choose}
      </Button>
      {now !== '' && (
        <Button size="xs" variant="default" disabled={act.isPending} onClick={() => draft.put(path, undefined)}>
          {text.withoutCode}
        </Button>
      )}
      <span className="meta" role="status">{act.isPending || (said !== '' && now !== '') ? said : now === '' ? text.noCode : `${now.slice(0, 19)}…`}</span>
      <p className={`meta ${css.wide ?? ''}`}>{text.codeHint}</p>
      {act.error && <Failed error={act.error} of="acting" />}
    </div>
  );
}
