import { memo } from 'react';
import type { Cell } from '../api/wire';
import { isNode, leavesOf, ownName, paintOf } from './cells';
import css from './map.module.css';

export interface Sign {
  letter: string;
  colour: string; // "" is the usual one
}

interface Props {
  cells: Cell[];
  chosen: string; // a node
  sign: (leaf: Cell) => Sign; // of a leaf in use
  say: (leaf: Cell) => string; // what a leaf is, in words
  state: (node: string) => string; // in one word; "" where all is well
  onChoose: (node: string) => void;
}

// Map draws cells inside each other, as they are: rack, node, switch, device. A node is a button; the devices in it say
// by fill, letter and colour what uses them. It is for the eye: the table beside it has the same for all.
export function Map({ cells, ...rest }: Props) {
  return (
    <div className={css.map}>
      {cells.map((c) => (
        <Box key={c.address} cell={c} parent={undefined} {...rest} />
      ))}
    </div>
  );
}

type BoxProps = Omit<Props, 'cells'> & { cell: Cell; parent: Cell | undefined };

function Box({ cell, parent, ...rest }: BoxProps) {
  if (isNode(cell, parent)) return <NodeBox cell={cell} {...rest} />;
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

const NodeBox = memo(function NodeBox({ cell, chosen, sign, say, state, onChoose }: Omit<BoxProps, 'parent'>) {
  const name = cell.node ?? ownName(cell);
  const leaves = leavesOf(cell);
  const used = leaves.filter((l) => l.state !== 'Free').length;
  const how = state(name);
  return (
    <button type="button" className={css.node} aria-pressed={chosen === name} data-off={how !== '' || undefined} onClick={() => onChoose(name)}>
      <span className={css.nodeName}>
        <span>{name}</span> <span className={css.nodeState}>{how || `${used} / ${leaves.length}`}</span>
      </span>
      <span className={css.groups} aria-hidden="true">
        {groupsOf(cell).map((g) => (
          <span key={g.address} className={css.group} data-plain={g === cell || undefined}>
            {leavesOf(g).map((l) => (
              <Leaf key={l.address} leaf={l} off={how !== ''} sign={sign(l)} words={say(l)} />
            ))}
          </span>
        ))}
      </span>
    </button>
  );
});

// groupsOf are a node's switches, where it has some; else it is one group.
function groupsOf(node: Cell): Cell[] {
  const children = node.children ?? [];
  return children.some((c) => (c.children ?? []).length > 0) ? children : [node];
}

function Leaf({ leaf, off, sign, words }: { leaf: Cell; off: boolean; sign: Sign; words: string }) {
  const paint = paintOf(leaf);
  const bad = !leaf.healthy && !off; // of a node that is out as a whole, that says so
  return (
    <span className={css.leaf} data-paint={paint} data-bad={bad || undefined} data-off={off || undefined} style={{ '--leaf': sign.colour || 'var(--edge)' }} title={words}>
      {bad ? '×' : sign.letter}
    </span>
  );
}
