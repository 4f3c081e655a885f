import { Loading } from '../ui/Loading';
import css from './parts.module.css';

const line = 20;
const least = 320;
const around = 8; // above and below the lines
const edges = 2;

// EditorPlace stands where the editor of a text will, as high as that will be, so that nothing jumps when it comes.
export function EditorPlace({ text }: { text: string }) {
  const lines = text.split('\n').length;
  return (
    <div className={css.editor} style={{ height: `calc(max(${least}px, min(72vh, ${lines * line + around}px)) + ${edges}px)` }}>
      <Loading rows={8} />
    </div>
  );
}
