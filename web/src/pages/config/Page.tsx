import { useQuery } from '@tanstack/react-query';
import { Failure } from '../../api/client';
import { configFileQuery, configQuery } from '../../api/cluster';
import { meQuery } from '../../api/people';
import { text } from '../../text/config';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Page } from '../../ui/Page';
import { Bench } from './Bench';

// Configuration is the cluster file, and what a change of it would do before it is made.
export function Configuration() {
  const user = useQuery(meQuery).data?.name ?? '';
  const config = useQuery(configQuery);
  const file = useQuery(configFileQuery);
  const absent = file.error instanceof Failure && file.error.status === 404;
  const error = config.error ?? (absent ? null : file.error);
  const present = absent ? '' : file.data;
  return (
    <Page title={text.title} facts={absent ? text.noFile : undefined}>
      {error && <Failed error={error} onRetry={() => void Promise.all([config.refetch(), file.refetch()])} />}
      {!error && (present === undefined || !config.data) && <Loading rows={10} />}
      {present !== undefined && config.data && <Bench user={user} present={present} etag={config.data.etag} />}
    </Page>
  );
}
