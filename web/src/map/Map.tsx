import { memo, type ReactNode } from 'react';
import type { Cell } from '../api/wire';
import { isNode, leavesOf, ownName, paintOf, type Piece } from './cells';
import css from './map.module.css';

export interface Sign {
  letter: string;
  colour: string; // "" is the usual one
  fill?: boolean; // the leaf is painted in it, whatever uses it
}

interface Props {
  pieces: Piece[];
  chosen: string; // a node
  sign: (leaf: Cell) => Sign;
  say: (leaf: Cell) => string; // what a leaf is, in words
  state: (node: string) => string; // in one word; "" where all is well
  onChoose: (node: string) => void;
}

// Map draws cells inside each other, as they are: rack, node, switch, device. A node is a button; the devices in it say
// by fill, letter and colour what uses them. It is for the eye: the table beside it has the same for all.
export function Map({ pieces, ...rest }: Props) {
  return (
    <div className={css.map}>
      {pieces.map((p) => (p.within ? <NodeBox key={p.cell.address} cell={p.cell} within {...rest} /> : <Box key={p.cell.address} cell={p.cell} parent={undefined} {...rest} />))}
    </div>
  );
}

type BoxProps = Omit<Props, 'pieces'> & { cell: Cell; parent: Cell | undefined };

function Box({ cell, parent, ...rest }: BoxProps) {
  if (isNode(cell, parent)) return <NodeBox cell={cell} within={false} {...rest} />;
  const children = cell.children ?? [];
  return (
    <section className={css.box} aria-label={`${cell.type} ${ownName(cell)}`}>
      <div className={css.boxName}>
        {cell.type} <span>{ownName(cell)}</span>
      </div>
      <div className={css.inside}>
        {children.map((c) => (
          <Box key={c.address} cell={c} parent={cell} {...rest} />
        ))}
      </div>
    </section>
  );
}

const NodeBox = memo(function NodeBox({ cell, within, chosen, sign, say, state, onChoose }: Omit<BoxProps, 'parent'> & { within: boolean }) {
  const name = cell.node ?? ownName(cell);
  const leaves = leavesOf(cell);
  const used = leaves.filter((l) => l.state !== 'Free').length;
  const how = state(name);
  return (
    <button type="button" className={css.node} aria-pressed={chosen === name} data-off={how !== '' || undefined} onClick={() => onChoose(name)}>
      <span className={css.nodeName}>
        <span>
          {name}
          {within && <span className={css.nodePart}> {cell.type} {ownName(cell)}</span>}
        </span>{' '}
        <span className={css.nodeState}>{how || `${used} / ${leaves.length}`}</span>
      </span>
      <span className={css.groups} aria-hidden="true">
        <Group cell={cell} top draw={(l) => <Leaf key={l.address} leaf={l} off={how !== ''} sign={sign(l)} words={say(l)} />} />
      </span>
    </button>
  );
});

// Group draws what is in a node as it is nested there: sockets, switches, devices.
function Group({ cell, top = false, draw }: { cell: Cell; top?: boolean; draw: (leaf: Cell) => ReactNode }) {
  const children = cell.children ?? [];
  if (!children.some((c) => (c.children ?? []).length > 0)) {
    return <span className={css.group} data-plain={top || undefined}>{(children.length > 0 ? children : [cell]).map(draw)}</span>;
  }
  return (
    <span className={css.nest} data-plain={top || undefined}>
      {children.map((c) => (
        <Group key={c.address} cell={c} draw={draw} />
      ))}
    </span>
  );
}

function Leaf({ leaf, off, sign, words }: { leaf: Cell; off: boolean; sign: Sign; words: string }) {
  const paint = sign.fill ? 'used' : paintOf(leaf);
  const bad = !leaf.healthy && !off && !sign.fill; // of a node that is out as a whole, that says so
  return (
    <span className={css.leaf} data-paint={paint} data-bad={bad || undefined} data-off={(off && !sign.fill) || undefined} style={{ '--leaf': sign.colour || 'var(--edge)' }} title={words}>
      {bad ? '×' : sign.letter}
    </span>
  );
}
