import type { ReactNode } from 'react';
import css from './ui.module.css';

export interface Column<T> {
  key: string;
  head: string;
  cell: (row: T) => ReactNode;
  align?: 'right';
  narrow?: 'title' | 'hidden'; // on a phone: the first line of a row, or left out; else in its second line
  from?: 1400 | 1500 | 1600; // px of a screen that has room for it; a phone's is narrow's
  named?: boolean; // on a phone its head stands before it, as before numbers
  quiet?: boolean; // its head is for screen readers alone
  top?: ReactNode; // what stands in its head instead of its name
  grow?: boolean; // takes what the others leave, and is cut with an ellipsis
  gives?: boolean; // takes a part of that, and is cut first
  order?: (a: T, b: T) => number; // its head sorts the rows that are shown
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  dim?: (row: T) => boolean;
  sorted?: string; // the key of a column, with "-" before it for the other way; none: as the rows come
  ordered?: boolean; // the rows come in that order
  onSort?: (by: string) => void;
}

function inOrder<T>(rows: T[], columns: Column<T>[], sorted: string | undefined): T[] {
  const order = columns.find((c) => c.key === sorted?.replace('-', ''))?.order;
  if (!sorted || !order) return rows;
  const way = sorted.startsWith('-') ? -1 : 1;
  return [...rows].sort((a, b) => way * order(a, b));
}

// Head is a column's name; a button where it sorts: up, down, and as it was.
function Head<T>({ column: c, sorted, onSort }: { column: Column<T>; sorted: string | undefined; onSort: ((by: string) => void) | undefined }) {
  if (c.top) return c.top;
  if (c.quiet) return <span className="hidden">{c.head}</span>;
  if (!c.order || !onSort) return c.head;
  const up = sorted === c.key;
  const down = sorted === `-${c.key}`;
  return (
    <button type="button" className={css.sort} onClick={() => onSort(up ? `-${c.key}` : down ? '' : c.key)}>
      {c.head}
      <span aria-hidden="true">{up ? ' ▲' : down ? ' ▼' : ''}</span>
    </button>
  );
}

function way(key: string, sorted: string | undefined): 'ascending' | 'descending' | undefined {
  if (sorted === key) return 'ascending';
  return sorted === `-${key}` ? 'descending' : undefined;
}

// Table is the one table. Roles are written out, since on a phone its rows are no table rows to the style sheet.
export function Table<T>({ label, columns, rows, rowKey, dim, sorted, ordered = false, onSort }: Props<T>) {
  return (
    <div className={css.tableScroll} tabIndex={0}>
      <table className={css.table} role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((c) => (
              <th key={c.key} role="columnheader" scope="col" data-align={c.align} data-from={c.from} aria-sort={way(c.key, sorted)}>
                <Head column={c} sorted={sorted} onSort={onSort} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {(ordered ? rows : inOrder(rows, columns, sorted)).map((row) => (
            <tr key={rowKey(row)} role="row" data-dim={dim?.(row) || undefined}>
              {columns.map((c) => (
                <td key={c.key} role="cell" data-align={c.align} data-narrow={c.narrow} data-grow={c.grow} data-gives={c.gives} data-from={c.from} data-quiet={c.quiet || !!c.top || undefined} data-named={c.named || c.align === 'right' || undefined} data-head={c.head}>
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
