const second = 1_000_000;
const days = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// Times and durations are microseconds, as on the wire.

export function now(): number {
  return Date.now() * 1000;
}

function two(n: number): string {
  return String(n).padStart(2, '0');
}

// duration says how long: 45 s, 12 min, 3 h 05 min, 2 d 4 h.
export function duration(micros: number): string {
  const s = Math.max(0, Math.floor(micros / second));
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return `${h} h ${two(min % 60)} min`;
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}

// clock says when, as short as it is clear: 14:20, Tue 14:20, 12 Mar 14:20, 12 Mar 2025.
export function clock(micros: number, at: number): string {
  const d = new Date(micros / 1000);
  const today = new Date(at / 1000);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (d.toDateString() === today.toDateString()) return time;
  if (Math.abs(micros - at) < 6 * 86_400 * second) return `${days[d.getDay()] ?? ''} ${time}`;
  const day = `${d.getDate()} ${months[d.getMonth()] ?? ''}`;
  return d.getFullYear() === today.getFullYear() ? `${day} ${time}` : `${day} ${d.getFullYear()}`;
}

let full: Intl.DateTimeFormat | undefined; // made once, when first asked for: each costs as much as a hundred texts

// precise says when in full, with the zone.
export function precise(micros: number): string {
  if (Number.isNaN(new Date(micros / 1000).getTime())) return '–';
  full ??= new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long' });
  return full.format(micros / 1000);
}

// stamp says when to the second: 14:20:05, on another day 12 Mar 14:20:05.
export function stamp(micros: number, at: number): string {
  const d = new Date(micros / 1000);
  const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return d.toDateString() === new Date(at / 1000).toDateString() ? time : `${d.getDate()} ${months[d.getMonth()] ?? ''} ${time}`;
}
