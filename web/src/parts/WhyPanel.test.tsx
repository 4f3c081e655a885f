import { MantineProvider } from '@mantine/core';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import type { Explanation, GangReason, JobBrief } from '../api/wire';
import { now } from '../format/time';
import { why as text } from '../text/job';
import { WhyPanel } from './WhyPanel';

function gang(code: string, suggestions: GangReason['suggestions'] = null): GangReason {
  return { gang: 0, name: 'default', reason: { code, message: 'too few GPUs', need: 2, free: 1, total: 2, asks: '2 GPUs' }, suggestions };
}

function panel(...gangs: GangReason[]): string {
  return panelOf({ ref: '1', job: 1, name: 'a', vc: 'v', phase: 'Waiting', gangs });
}

function panelOf(explanation: Explanation): string {
  return renderToStaticMarkup(<MantineProvider><WhyPanel explanation={explanation} title={text.title} reader="alice" from="" /></MantineProvider>);
}

const waiting: Explanation = { ref: '1', job: 1, name: 'a', vc: 'v', phase: 'Waiting', gangs: [gang('VCBusy')] };

// said is what is to be read, without what marks it up.
function said(html: string): string {
  return html.replace(/<style[^]*?<\/style>/g, '').replace(/<[^>]*>/g, '|').replace(/\|+/g, '|');
}

test('a job that no change would start says so; one that is held or has a suggestion does not', () => {
  const fix = [{ kind: 'another_vc', message: 'it would start in virtual cluster b', vc: 'b' }];
  expect(panel(gang('VCBusy'))).toContain(text.noFix);
  expect(panel(gang('VCBusy'), gang('VCBusy', fix))).not.toContain(text.noFix);
  expect(panel(gang('VCBusy', fix))).toContain('It would start in virtual cluster b');
  expect(panel(gang('OnHold'))).not.toContain(text.noFix);
  expect(panel()).not.toContain(text.noFix);
});

test('what was said of nodes that are out of service stands there', () => {
  const shown = panelOf({ ref: '1', job: 1, name: 'a', vc: 'v', phase: 'Waiting', gangs: [gang('BadHardware')], nodes: [{ name: 'n1', cordoned: true, by: 'carol', reason: 'new memory' }, { name: 'n2', reason: 'its kubelet is away' }] });
  expect(shown).toContain('Node n1 is cordoned by carol: new memory');
  expect(shown).toContain('Node n2: its kubelet is away');
});

test('that no change was found is said as what it is where not all were tried', () => {
  const found = panel({ ...gang('VCBusy'), untried: true });
  expect(found).toContain('No change was found that lets it start sooner. Not all changes were tried.');
  expect(found).not.toContain(text.noFix);
  expect(panel(gang('VCBusy'), { ...gang('VCBusy'), untried: true })).not.toContain(text.noFix); // of one of its gangs
  const some = panel({ ...gang('VCBusy', [{ kind: 'another_vc', message: 'it would start in virtual cluster b', vc: 'b' }]), untried: true });
  expect(some).toContain('<p class="meta">Not all changes were tried.</p>');
  expect(some).not.toContain('No change');
  expect(panel(gang('VCBusy'))).not.toContain('Not all');
});

test('a reservation is told as one, and a search that was cut short by its own words', () => {
  const bound = 'v keeps cells for it; they are free by then, by time limits';
  const kept = said(panel({ ...gang('VCBusy'), bound, reserved_at: now() + 600_500_000 }));
  expect(kept).toContain(`Starts at the latest| |in 10 min| (${bound})|`);
  expect(kept).not.toContain('tried');
  expect(said(panel({ ...gang('VCBusy'), bound: 'v keeps cells for it; no start time can be promised' }))).toContain('Reservation| |v keeps cells for it; no start time can be promised|');
  expect(said(panel({ ...gang('VCBusy'), name: 'a', bound }, { ...gang('VCBusy'), gang: 1, name: 'b' }))).toContain('Reservation (a)| |');
  const cut = said(panel({ ...gang('VCBusy'), cut: 'not every placement was tried: the search ends after 1,000 steps' }));
  expect(cut).toContain('|Not every placement was tried: the search ends after 1,000 steps|');
  expect(cut).not.toContain('Reservation');
});

test('its place comes with the order, and lists of jobs with how many there are besides', () => {
  const shown = said(panelOf({ ...waiting, position: 3, waiting: 1200, order: 'jobs behind this one may start first: it is on hold' }));
  expect(shown).toContain('3rd of 1,200 jobs waiting in its virtual cluster| (jobs behind this one may start first: it is on hold)|');
  const brief: JobBrief = { job: 0, name: 'b', vc: 'v', priority: 10, leaves: 1, takes: '1 GPU' };
  expect(said(panelOf({ ...waiting, ahead: [brief], ahead_more: 1190 }))).toMatch(/Ahead in line\|.*\|and 1,190 more jobs\|/);
  expect(said(panelOf({ ...waiting, blockers: [brief], blockers_more: 1 }))).toMatch(/In the way\|.*\|and 1 more job\|/);
  expect(said(panelOf({ ...waiting, ahead: [brief], blockers: [brief] }))).not.toContain('more job');
});

test('a job of another user has that user before its name; of one that is held its release is a button', () => {
  const brief = (user: string): JobBrief => ({ job: 7, name: 'eval', user, vc: 'v', priority: 10, leaves: 1, takes: '1 GPU' });
  const of = (user: string) => said(panelOf({ ...waiting, blockers: [{ ...brief(user), job: 0 }] }));
  expect(of('bob')).toContain('|bob~eval|');
  expect(of('alice')).toContain('|eval|');
  const held = gang('OnHold');
  expect(said(panel({ ...held, reason: { ...held.reason, message: 'on hold by carol (new data); comb job release ends the hold' } }))).toContain('|On hold by carol (new data) |OnHold|');
  expect(said(panel({ ...held, reason: { ...held.reason, code: 'VCBusy', message: 'v: 1 of 2 GPUs free; it needs 2 GPUs' } }))).toContain('|v: 1 of 2 GPUs free');
});
