import { Link } from '@tanstack/react-router';
import type { VC } from '../api/wire';
import { text as home } from '../text/home';
import { text } from '../text/vcs';
import css from './vclist.module.css';
import { VCBar } from './VCBar';

// VCList shows virtual clusters one below the other: name, what waits and runs, use.
export function VCList({ vcs }: { vcs: VC[] }) {
  return (
    <ul className={css.list}>
      {vcs.map((vc) => (
        <li key={vc.name}>
          <div className={css.head}>
            <Link to="/vcs/$vc" params={{ vc: vc.name }}>
              {vc.name}
            </Link>
            <span className="meta">
              {vc.policy}
              {vc.parent && ` · ${text.parent} ${vc.parent}`}
              {vc.gone && ` · ${text.gone}`}
            </span>
            <span className={css.counts}>
              {home.running(vc.active)} · {home.waiting(vc.waiting)}
            </span>
          </div>
          <VCBar vc={vc} />
          {vc.failed && <p className={css.failed}>{text.failed}</p>}
        </li>
      ))}
    </ul>
  );
}
