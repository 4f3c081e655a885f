import { text } from '../text/common';
import { Ask } from './Ask';
import css from './ui.module.css';

interface Props {
  title: string;
  say: string;
  secret: string;
  onClose: () => void;
}

// Secret shows what is shown this once.
export function Secret({ title, say, secret, onClose }: Props) {
  return (
    <Ask title={title} act={text.close} onAct={onClose} onClose={onClose}>
      <p>{say}</p>
      <pre className={css.secret} tabIndex={0} aria-label={title}>{secret}</pre>
    </Ask>
  );
}
