import { useEffect, useState } from 'react';
import { text } from '../text/common';
import css from './ui.module.css';

// Loading holds the place of rows that come. For the first 200 ms it shows nothing: most answers are faster.
export function Loading({ rows = 4 }: { rows?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLate(true), 200);
    return () => window.clearTimeout(timer);
  }, []);
  return (
    <div className={css.loading} aria-busy="true">
      <span className="hidden" role="status">{late ? text.loading : ''}</span>
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} className={css.loadingRow}>
          {late && <span className={css.loadingBar} />}
        </div>
      ))}
    </div>
  );
}
