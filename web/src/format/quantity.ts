let digits: Intl.NumberFormat | undefined; // made once, when first asked for: it takes longer than a page of rows

// count writes a number with a comma each three digits: 200,000.
export function count(n: number): string {
  if (Number.isSafeInteger(n)) return String(n).replace(/\B(?=(\d{3})+$)/g, ',');
  digits ??= new Intl.NumberFormat('en-US');
  return digits.format(n);
}

// plural writes a number with its noun.
export function plural(n: number, one: string, many: string = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// bytes writes a size: 12 B, 3.4 KiB, 20 MiB.
export function bytes(n: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = n;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit] ?? ''}`;
}

// ordinal says which one: 1st, 2nd, 3rd, 11th, 1,002nd.
export function ordinal(n: number): string {
  const teens = n % 100 > 10 && n % 100 < 14;
  return count(n) + ((teens ? '' : ['', 'st', 'nd', 'rd'][n % 10]) || 'th');
}
