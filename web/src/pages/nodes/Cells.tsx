import type { Cell, CellList, Node } from '../../api/wire';
import { boundTo, leavesOf, letters, paintOf } from '../../map/cells';
import { Map as CellMap, type Sign } from '../../map/Map';
import { nodeState } from '../../parts/node';
import { text } from '../../text/nodes';
import { lookOf } from '../../theme/states';
import css from './nodes.module.css';

interface Props {
  nodes: Node[];
  list: CellList;
  by: string;
  virtual: boolean; // by the virtual clusters that the cells are bound to
  chosen: string;
  onChoose: (node: string) => void;
}

export function Cells({ nodes, list, by, virtual, chosen, onChoose }: Props) {
  const tops = list.cells ?? [];
  const leaves = tops.flatMap(leavesOf);
  const names = new Map((list.names ?? []).map((n) => [n.id, n]));
  const vcOf = (l: Cell) => (l.job ? (names.get(l.job)?.vc ?? l.vc) : l.vc) ?? '';
  const jobOf = (l: Cell) => (l.job ? (names.get(l.job)?.ref ?? `${l.job}`) : '');
  const keyOf = (l: Cell) => (by === 'job' ? jobOf(l) : by === 'vc' ? vcOf(l) : by === 'priority' ? text.priority(l.priority) : '');
  const signs = letters([...new Set(leaves.filter((l) => l.state !== 'Free').map(keyOf))].filter((k) => k !== ''));
  const states = new Map(nodes.map((n) => [n.name, nodeState(n)]));
  const sign = (l: Cell): Sign => (paintOf(l) === 'free' ? { letter: '', colour: '' } : (signs.get(keyOf(l)) ?? { letter: '', colour: 'var(--running)' }));
  const word = (name: string) => {
    const s = states.get(name) ?? 'Up';
    return s === 'Up' ? '' : lookOf(s).word;
  };
  return (
    <div className={css.cells}>
      <Legend signs={[...signs.entries()].slice(0, 24)} />
      {(virtual ? boundTo(tops) : [{ vc: '', cells: tops }]).map((part) => (
        <section key={part.vc} aria-label={virtual ? part.vc || text.unbound : text.map}>
          {virtual && <h2 className={css.boundTo}>{part.vc || text.unbound}</h2>}
          <CellMap cells={part.cells} chosen={chosen} sign={sign} say={(l) => say(l, jobOf(l), vcOf(l))} state={word} onChoose={onChoose} />
        </section>
      ))}
    </div>
  );
}

const paints = { free: text.free, used: text.inUse, borrowed: text.borrowed, reserved: text.reserved };

function say(l: Cell, job: string, vc: string): string {
  const parts = [text.leaf(l.type, l.address), l.healthy ? paints[paintOf(l)] : text.bad];
  if (job) parts.push(text.job(job));
  if (vc) parts.push(vc);
  return parts.join(', ');
}

function Legend({ signs }: { signs: [string, Sign][] }) {
  return (
    <ul className={css.legend} aria-label={text.legend}>
      {signs.map(([name, s]) => (
        <li key={name}>
          <span className={css.sign} style={{ background: s.colour }}>{s.letter}</span> {name}
        </li>
      ))}
      <li>
        <span className={css.sign} data-paint="free" /> {text.free}
      </li>
      <li>
        <span className={css.sign} data-paint="borrowed" /> {text.borrowed}
      </li>
      <li>
        <span className={css.sign} data-paint="bad" /> {text.bad}
      </li>
      <li>
        <span className={css.sign} data-paint="off" /> {text.off}
      </li>
    </ul>
  );
}
