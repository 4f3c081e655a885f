import type { Cell, CellList, Node, VC } from '../../api/wire';
import { type Bound, boundTo, type Health, healthOf, leavesOf, letters, paintOf } from '../../map/cells';
import { Map as CellMap, type Sign } from '../../map/Map';
import { count } from '../../format/quantity';
import { nodeState } from '../../parts/node';
import { text } from '../../text/nodes';
import { lookOf } from '../../theme/states';
import { HealthLegend, healthSigns, Legend } from './Legend';
import css from './nodes.module.css';

interface Props {
  nodes: Node[];
  list: CellList;
  vcs: VC[];
  by: string;
  virtual: boolean; // by the virtual clusters that the cells are bound to
  chosen: string;
  onChoose: (node: string) => void;
}

export function Cells({ nodes, list, vcs, by, virtual, chosen, onChoose }: Props) {
  const tops = list.cells ?? [];
  const leaves = tops.flatMap(leavesOf);
  const names = new Map((list.names ?? []).map((n) => [n.id, n]));
  const vcOf = (l: Cell) => (l.job ? (names.get(l.job)?.vc ?? l.vc) : l.vc) ?? '';
  const jobOf = (l: Cell) => (l.job ? (names.get(l.job)?.ref ?? `${l.job}`) : '');
  const keyOf = (l: Cell) => (by === 'job' ? jobOf(l) : by === 'vc' ? vcOf(l) : by === 'priority' ? text.priority(l.priority) : '');
  // A virtual cluster keeps its colour whoever uses something at the moment.
  const known = by === 'vc' ? vcs.map((v) => v.name) : [];
  const signs = letters([...new Set([...known, ...leaves.filter((l) => l.state !== 'Free').map(keyOf)])].filter((k) => k !== ''));
  const states = new Map(nodes.map((n) => [n.name, nodeState(n)]));
  const health = (l: Cell) => healthOf(l, states.get(l.node ?? '') ?? 'Up');
  const sign = (l: Cell): Sign => (by === 'health' ? healthSigns[health(l)] : paintOf(l) === 'free' ? { letter: '', colour: '' } : (signs.get(keyOf(l)) ?? { letter: '', colour: 'var(--running)' }));
  const word = (name: string) => {
    const s = states.get(name) ?? 'Up';
    return s === 'Up' ? '' : lookOf(s).word;
  };
  return (
    <div className={css.cells}>
      {by === 'health' ? <HealthLegend /> : <Legend signs={[...signs.entries()]} used={by === 'state'} />}
      {(virtual ? virtualView(tops, vcs) : [{ vc: '', pieces: tops.map((cell) => ({ cell, within: false })) }]).map((part) => (
        <section key={part.vc} aria-label={virtual ? part.vc || text.unbound : text.map}>
          {virtual && <h2 className={css.boundTo}>{part.vc || text.unbound}</h2>}
          {virtual && <Unbound vc={vcs.find((v) => v.name === part.vc)} />}
          <CellMap pieces={part.pieces} chosen={chosen} sign={sign} say={(l) => say(l, health(l), jobOf(l), vcOf(l))} state={word} onChoose={onChoose} />
        </section>
      ))}
    </div>
  );
}

// virtualView has each virtual cluster, also one to which nothing is bound.
function virtualView(tops: Cell[], vcs: VC[]): Bound[] {
  const bound = boundTo(tops);
  const idle = vcs.filter((v) => (v.cells ?? []).length > 0 && !bound.some((b) => b.vc === v.name)).map((v) => ({ vc: v.name, pieces: [] }));
  return [...bound, ...idle].sort((a, b) => (a.vc === '' ? 1 : b.vc === '' ? -1 : a.vc < b.vc ? -1 : 1));
}

// Unbound says which cells a virtual cluster is guaranteed that are bound to none of the cluster's at the moment.
function Unbound({ vc }: { vc: VC | undefined }) {
  const left = (vc?.cells ?? []).filter((q) => q.total > q.bound).map((q) => `${count(q.total - q.bound)} × ${q.type}`);
  return left.length === 0 ? null : <p className="meta">{text.notBound(left.join(', '))}</p>;
}

const paints = { free: text.free, used: text.inUse, borrowed: text.borrowed, reserved: text.reserved };

// say is what a leaf is, in words: what uses it, and what is wrong with it or its node.
function say(l: Cell, health: Health, job: string, vc: string): string {
  const parts = [text.leaf(l.type, l.address), paints[paintOf(l)]];
  if (health !== 'free' && health !== 'used') parts.push(text.health[health].word);
  if (job) parts.push(text.job(job));
  if (vc) parts.push(vc);
  return parts.join(', ');
}
