import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { text } from '../text/common';
import { Dialog } from './Dialog';
import { Failed } from './Failed';
import css from './ui.module.css';

interface Props {
  title: string;
  act: string;
  busy?: boolean;
  ends?: boolean; // it ends or removes something
  error?: Error | null;
  children: ReactNode;
  onAct: () => void;
  onClose: () => void;
}

// Ask is the one dialog: it says what will happen before it does. One that ends something begins at Cancel: Enter twice ends nothing.
export function Ask({ title, act, busy = false, ends = false, error, children, onAct, onClose }: Props) {
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className={css.ask}
        onSubmit={(e) => {
          e.preventDefault();
          onAct();
        }}
      >
        {children}
        {error && <Failed error={error} of="acting" />}
        <div className={css.askButtons}>
          <Button variant="default" onClick={onClose} data-autofocus={ends || undefined}>
            {text.cancel}
          </Button>
          <Button type="submit" disabled={busy} {...(ends ? { color: 'red' } : {})} data-autofocus={!ends || undefined}>
            {act}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
