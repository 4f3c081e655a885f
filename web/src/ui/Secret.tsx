import { Button } from '@mantine/core';
import { type ReactNode, useRef, useState } from 'react';
import { text } from '../text/common';
import { Dialog } from './Dialog';
import css from './ui.module.css';

interface Props {
  title: string;
  children: ReactNode; // what to do with it
  secret: string;
  onClose: () => void;
}

// copied puts a text into the clipboard, and reports whether it did. Over plain HTTP a browser has none for scripts: there what is
// selected is copied.
async function copied(words: string, shown: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    if (shown) window.getSelection()?.selectAllChildren(shown);
    return document.execCommand('copy');
  }
}

// Secret shows what is shown this once.
export function Secret({ title, children, secret, onClose }: Props) {
  const shown = useRef<HTMLPreElement>(null);
  const [said, setSaid] = useState('');
  const copy = () => {
    copied(secret, shown.current).then((done) => setSaid(done ? text.copied : text.notCopied), () => setSaid(text.notCopied));
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div className={css.ask}>
        <p>{children}</p>
        <pre ref={shown} className={css.secret} tabIndex={0} aria-label={title}>{secret}</pre>
        <div className={css.askButtons}>
          <span role="status" className="muted">{said}</span>
          <Button variant="default" onClick={onClose}>
            {text.close}
          </Button>
          <Button onClick={copy} data-autofocus>
            {text.copy}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
