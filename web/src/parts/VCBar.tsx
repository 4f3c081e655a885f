import type { VC } from '../api/wire';
import { text } from '../text/vcs';
import { Bar, type Piece } from '../ui/Bar';
import css from './parts.module.css';

type Use = NonNullable<VC['skus']>[number];

function pieces(u: Use): Piece[] {
  const free = Math.max(0, u.guaranteed - u.used - u.lent - u.bad - (u.held_by_others ?? 0));
  return [
    { kind: 'used', size: u.used, name: text.used(u.used, u.guaranteed) },
    { kind: 'lent', size: u.lent, name: text.lent(u.lent) },
    { kind: 'free', size: free, name: text.free(free) },
    { kind: 'bad', size: u.bad, name: text.bad(u.bad) },
    ...(u.held_by_others ? [{ kind: 'bad' as const, size: u.held_by_others, name: text.others(u.held_by_others) }] : []),
    { kind: 'borrowed', size: u.opportunistic, name: text.borrowed(u.opportunistic) },
  ];
}

// VCBar shows what a virtual cluster is guaranteed and uses, a bar for each type of device: types do not add up.
export function VCBar({ vc }: { vc: VC }) {
  const uses = (vc.skus ?? []).filter((u) => u.guaranteed + u.opportunistic > 0);
  if (uses.length === 0) return <p className="meta">{text.nothing}</p>;
  return (
    <div className={css.bars}>
      {uses.map((u) => (
        <div key={u.sku} className={css.barRow}>
          <span className={css.barName}>{u.sku}</span>
          <Bar label={`${vc.name}, ${u.sku}`} pieces={pieces(u)} tick={u.guaranteed} />
        </div>
      ))}
    </div>
  );
}
