import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { validateJob } from '../../api/jobs';

// useVerdict asks the server what would become of a draft, when nothing was typed for a moment. It is asked again when
// something happens in the cluster: a verdict is of now.
export function useVerdict(draft: string) {
  const [settled, setSettled] = useState(draft);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(draft), 300);
    return () => window.clearTimeout(timer);
  }, [draft]);
  const q = useQuery({
    queryKey: ['verdict', settled],
    queryFn: ({ signal }) => validateJob(settled, signal),
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  return { data: q.error ? undefined : q.data, error: q.error, fresh: settled === draft && !q.isFetching };
}
