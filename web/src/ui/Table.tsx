import type { ReactNode } from 'react';
import css from './ui.module.css';

export interface Column<T> {
  key: string;
  head: string;
  cell: (row: T) => ReactNode;
  align?: 'right';
  narrow?: 'title' | 'hidden'; // on a phone: the first line of a row, or left out; else in its second line
  named?: boolean; // on a phone its head stands before it, as before numbers
  quiet?: boolean; // its head is for screen readers alone
  grow?: boolean; // takes what the others leave, and is cut with an ellipsis
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  dim?: (row: T) => boolean;
}

// Table is the one table. Roles are written out, since on a phone its rows are no table rows to the style sheet.
export function Table<T>({ label, columns, rows, rowKey, dim }: Props<T>) {
  return (
    <div className={css.tableScroll} tabIndex={0}>
      <table className={css.table} role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((c) => (
              <th key={c.key} role="columnheader" scope="col" data-align={c.align}>
                {c.quiet ? <span className="hidden">{c.head}</span> : c.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={rowKey(row)} role="row" data-dim={dim?.(row) || undefined}>
              {columns.map((c) => (
                <td key={c.key} role="cell" data-align={c.align} data-narrow={c.narrow} data-grow={c.grow} data-named={c.named || c.align === 'right' || undefined} data-head={c.head}>
                  {c.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
