import type { ReactNode } from 'react';
import css from './ui.module.css';

// Empty says why there is nothing, and what to do about it.
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className={css.empty}>
      <strong>{title}</strong>
      {children && <div>{children}</div>}
    </div>
  );
}
