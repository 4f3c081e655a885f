import css from './ui.module.css';

export interface Piece {
  kind: 'used' | 'lent' | 'free' | 'bad' | 'borrowed';
  size: number;
  name: string; // with its number, such as "3 used"
}

interface Props {
  label: string;
  pieces: Piece[];
  tick?: number; // where the guarantee ends
}

// Track is a bar alone, for where its numbers stand beside it; they are its name, too.
export function Track({ label, pieces, tick }: Props) {
  const shown = pieces.filter((p) => p.size > 0);
  const whole = shown.reduce((sum, p) => sum + p.size, 0);
  return (
    <div className={css.barTrack} role="img" aria-label={`${label}: ${shown.map((p) => p.name).join(', ')}`}>
      {shown.map((p) => (
        <span key={p.name} className={css.piece} data-kind={p.kind} style={{ flexGrow: p.size }} />
      ))}
      {tick !== undefined && whole > tick && tick > 0 && <span className={css.tick} style={{ left: `${(100 * tick) / whole}%` }} />}
    </div>
  );
}

// Bar is the one way to show shares of a whole: its numbers stand below it.
export function Bar(props: Props) {
  const shown = props.pieces.filter((p) => p.size > 0);
  return (
    <div className={css.bar}>
      <Track {...props} />
      <div className={css.barLegend} aria-hidden="true">
        {shown.map((p) => (
          <span key={p.name}>
            <span className={css.swatch} data-kind={p.kind} /> {p.name}
          </span>
        ))}
      </div>
    </div>
  );
}
