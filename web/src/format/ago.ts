import { text } from '../text/common';
import { clock, duration } from './time';

const second = 1_000_000;
const hour = 3_600_000_000;

// isNear says that a point in time is told by how far it is away.
export function isNear(at: number, now: number): boolean {
  return Math.abs(at - now) < hour;
}

// when says when: relative within an hour, else by the clock. The page's clock ticks once a second: what has just been is before it.
export function when(at: number, now: number): string {
  if (!isNear(at, now)) return clock(at, now);
  return at - now < second ? text.ago(duration(now - at)) : text.in(duration(at - now));
}
