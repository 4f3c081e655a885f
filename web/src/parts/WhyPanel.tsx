import { Link } from '@tanstack/react-router';
import type { Estimate, Explanation, GangReason, JobBrief, LevelUse, Suggestion } from '../api/wire';
import { useNow } from '../format/clock';
import { count } from '../format/quantity';
import { sentence, told } from '../format/sentence';
import { precise } from '../format/time';
import { why as text } from '../text/job';
import { Ago } from '../ui/Ago';
import { Fact, Section } from '../ui/Page';
import { type Column, Table } from '../ui/Table';
import css from './parts.module.css';
import { changesOf } from './changes';
import { refOf, whyOf } from './point';
import { startWords } from './start';
import { LinkButton } from '../ui/LinkButton';

// Start is when it starts, as far as anybody knows, and what that rests on.
export function Start({ estimate }: { estimate: Estimate | undefined }) {
  const now = useNow();
  if (!estimate?.earliest && !estimate?.latest) {
    return (
      <>
        {text.noEstimate}
        {estimate?.unknown && <span className="muted"> ({estimate.unknown})</span>}
      </>
    );
  }
  const { earliest = 0, latest = 0 } = estimate;
  return (
    <>
      <span title={[earliest, latest].filter((t) => t > 0).map(precise).join(' – ')}>{startWords(earliest, latest, now)}</span>
      {estimate.basis && <span className="muted"> ({estimate.basis})</span>}
    </>
  );
}

interface Props {
  explanation: Explanation;
  title: string;
  reader: string; // who is signed in
  from: string; // the job, "" for a draft: its fixes open in Submit
}

// WhyPanel says why a job waits, in the words and numbers of the code that decides.
export function WhyPanel({ explanation: e, title, reader, from }: Props) {
  const gangs = e.gangs ?? [];
  return (
    <Section title={title}>
      <div className={css.why}>
        {e.policy_failed && (
          <p role="alert">
            <strong>{text.failed}.</strong> {e.policy_failed}
          </p>
        )}
        {gangs.map((g) => (
          <p key={g.gang} className={css.reason}>
            {gangs.length > 1 && <strong>{g.name}: </strong>}
            {sentence(whyOf(g.reason), e.vc)} <code className="muted">{g.reason.code}</code>
          </p>
        ))}
        {(e.nodes ?? []).map((n) => (
          <p key={n.name}>{n.cordoned ? text.cordonedBy(n.name, n.by ?? '', n.reason) : text.ofNode(n.name, n.reason)}</p>
        ))}
        <div className={css.facts}>
          {e.position && e.waiting ? (
            <Fact name={text.place}>
              {text.position(e.position, e.waiting)}
              {e.order && <span className="muted"> ({told(e.order)})</span>}
            </Fact>
          ) : null}
          {gangs.length > 0 && (
            <Fact name={text.start}>
              <Start estimate={e.estimate} />
            </Fact>
          )}
          {e.estimate?.at_latest && e.estimate.at_latest > (e.estimate.latest ?? 0) ? (
            <Fact name={text.declared}>
              <Ago at={e.estimate.at_latest} />
            </Fact>
          ) : null}
          {gangs.length > 0 && e.estimate?.order && <Fact name={text.order}>{e.estimate.order}</Fact>}
          {e.note && <Fact name={text.note}>{e.note}</Fact>}
        </div>
        {gangs.map((g) => (
          <Gang key={g.gang} gang={g} alone={gangs.length === 1} from={from} vc={e.vc} />
        ))}
        {noFixOf(gangs) && <p>{gangs.some((g) => g.untried) ? text.noneTried : text.noFix}</p>}
        <Briefs title={text.blockers} jobs={e.blockers ?? []} more={e.blockers_more ?? 0} reader={reader} />
        <Briefs title={text.ahead} jobs={e.ahead ?? []} more={e.ahead_more ?? 0} reader={reader} />
      </div>
    </Section>
  );
}

// noFixOf reports whether no change was found for any of the gangs. Of one that is held it is no news: it is released.
function noFixOf(gangs: GangReason[]): boolean {
  return gangs.length > 0 && gangs.every((g) => (g.suggestions ?? []).length === 0 && g.reason.code !== 'OnHold');
}

