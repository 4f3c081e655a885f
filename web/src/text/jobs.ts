import { count, ordinal, plural } from '../format/quantity';
import { clock, duration } from '../format/time';

const hour = 3_600_000_000;

// until says when, relative within an hour, else by the clock.
function until(within: string, by: string, at: number, now: number): string {
  if (at - now < 1_000_000) return 'soon';
  return at - now < hour ? `${within} ${duration(at - now)}` : `${by} ${clock(at, now)}`;
}

export const text = {
  tag: (name: string) => `Tag ${name}`,
  withoutTag: (name: string) => `Remove the filter tag ${name}`,
  title: 'Jobs',
  list: 'Jobs, newest first',
  submit: 'Submit a job',
  name: 'Name',
  state: 'State',
  why: 'Why',
  vc: 'Virtual cluster',
  user: 'User',
  waited: 'Waited',
  ran: 'Ran',
  submitted: 'Submitted',
  chosen: 'Selected',
  select: (name: string) => `Select ${name}`,
  selectAll: 'Select all jobs of this page',
  filters: 'Filters',
  anyState: 'Any state',
  anyVC: 'Any virtual cluster',
  whose: 'Whose jobs',
  all: 'All',
  mine: 'Mine',
  nameHas: 'Search by name',
  noneYet: 'No jobs yet',
  noneYetWhy: 'Your jobs are listed here, with their state and why they wait.',
  noneMatch: 'No job matches these filters',
  clear: 'Clear the filters',
  next: 'Older',
  first: 'Newest',
  nextPage: 'Next page',
  firstPage: 'First page',
  sortedAll: 'all pages are in this order',
  sortedPage: 'only this page is in this order',
  page: (n: number, more: boolean) => (more ? `${count(n)} jobs on this page; there are more` : `${count(n)} ${n === 1 ? 'job' : 'jobs'}`),
  stop: (n: number) => (n === 1 ? 'Stop 1 job' : `Stop ${count(n)} jobs`),
  stopTitle: (n: number) => (n === 1 ? 'Stop this job?' : `Stop these ${count(n)} jobs?`),
  stopWhy: (n: number) =>
    n === 1
      ? 'Its tasks are asked to end. After their grace period they are killed. A stopped job does not start again.'
      : 'Their tasks are asked to end. After their grace period they are killed. Stopped jobs do not start again.',
  stopped: 'Jobs to stop',
  more: (n: number) => `and ${plural(n, 'more job')}`,
  stopping: 'Stopping…',
  position: (n: number) => `${ordinal(n)} in line`,
  starts: 'Starts',
  ends: 'Ends',
  point: (where: string, free: string) => `${where}: ${free} free`,
  apart: (where: string, free: string) => `${where}: ${free} free, not in one place`,
  freeOf: (free: number, of: number, what: string) => `${count(free)} of ${count(of)} ${what}`,
  cluster: 'cluster',
  ahead: (where: string, free: string) => `${where}: other jobs first (${free} free)`,
  gpus: 'GPUs',
  atMost: (at: number, now: number) => until('within', 'by', at, now),
  about: (at: number, now: number) => until('in about', 'about', at, now),
  expected: (earliest: string, latest: string) => `At the earliest: ${earliest}.${latest ? ` At the latest: ${latest}.` : ''}`,
};
