import type { Health } from '../../map/cells';
import type { Sign } from '../../map/Map';
import { text } from '../../text/nodes';
import css from './nodes.module.css';

// What the colouring by health has: each with a letter or a mark, since colour alone says nothing to many.
const healthColours: Record<Health, string> = {
  free: '', used: 'var(--running)', bad: 'var(--failed)', suspect: 'var(--waiting)', down: 'var(--failed)', out: 'var(--stopped)', others: 'var(--stopped)',
};

function healthSign(h: Health): Sign {
  return { letter: text.health[h].letter, colour: healthColours[h], fill: h !== 'free' && h !== 'bad' };
}

const healths = ['free', 'used', 'bad', 'suspect', 'down', 'out', 'others'] as const;
export const healthSigns: Record<Health, Sign> = {
  free: healthSign('free'), used: healthSign('used'), bad: healthSign('bad'), suspect: healthSign('suspect'), down: healthSign('down'), out: healthSign('out'), others: healthSign('others'),
};

export function HealthLegend() {
  return (
    <ul className={css.legend} aria-label={text.legend}>
      {healths.map((h) => (
        <li key={h}>
          <Swatch sign={healthSigns[h]} {...(healthSigns[h].fill ? {} : { paint: h })} /> {text.health[h].word}
        </li>
      ))}
    </ul>
  );
}

// Swatch is a leaf in the legend.
function Swatch({ sign, paint }: { sign?: Sign; paint?: string }) {
  return <span className={css.sign} data-paint={paint} style={{ background: paint ? undefined : sign?.colour }}>{paint ? '' : sign?.letter}</span>;
}

const inUse: Sign = { letter: '', colour: 'var(--running)' };
const ways = ['free', 'borrowed', 'reserved', 'bad', 'off'] as const; // in which a leaf is painted whatever it is coloured by
const most = 24; // names in the legend

// Legend has what leaves are coloured by, as far as there is room, and how they are painted besides.
export function Legend({ signs, used }: { signs: [string, Sign][]; used: boolean }) {
  return (
    <ul className={css.legend} aria-label={text.legend}>
      {signs.slice(0, most).map(([name, s]) => (
        <li key={name}>
          <Swatch sign={s} /> {name}
        </li>
      ))}
      {signs.length > most && <li>{text.moreSigns(signs.length - most)}</li>}
      {used && <li><Swatch sign={inUse} /> {text.inUse}</li>}
      {ways.map((paint) => (
        <li key={paint}>
          <Swatch paint={paint} /> {text[paint]}
        </li>
      ))}
    </ul>
  );
}
