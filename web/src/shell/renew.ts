const place = 'comb-renewed';

// renew loads the page anew when a file of it is gone because the server was replaced by a newer one while this tab was
// open. It does so only when the server answers with other files, and once for those that it has.
export async function renew(): Promise<void> {
  const own = document.querySelector('script[type=module]')?.getAttribute('src');
  if (!own) return;
  try {
    const r = await fetch('/', { headers: { Accept: 'text/html' }, cache: 'no-store' });
    if (!r.ok || (await r.text()).includes(`"${own}"`) || sessionStorage.getItem(place) === own) return;
    sessionStorage.setItem(place, own);
  } catch {
    return; // no server, or no storage that would count: the page in question says that it could not be loaded
  }
  window.location.reload();
}