const levels: Column<LevelUse>[] = [
  { key: 'cell', head: text.cell, narrow: 'title', cell: (l) => (l.chain === l.type ? l.type : <><span className="muted">{l.chain} / </span>{l.type}</>) },
  { key: 'wanted', head: text.wanted, align: 'right', cell: (l) => count(l.wanted) },
  { key: 'cells', head: text.of, align: 'right', cell: (l) => count(l.cells) },
  { key: 'owned', head: text.owned, align: 'right', cell: (l) => count(l.owned ?? 0) },
  { key: 'unused', head: text.unused, align: 'right', cell: (l) => count(l.unused) },
  { key: 'free', head: text.free, align: 'right', cell: (l) => count(l.free) },
  { key: 'held', head: text.held, named: true, cell: (l) => (l.held ?? []).map((h) => `${h.vc} ${h.cells}`).join(', ') || '–' },
  { key: 'lent', head: text.lent, align: 'right', cell: (l) => count(l.lent) },
  { key: 'bad', head: text.bad, align: 'right', cell: (l) => count(l.bad) },
  { key: 'others', head: text.others, align: 'right', narrow: 'hidden', cell: (l) => count(l.held_by_others ?? 0) },
  { key: 'cordoned', head: text.cordoned, align: 'right', narrow: 'hidden', cell: (l) => count(l.cordoned ?? 0) },
  { key: 'next', head: text.next, named: true, cell: (l) => <Ago at={l.until} /> },
];

function Gang({ gang, alone, from, vc }: { gang: GangReason; alone: boolean; from: string; vc: string }) {
  const title = alone ? text.allCells : text.cells(gang.name);
  const uses = gang.levels ?? [];
  const fixes = gang.suggestions ?? [];
  return (
    <>
      {uses.length > 0 && (
        <div className={css.block}>
          <h3>{title}</h3>
          <Table label={title} columns={levels.filter((c) => c.key !== 'others' || uses.some((l) => l.held_by_others))} rows={uses} rowKey={(l) => `${l.chain} ${l.level} ${l.pinned ?? ''}`} />
        </div>
      )}
      {gang.cut && <p className="meta">{sentence(gang.cut)}</p>}
      <Reservation gang={gang} alone={alone} vc={vc} />
      {fixes.length > 0 && (
        <div className={css.block}>
          <h3>{text.fixes}</h3>
          <ul className={css.fixes}>
            {fixes.map((s) => (
              <Fix key={s.message} fix={s} from={from} />
            ))}
          </ul>
          {gang.untried && <p className="meta">{text.untried}</p>}
        </div>
      )}
    </>
  );
}

// Reservation is what its virtual cluster keeps for a gang: when it starts at the latest by that, or why no time is promised.
function Reservation({ gang: { name, bound, reserved_at: at }, alone, vc }: { gang: GangReason; alone: boolean; vc: string }) {
  if (!bound && !at) return null;
  const fact = at ? text.atLatest : text.reservation;
  return (
    <div className={css.facts}>
      <Fact name={alone ? fact : text.ofGang(fact, name)}>
        {at ? <><Ago at={at} />{bound && <span className="muted"> ({bound})</span>}</> : sentence(bound ?? '', vc)}
      </Fact>
    </div>
  );
}

function Fix({ fix, from }: { fix: Suggestion; from: string }) {
  const set = changesOf(fix);
  return (
    <li>
      <span>{sentence(fix.message)}</span>
      {set && from && (
        <LinkButton size="compact-sm" variant="default" to="/submit" search={{ from, ...set }} aria-label={`${text.openFix}: ${fix.message}`}>
          {text.openFix}
        </LinkButton>
      )}
    </li>
  );
}

const briefs = (reader: string): Column<JobBrief>[] => [
  { key: 'job', head: text.job, narrow: 'title', cell: (b) => (b.job > 0 ? <Link to="/jobs/$job" params={{ job: String(b.job) }}>{refOf(b, reader) || b.job}</Link> : refOf(b, reader) || '–') },
  { key: 'vc', head: text.vc, cell: (b) => b.vc },
  { key: 'gpus', head: text.gpus, align: 'right', cell: (b) => count(b.leaves) },
  { key: 'ends', head: text.ends, named: true, cell: (b) => (b.ends ? <Ago at={b.ends} /> : <span className="muted">{text.unknownEnd}</span>) },
  { key: 'basis', head: text.basis, grow: true, cell: (b) => <span className="muted" title={b.basis}>{b.basis ?? ''}</span> },
];

// Briefs are the jobs that are named; more are there besides.
function Briefs({ title, jobs, more, reader }: { title: string; jobs: JobBrief[]; more: number; reader: string }) {
  if (jobs.length === 0) return null;
  return (
    <div className={css.block}>
      <h3>{title}</h3>
      <Table label={title} columns={briefs(reader)} rows={jobs} rowKey={(b) => String(b.job)} />
      {more > 0 && <p className="meta">{text.more(more)}</p>}
    </div>
  );
}
