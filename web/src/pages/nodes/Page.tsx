import { SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { cellsQuery, nodesQuery, vcsQuery } from '../../api/cluster';
import type { CellList, Node, VC } from '../../api/wire';
import type { Address } from '../../routes';
import { text } from '../../text/nodes';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Page } from '../../ui/Page';
import { Cells } from './Cells';
import css from './nodes.module.css';
import { NodeTable } from './NodeTable';
import { OneNode } from './OneNode';

// Nodes is what the cluster is made of, as cells inside each other or as a table; both have the same selection.
export function Nodes() {
  const search: Address = useSearch({ strict: false });
  const navigate = useNavigate();
  const nodes = useQuery(nodesQuery);
  const cells = useQuery(cellsQuery);
  const vcs = useQuery(vcsQuery).data?.vcs ?? [];
  const go = (change: Address) => void navigate({ to: '/nodes', search: { ...search, ...change }, replace: true, resetScroll: false });
  const rows = nodes.data?.nodes ?? [];
  const error = nodes.error ?? cells.error;
  return (
    <Page title={text.title} facts={nodes.data?.runtime && <span className="muted">{text.runtime(nodes.data.runtime)}</span>}>
      <div className={css.bar}>
        <SegmentedControl classNames={{ label: css.choice ?? '' }} aria-label={text.view} value={search.as ?? 'map'} onChange={(v) => go({ as: v === 'map' ? '' : v })}
          data={[{ value: 'map', label: text.map }, { value: 'virtual', label: text.virtual }, { value: 'table', label: text.table }]} />
        {search.as !== 'table' && (
          <SegmentedControl classNames={{ label: css.choice ?? '' }} aria-label={text.colour} value={search.by ?? 'vc'} onChange={(v) => go({ by: v === 'vc' ? '' : v })}
            data={Object.entries(text.by).map(([value, label]) => ({ value, label }))} />
        )}
      </div>
      {error && <Failed error={error} onRetry={() => void Promise.all([nodes.refetch(), cells.refetch()])} />}
      {(nodes.isPending || cells.isPending) && <Loading rows={6} />}
      {nodes.data && rows.length === 0 && <Empty title={text.none}>{text.noneWhy}</Empty>}
      {rows.length > 0 && cells.data && <Views rows={rows} cells={cells.data} vcs={vcs} search={search} onGo={go} />}
    </Page>
  );
}

interface ViewsProps {
  rows: Node[];
  cells: CellList;
  vcs: VC[];
  search: Address;
  onGo: (change: Address) => void;
}

function Views({ rows, cells, vcs, search, onGo }: ViewsProps) {
  const chosen = rows.find((n) => n.name === search.node);
  const choose = (name: string) => onGo({ node: name === search.node ? '' : name });
  return (
    <div className={css.views} data-open={!!chosen || undefined}>
      {search.as === 'table' ? (
        <NodeTable nodes={rows} chosen={search.node ?? ''} onChoose={choose} />
      ) : (
        <Cells nodes={rows} list={cells} vcs={vcs} by={search.by ?? 'vc'} virtual={search.as === 'virtual'} chosen={search.node ?? ''} onChoose={choose} />
      )}
      {chosen && <OneNode key={chosen.name} node={chosen} cells={cells} />}
    </div>
  );
}
