import { useQuery } from '@tanstack/react-query';
import { configOfJobQuery } from '../../api/jobs';
import { text } from '../../text/job';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import css from './job.module.css';

export function JobFile({ id }: { id: string }) {
  const file = useQuery(configOfJobQuery(id));
  if (file.error) return <Failed error={file.error} onRetry={() => void file.refetch()} />;
  if (file.data === undefined) return <Loading />;
  return (
    <pre className={css.file} tabIndex={0} aria-label={text.file}>
      {file.data}
    </pre>
  );
}
