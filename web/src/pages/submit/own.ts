import { useQuery } from '@tanstack/react-query';
import { vcsQuery } from '../../api/cluster';
import { meQuery } from '../../api/people';
import type { Me, VC } from '../../api/wire';
import { mayIn } from '../../parts/rights';
import { set } from './patch';

// ownVCs are the virtual clusters in which one may submit, by name.
export function ownVCs(me: Me | null | undefined, vcs: VC[]): string[] {
  return vcs.filter((v) => !v.gone && mayIn(me, 'submit jobs', v.name)).map((v) => v.name);
}

// useOwnVC is the one in which a new job begins: "" where there is none, undefined until that is known.
export function useOwnVC(): string | undefined {
  const me = useQuery(meQuery);
  const vcs = useQuery(vcsQuery);
  if (!me.data || !vcs.data) return undefined;
  return ownVCs(me.data, vcs.data.vcs ?? [])[0] ?? '';
}

export function inVC(file: string, vc: string): string {
  return vc === '' ? file : set(file, ['defaults', 'virtualCluster'], vc);
}
