import { expect, test } from 'vitest';
import { type Events, withPage } from './jobs';

const none: Events = { events: [], last: 0, left: 0 };
const event = (seq: number, kind: string) => ({ seq, time: seq, kind, data: {}, version: 1 });

test('events are read on behind the last one, and of steps of progress the last of a row is kept', () => {
  const first = withPage(none, { events: [event(1, 'JobSubmitted'), event(4, 'Progress'), event(5, 'Progress')], next: 9 });
  expect(first.last).toBe(9); // events that were passed over are not asked for again
  const second = withPage(first, { events: [event(10, 'Progress'), event(11, 'TaskExited'), event(12, 'Progress')] });
  expect(second.events.map((e) => e.seq)).toEqual([1, 10, 11, 12]);
  expect(second.last).toBe(12);
  expect(withPage(second, { events: [] }).last).toBe(12);
});

test('very many events: the last ones are kept, and the others counted', () => {
  let have = none;
  for (let page = 0; page < 7; page++) have = withPage(have, { events: Array.from({ length: 1000 }, (_, i) => event(page * 1000 + i + 1, 'TaskStarted')) });
  expect([have.events.length, have.left, have.events[0]?.seq, have.last]).toEqual([5000, 2000, 2001, 7000]);
});
