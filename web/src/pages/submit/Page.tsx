import { useQuery } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { vcsQuery } from '../../api/cluster';
import { configOfJobQuery, jobQuery } from '../../api/jobs';
import { meQuery } from '../../api/people';
import { hasEnded } from '../../parts/state';
import type { Address } from '../../routes';
import { text } from '../../text/submit';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Page } from '../../ui/Page';
import { Desk } from './Desk';
import { fixed } from './fix';
import { inVC, useOwnVC } from './own';
import { templates } from './templates';

// Submit begins with what was typed before, or with a copy of a job, changed as a suggestion says.
export function Submit() {
  const search: Address = useSearch({ strict: false });
  const from = search.from ?? '';
  const vc = useOwnVC();
  const vcs = useQuery(vcsQuery);
  const user = useQuery(meQuery).data?.name ?? '';
  const source = useQuery({ ...configOfJobQuery(from), enabled: from !== '' });
  const job = useQuery({ ...jobQuery(from), enabled: from !== '' });
  if (from === '') {
    return (
      <Page title={text.title}>
        {vcs.error && !vcs.data && <Failed error={vcs.error} onRetry={() => void vcs.refetch()} />}
        {vc === undefined && !vcs.error && <Loading rows={8} />}
        {vc !== undefined && <Desk user={user} begin={inVC(templates[0].text, vc)} fresh={false} />}
      </Page>
    );
  }
  return (
    <Page title={text.title} facts={text.from(from, job.data !== undefined && !hasEnded(job.data))}>
      {source.error && <Failed error={source.error} onRetry={() => void source.refetch()} />}
      {source.isPending && <Loading rows={8} />}
      {source.data !== undefined && <Desk key={JSON.stringify(search)} user={user} begin={fixed(source.data, search)} fresh />}
    </Page>
  );
}
