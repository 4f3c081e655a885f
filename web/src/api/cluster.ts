import { queryOptions } from '@tanstack/react-query';
import { call, part, request } from './client';
import type { CellList, ClusterConfig, ConfigPlanned, Done, Info, NodeList, VCList } from './wire';

export const vcsQuery = queryOptions({ queryKey: ['vcs'], queryFn: ({ signal }) => call<VCList>('GET', '/vcs', { signal }) });
export const nodesQuery = queryOptions({ queryKey: ['nodes'], queryFn: ({ signal }) => call<NodeList>('GET', '/nodes', { signal }) });
export const cellsQuery = queryOptions({ queryKey: ['cells'], queryFn: ({ signal }) => call<CellList>('GET', '/cells', { signal }) });
export const infoQuery = queryOptions({ queryKey: ['info'], queryFn: ({ signal }) => call<Info>('GET', '/info', { signal }) });
export const configQuery = queryOptions({ queryKey: ['config'], queryFn: ({ signal }) => call<ClusterConfig>('GET', '/config', { signal }) });
export const configFileQuery = queryOptions({
  queryKey: ['config', 'file'],
  queryFn: async ({ signal }) => (await request('GET', '/config/file', { signal })).text(),
});

export function cordon(node: string, reason: string, key: string): Promise<unknown> {
  return call('POST', `/nodes/${part(node)}/cordon`, { body: { reason }, key });
}

export function uncordon(node: string, key: string): Promise<unknown> {
  return call('POST', `/nodes/${part(node)}/uncordon`, { body: {}, key });
}

export function planConfig(yaml: string, signal: AbortSignal): Promise<ConfigPlanned> {
  return call('POST', '/config:plan', { yaml, signal });
}

export function applyConfig(yaml: string, match: string, key: string): Promise<Done> {
  return call('PUT', '/config', { yaml, match, key });
}
