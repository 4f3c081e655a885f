// Mark is the product's sign: a comb in a cell.
export function Mark({ size = 20 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path fill="var(--accent)" d="M16 2l12 7v14l-12 7L4 23V9z" />
      <path fill="none" stroke="var(--on-accent)" strokeWidth="2.5" d="M11 10v12M16 10v12M21 10v12M11 10h10" />
    </svg>
  );
}
