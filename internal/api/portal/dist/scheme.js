// Before the first paint: light or dark, as chosen here before, else as the machine says.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem('comb-scheme');
  } catch {
    chosen = null; // storage is switched off: the machine decides
  }
  const dark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.setAttribute('data-mantine-color-scheme', dark ? 'dark' : 'light');
})();
