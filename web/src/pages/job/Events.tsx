import { useQuery } from '@tanstack/react-query';
import { eventsQuery } from '../../api/jobs';
import type { Event } from '../../api/wire';
import { text } from '../../text/job';
import { Stamp } from '../../ui/Ago';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { type Column, Table } from '../../ui/Table';

// saysOf is the server's sentence; of a server without them the plain fields.
function saysOf(e: Event): string {
  if (e.says) return e.says;
  if (typeof e.data !== 'object' || e.data === null) return '';
  return Object.entries(e.data)
    .filter(([, v]) => typeof v === 'string' || typeof v === 'number' || typeof v === 'boolean')
    .map(([k, v]) => `${k} ${String(v)}`)
    .join(' · ');
}

const columns: Column<Event>[] = [
  { key: 'time', head: text.time, cell: (e) => <Stamp at={e.time} /> },
  { key: 'kind', head: text.event, narrow: 'title', cell: (e) => e.kind },
  { key: 'data', head: text.data, grow: true, cell: (e) => <span title={saysOf(e)}>{saysOf(e)}</span> },
];

export function Events({ id }: { id: string }) {
  const events = useQuery(eventsQuery(id));
  if (events.error) return <Failed error={events.error} onRetry={() => void events.refetch()} />;
  if (!events.data) return <Loading />;
  const rows = events.data.events;
  if (rows.length === 0) return <Empty title={text.noEvents} />;
  return (
    <>
      <Table label={text.events} columns={columns} rows={[...rows].reverse()} rowKey={(e) => String(e.seq)} />
      <p className="meta">{text.progressLeft}</p>
      {events.data.left > 0 && <p className="meta">{text.moreEvents(rows.length)}</p>}
    </>
  );
}
