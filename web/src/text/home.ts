import { count } from '../format/quantity';

export const text = {
  title: 'Home',
  mine: 'My jobs',
  states: 'My jobs by state',
  none: 'You have no jobs that wait or run',
  noneWhy: 'Submit one: the form says before you press the button whether it starts now, and if not, why and until when.',
  submit: 'Submit a job',
  all: 'All jobs',
  vcs: 'My virtual clusters',
  noVC: 'You are a member of no virtual cluster',
  noVCWhy: 'An administrator of the cluster can make you one, or put you into a group that is one.',
  ending: 'What ends soon',
  endingWhy: 'by time limit, or as its progress says',
  job: 'Job',
  ends: 'Ends',
  latest: 'at the latest',
  basis: 'By',
  bad: 'What is out of service',
  allWell: 'All nodes are in service.',
  waiting: (n: number) => `${count(n)} waiting`,
  running: (n: number) => `${count(n)} running`,
};
