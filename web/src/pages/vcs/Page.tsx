import { useQuery } from '@tanstack/react-query';
import { vcsQuery } from '../../api/cluster';
import { VCList } from '../../parts/VCList';
import { text } from '../../text/vcs';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Page } from '../../ui/Page';

export function VCs() {
  const vcs = useQuery(vcsQuery);
  const rows = vcs.data?.vcs ?? [];
  return (
    <Page title={text.title}>
      {vcs.error && <Failed error={vcs.error} onRetry={() => void vcs.refetch()} />}
      {vcs.isPending && <Loading />}
      {vcs.data && rows.length === 0 && <Empty title={text.none}>{text.noneWhy}</Empty>}
      {rows.length > 0 && <VCList vcs={rows} />}
    </Page>
  );
}
