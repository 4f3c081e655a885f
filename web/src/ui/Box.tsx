import { useEffect, useRef } from 'react';
import css from './ui.module.css';

interface Props {
  label: string;
  on: boolean;
  some?: boolean; // some of what it stands for are on
  disabled?: boolean;
  onChange: (on: boolean) => void;
}

// Box is the checkbox of a row. It is the browser's own: a table has a hundred of them.
export function Box({ label, on, some = false, disabled = false, onChange }: Props) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (box.current) box.current.indeterminate = some; // anew each time: a click clears it
  });
  return <input ref={box} type="checkbox" className={css.box} aria-label={label} disabled={disabled} checked={on} onChange={(e) => onChange(e.currentTarget.checked)} />;
}
