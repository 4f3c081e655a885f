import { isNear, when } from '../format/ago';
import { clock, duration } from '../format/time';
import { why as text } from '../text/job';

const minute = 60_000_000;

// startWords says when something starts that may start from one point in time on, and at the latest at another; 0 is not known.
export function startWords(earliest: number, latest: number, now: number): string {
  if (earliest === 0) return text.latest(when(latest, now));
  const range = latest - earliest > minute;
  if (earliest <= now) return range && latest > now ? `${text.anyMoment}, ${text.latest(when(latest, now))}` : text.anyMoment;
  if (!range) return isNear(earliest, now) ? text.inAbout(duration(earliest - now)) : text.about(clock(earliest, now));
  if (isNear(earliest, now) && isNear(latest, now)) return text.inAbout(text.to(unitless(earliest - now, latest - now), duration(latest - now)));
  return text.between(clock(earliest, now), clock(latest, now));
}

// unitless is a duration before another: without its unit where that has the same.
function unitless(micros: number, other: number): string {
  const [n = '', unit] = duration(micros).split(' ');
  return duration(other).endsWith(` ${unit ?? ''}`) ? n : duration(micros);
}
