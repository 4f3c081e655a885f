import { MantineProvider } from '@mantine/core';
import type { ReactNode } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { Failure } from '../api/client';
import { now } from '../format/time';
import { text } from '../text/common';
import { Ago, Stamp } from './Ago';
import { Bar, Track } from './Bar';
import { Empty } from './Empty';
import { Failed, Wrong } from './Failed';
import { Loading } from './Loading';
import { Fact, Page, Section } from './Page';
import { State } from './State';
import { type Column, Table } from './Table';

const html = (node: ReactNode) => renderToStaticMarkup(<MantineProvider>{node}</MantineProvider>).replace(/<style[^]*?<\/style>/g, '');

// said is what is to be read, without what marks it up.
const said = (node: ReactNode) => html(node).replace(/<svg[^]*?<\/svg>/g, '').replace(/<[^>]*>/g, '|').replace(/\|+/g, '|').replace(/^\||\|$/g, '');

test('a page has its title, its state, its buttons and a line of facts; parts that are not there leave nothing', () => {
  expect(said(<Page title="Jobs" beside="Running" actions="Stop" facts={<Fact name="User">ann</Fact>}>rows</Page>)).toBe('Jobs|Running|Stop|User| |ann|rows');
  expect(html(<Page title="Jobs">rows</Page>).match(/<div/g)).toHaveLength(1);
  expect(html(<Page title="<b>">rows</Page>)).toContain('<h1>&lt;b&gt;</h1>');
  expect(html(<Section title="Tasks" aside="3">rows</Section>)).toMatch(/<section[^>]*aria-label="Tasks"[^]*<h2>Tasks<\/h2>[^]*3[^]*rows/);
});

interface Row {
  name: string;
  n: number;
}

const columns: Column<Row>[] = [
  { key: 'name', head: 'Name', cell: (r) => r.name },
  { key: 'n', head: 'Number', align: 'right', order: (a, b) => a.n - b.n, cell: (r) => r.n },
  { key: 'act', head: 'Change', quiet: true, cell: () => 'act' },
];
const rows = [{ name: 'b', n: 2 }, { name: 'a', n: 10 }, { name: 'c', n: 1 }];
const table = (more: { sorted?: string; ordered?: boolean }) => <Table label="Things" columns={columns} rows={rows} rowKey={(r) => r.name} onSort={() => {}} {...more} />;
const names = (node: ReactNode) => [...html(node).matchAll(/data-head="Name">(.)</g)].map((m) => m[1]).join('');

test('a table sorts its rows by a column, either way, and leaves those alone that come in order', () => {
  expect(names(table({}))).toBe('bac');
  expect(names(table({ sorted: 'n' }))).toBe('cba');
  expect(names(table({ sorted: '-n' }))).toBe('abc');
  expect(names(table({ sorted: 'n', ordered: true }))).toBe('bac');
  expect(names(table({ sorted: 'none-such' }))).toBe('bac');
});

test('a table says its order, and by which heads it sorts', () => {
  expect(html(table({ sorted: '-n' }))).toMatch(/<th[^>]*aria-sort="descending"[^>]*><button[^>]*>Number/);
  expect(html(table({ sorted: 'n' }))).toContain('aria-sort="ascending"');
  expect(html(table({}))).not.toContain('aria-sort');
  expect(html(table({})).match(/<button/g)).toHaveLength(1); // the one that has an order
  expect(html(table({}))).toMatch(/<th[^>]*><span class="hidden">Change/);
});

test('a state is a shape and a word; one that is not known is its own name', () => {
  expect(html(<State state="Active" detail="number 3" means="it runs" />)).toMatch(/title="it runs"><svg[^]*<span>Running<\/span><span[^>]*>number 3</);
  expect(html(<State state="Active" />)).not.toContain('title');
  expect(said(<State state="NewOne" />)).toBe('NewOne');
  expect(html(<State state="Failed" />).match(/<path d="([^"]*)"/)?.[1]).not.toBe(html(<State state="Stopped" />).match(/<path d="([^"]*)"/)?.[1]);
});

test('a point in time is told by how far it is, and in full on hover; none is a dash', () => {
  const ago = now() - 5.5 * 60_000_000;
  expect(html(<Ago at={ago} />)).toMatch(new RegExp(`<time dateTime="${new Date(ago / 1000).toISOString()}" title="[^"]*\\d{4}[^"]*">5 min ago</time>`, 'i'));
  expect(said(<Ago at={undefined} />)).toBe(text.none);
  expect(said(<Ago at={0} />)).toBe(text.none);
  expect(said(<Stamp at={ago} />)).toMatch(/\d\d:\d\d:\d\d$/);
});

test('a failure says what kind it is, what the server said, and offers another try where there is one', () => {
  const titles: [Error, 'reading' | 'acting', string][] = [
    [new Failure(0, 'why'), 'reading', text.noAnswer], [new Failure(403, 'why'), 'reading', text.noRight], [new Failure(403, 'why'), 'acting', text.mayNot],
    [new Failure(404, 'why'), 'reading', text.notFound], [new Failure(500, 'why'), 'reading', text.failedToLoad], [new Failure(500, 'why'), 'acting', text.notDone],
    [new Wrong('why'), 'acting', text.wrong], [new Error('why'), 'reading', text.broken],
  ];
  for (const [error, of, title] of titles) expect(said(<Failed error={error} of={of} />)).toBe(`${title}|why`);
  expect(said(<Failed error={new Failure(0, text.noAnswerWhy)} />)).toBe(text.noAnswer); // once
  expect(html(<Failed error={new Failure(500, 'why')} />)).toContain('role="alert"');
  expect(said(<Failed error={new Failure(500, 'why')} onRetry={() => {}} />)).toContain(text.again);
  const mistakes = { code: '', title: '', status: 422, detail: 'two', errors: [{ detail: 'no such key', line: 3, column: 2 }, { detail: 'too large', pointer: '/a' }] };
  expect(said(<Failed error={new Failure(422, 'two', mistakes)} />)).toBe(`${text.failedToLoad}|line 3, column 2: |no such key|/a|: too large`);
});

test('what loads is busy, and keeps the place of its rows', () => {
  expect(html(<Loading rows={3} />)).toContain('aria-busy="true"');
  expect(html(<Loading rows={3} />).match(/loadingRow/g)).toHaveLength(3);
});

test('what is empty says why, and what to do', () => {
  expect(said(<Empty title="No jobs">Submit one</Empty>)).toBe('No jobs|Submit one');
  expect(said(<Empty title="No jobs" />)).toBe('No jobs');
});

test('a bar has its numbers below it, a track in its name alone; what there is none of is not drawn', () => {
  const pieces = [{ kind: 'used' as const, size: 3, name: '3 used' }, { kind: 'bad' as const, size: 0, name: '0 bad' }, { kind: 'borrowed' as const, size: 1, name: '1 borrowed' }];
  expect(html(<Track label="V100" pieces={pieces} tick={3} />)).toMatch(/role="img" aria-label="V100: 3 used, 1 borrowed"[^]*left:75%/);
  expect(said(<Track label="V100" pieces={pieces} />)).toBe('');
  expect(said(<Bar label="V100" pieces={pieces} />).split('|').map((w) => w.trim()).filter((w) => w !== '')).toEqual(['3 used', '1 borrowed']);
  expect(html(<Track label="V100" pieces={pieces} tick={4} />)).not.toContain('left:'); // nothing is beyond it
});
