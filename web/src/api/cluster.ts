import { queryOptions } from '@tanstack/react-query';
import { call, part, textOf } from './client';
import type { CellList, ClusterConfig, ConfigPlanned, ConfigVersions, Done, DrainPlanned, Info, NodeList, StorageList, VCList } from './wire';

export const vcsQuery = queryOptions({ queryKey: ['vcs'], queryFn: ({ signal }) => call<VCList>('GET', '/vcs', { signal }) });
export const nodesQuery = queryOptions({ queryKey: ['nodes'], queryFn: ({ signal }) => call<NodeList>('GET', '/nodes', { signal }) });
export const cellsQuery = queryOptions({ queryKey: ['cells'], queryFn: ({ signal }) => call<CellList>('GET', '/cells', { signal }) });
export const storagesQuery = queryOptions({ queryKey: ['storages'], queryFn: ({ signal }) => call<StorageList>('GET', '/storages', { signal }) });
export const infoQuery = queryOptions({ queryKey: ['info'], queryFn: ({ signal }) => call<Info>('GET', '/info', { signal }) });
export const configQuery = queryOptions({ queryKey: ['config'], queryFn: ({ signal }) => call<ClusterConfig>('GET', '/config', { signal }) });
export const configFileQuery = queryOptions({
  queryKey: ['config', 'file'],
  queryFn: ({ signal }) => textOf('GET', '/config/file', { signal }),
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

export interface Change {
  match: string; // the tag that was planned on
  on: number; // and the version; 0 is any
  reason: string;
  restores: number; // the version whose file it is; 0 is none
}

export function applyConfig(yaml: string, change: Change, key: string): Promise<Done> {
  const q = new URLSearchParams();
  if (change.on > 0) q.set('on', String(change.on));
  if (change.reason) q.set('reason', change.reason);
  if (change.restores > 0) q.set('restores', String(change.restores));
  return call('PUT', `/config?${q.toString()}`, { yaml, match: change.match, key });
}

export const configVersionsQuery = queryOptions({
  queryKey: ['config', 'versions'],
  queryFn: ({ signal }) => call<ConfigVersions>('GET', '/config/versions?limit=20', { signal }),
});

export function configVersionFile(version: number): Promise<string> {
  return textOf('GET', `/config/versions/${version}/file`);
}

// drain takes a node out of placement; what runs there leaves it within so many minutes.
export function drain(node: string, minutes: number, reason: string, key: string): Promise<unknown> {
  return call('POST', `/nodes/${part(node)}/drain`, { body: { within: minutes * 60_000_000, reason }, key });
}

// drainPlanQuery says what a drain would do to each job, and changes nothing.
export const drainPlanQuery = (node: string, minutes: number) =>
  queryOptions({
    queryKey: ['nodes', node, 'drain', minutes],
    queryFn: ({ signal }) => call<DrainPlanned>('POST', `/nodes/${part(node)}/drain:plan`, { body: { within: minutes * 60_000_000 }, signal }),
    staleTime: 0,
  });
