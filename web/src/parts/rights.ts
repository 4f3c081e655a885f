import type { Job, Me } from '../api/wire';

// What the reader may do is the server's to say; it does so in the words of the table of rights. A button that it would
// refuse is not shown.
export type ClusterVerb = 'see the cluster file' | 'change the cluster' | 'see users and groups' | 'change users and groups';
export type JobVerb = "read the job's file, logs and events" | 'submit jobs' | 'stop or change the job';

type Reader = Me | null | undefined;

// may says whether the reader may do something with the cluster or with people.
export function may(me: Reader, verb: ClusterVerb): boolean {
  return me?.may?.includes(verb) ?? false;
}

// mayWith says whether it may do something with a job.
export function mayWith(me: Reader, verb: JobVerb, job: Job): boolean {
  const vc = me?.vcs?.find((v) => v.name === job.vc);
  const own = job.user === me?.name;
  const verbs = own ? (vc?.own ?? me?.own) : vc?.may;
  return verbs?.includes(verb) ?? false;
}

// mayIn says whether it may do something in a virtual cluster, whoever's jobs it is about.
export function mayIn(me: Reader, verb: JobVerb, vc: string): boolean {
  return me?.vcs?.find((v) => v.name === vc)?.may?.includes(verb) ?? false;
}
