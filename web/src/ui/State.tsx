import { colours, lookOf, shapes } from '../theme/states';
import { Icon } from './Icon';
import css from './ui.module.css';

// State is the one way to show a state: a shape and a word, in its colour; means says on hover what it comes to.
export function State({ state, detail, means }: { state: string; detail?: string | undefined; means?: string | undefined }) {
  const look = lookOf(state);
  return (
    <span className={css.state} style={{ color: colours[look.tone] }} title={means || undefined}>
      <Icon path={shapes[look.tone]} />
      <span>{look.word}</span>
      {detail && <span className={css.stateDetail}>{detail}</span>}
    </span>
  );
}
