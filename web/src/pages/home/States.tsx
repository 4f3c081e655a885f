import { useQueries } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { anyJob, jobsQuery } from '../../api/jobs';
import { count } from '../../format/quantity';
import { text } from '../../text/home';
import { State } from '../../ui/State';
import css from './home.module.css';

const phases = ['Waiting', 'Active', 'Succeeded', 'Failed', 'Stopped'];
const most = 100; // whole jobs come over the wire to be counted; more are shown as "100+"

// States counts the reader's jobs by state; each count opens the list of them.
export function States({ user }: { user: string }) {
  const counts = useQueries({ queries: phases.map((p) => jobsQuery({ ...anyJob, user: [user], state: [p], limit: most })) });
  return (
    <ul className={css.states} aria-label={text.states}>
      {phases.map((p, i) => {
        const list = counts[i]?.data;
        return (
          <li key={p}>
            <Link to="/jobs" search={{ user, state: p }}>
              <span className={css.figure}>{list ? count((list.jobs ?? []).length) + (list.next ? '+' : '') : ' '}</span>
              <State state={p} />
            </Link>
          </li>
        );
      })}
    </ul>
  );
}
