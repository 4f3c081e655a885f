import type { Job, Me } from '../api/wire';

// mayChange says whether a button that changes a job is of use to its reader. The server decides; a button that it would
// refuse is not shown.
export function mayChange(me: Me | null | undefined, job: Job): boolean {
  if (!me || me.token?.read_only) return false;
  return me.administrator || job.user === me.name || (me.vcs ?? []).some((v) => v.name === job.vc && v.role.startsWith('administrator'));
}
