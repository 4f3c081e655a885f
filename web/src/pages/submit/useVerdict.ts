import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Failure } from '../../api/client';
import { validateJob } from '../../api/jobs';
import type { Validated } from '../../api/wire';

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

// isOff reports whether the server would refuse a draft as it is, or its job could never start. What could not be asked is no reason.
export function isOff({ data, error }: { data: Validated | undefined; error: Error | null }): boolean {
  if (error) return error instanceof Failure && error.status >= 400 && error.status < 500 && error.status !== 429;
  return data?.verdict === 'never';
}
