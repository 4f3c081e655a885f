// Icon draws one path on a grid of 12 by 12, in the colour of the text around it.
export function Icon({ path, size = 12 }: { path: string; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 12 12" aria-hidden="true" focusable="false">
      <path d={path} fill="currentColor" />
    </svg>
  );
}
