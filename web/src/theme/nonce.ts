// nonce is what this answer's policy wants on each style that a script makes.
export function nonce(): string {
  const meta = document.querySelector('meta[property="csp-nonce"]');
  return meta instanceof HTMLElement ? meta.nonce || '' : '';
}
