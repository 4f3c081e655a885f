import { useQuery } from '@tanstack/react-query';
import { vcsQuery } from '../../api/cluster';
import { meQuery } from '../../api/people';
import type { Me, VC } from '../../api/wire';
import { mayIn } from '../../parts/rights';
import { keysAt } from './draft';
import { data, set } from './patch';

// ownVCs are the virtual clusters in which one may submit, by name.
export function ownVCs(me: Me | null | undefined, vcs: VC[]): string[] {
  return vcs.filter((v) => !v.gone && mayIn(me, 'submit jobs', v.name)).map((v) => v.name);
}

// beginVC is the one in which a new job begins, as the server chooses for a job that names none: the only one, else "default"; ""
// where the user chooses.
export function beginVC(own: string[]): string {
  return own.length === 1 ? (own[0] ?? '') : (own.find((vc) => vc === 'default') ?? '');
}

// useOwnVC is beginVC of the user's, undefined until that is known.
export function useOwnVC(): string | undefined {
  const me = useQuery(meQuery);
  const vcs = useQuery(vcsQuery);
  if (!me.data || !vcs.data) return undefined;
  return beginVC(ownVCs(me.data, vcs.data.vcs ?? []));
}

// inVC is a job's file in a virtual cluster, "" in none that is named: then its other defaults stay.
export function inVC(file: string, vc: string): string {
  if (vc !== '') return set(file, ['defaults', 'virtualCluster'], vc);
  const rest = set(file, ['defaults', 'virtualCluster'], undefined);
  return keysAt(data(rest), ['defaults']).length === 0 ? set(rest, ['defaults'], undefined) : rest;
}
