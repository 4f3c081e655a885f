import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { infoQuery, nodesQuery } from '../../api/cluster';
import { meQuery } from '../../api/people';
import { may } from '../../parts/rights';
import { text as common } from '../../text/common';
import { text } from '../../text/system';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Loading } from '../../ui/Loading';
import { Page, Section } from '../../ui/Page';
import css from './system.module.css';

// System is what the server is and what it runs tasks with: for administrators.
export function System() {
  const me = useQuery(meQuery);
  const info = useQuery(infoQuery);
  const nodes = useQuery(nodesQuery);
  const error = info.error ?? nodes.error;
  if (me.data && !may(me.data, 'change the cluster')) {
    return (
      <Page title={text.title}>
        <Empty title={common.noRight}>
          {text.forAdmins} <Link to="/nodes">{text.toNodes}</Link>
        </Empty>
      </Page>
    );
  }
  const facts = info.data && nodes.data && [
    [text.runtime, nodes.data.runtime ?? common.none],
    [text.version, info.data.version],
    [text.api, info.data.api_version],
    [text.decisions, info.data.decisions],
    [text.cluster, info.data.cluster],
  ];
  return (
    <Page title={text.title}>
      {error && <Failed error={error} onRetry={() => void Promise.all([info.refetch(), nodes.refetch()])} />}
      {!facts && !error && <Loading />}
      {facts && (
        <Section title={text.server}>
          <dl className={css.facts}>
            {facts.map(([name, value]) => [<dt key={`${name} name`}>{name}</dt>, <dd key={name}>{value}</dd>])}
          </dl>
        </Section>
      )}
    </Page>
  );
}
