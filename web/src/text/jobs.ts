import { count, ordinal } from '../format/quantity';
import { clock, duration } from '../format/time';

const hour = 3_600_000_000;

// until says when, relative within an hour, else by the clock.
function until(within: string, by: string, at: number, now: number): string {
  if (at <= now) return 'soon';
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
  gpus: 'GPUs',
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
  nameHas: 'Name has',
  noneYet: 'No jobs yet',
  noneYetWhy: 'What you submit shows here, with its state, and why it waits.',
  noneMatch: 'No job matches these filters',
  clear: 'Clear the filters',
  next: 'Older',
  first: 'Newest',
  nextPage: 'Next page',
  firstPage: 'First page',
  sortedAll: 'in this order over all pages',
  sortedPage: 'sorted within this page alone',
  page: (n: number, more: boolean) => (more ? `${count(n)} jobs on this page, of more` : `${count(n)} ${n === 1 ? 'job' : 'jobs'}`),
  stop: (n: number) => (n === 1 ? 'Stop 1 job' : `Stop ${count(n)} jobs`),
  stopTitle: (n: number) => (n === 1 ? 'Stop this job?' : `Stop these ${count(n)} jobs?`),
  stopWhy: (n: number) =>
    n === 1
      ? 'Its tasks are asked to end, and killed when their grace is over. A stopped job does not start again.'
      : 'Their tasks are asked to end, and killed when their grace is over. Stopped jobs do not start again.',
  stopping: 'Stopping…',
  position: (n: number) => `${ordinal(n)} in line`,
  when: 'Starts, ends',
  atMost: (at: number, now: number) => until('within', 'by', at, now),
  about: (at: number, now: number) => until('in about', 'about', at, now),
  expected: (earliest: string, latest: string) => `As soon as is likely: ${earliest}.${latest ? ` At the latest: ${latest}.` : ''}`,
};
