import { MantineProvider } from '@mantine/core';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import type { Explanation, GangReason } from '../api/wire';
import { why as text } from '../text/job';
import { WhyPanel } from './WhyPanel';

function gang(code: string, suggestions: GangReason['suggestions'] = null): GangReason {
  return { gang: 0, name: 'default', reason: { code, message: 'too few GPUs', need: 2, free: 1, total: 2, asks: '2 GPUs' }, suggestions };
}

function panel(...gangs: GangReason[]): string {
  return panelOf({ ref: '1', job: 1, name: 'a', vc: 'v', phase: 'Waiting', gangs });
}

function panelOf(explanation: Explanation): string {
  return renderToStaticMarkup(<MantineProvider><WhyPanel explanation={explanation} title={text.title} from="" /></MantineProvider>);
}

test('a job that no change would start says so; one that is held or has a suggestion does not', () => {
  const fix = [{ kind: 'another_vc', message: 'it would start in virtual cluster b', vc: 'b' }];
  expect(panel(gang('VCBusy'))).toContain(text.noFix);
  expect(panel(gang('VCBusy'), gang('VCBusy', fix))).not.toContain(text.noFix);
  expect(panel(gang('VCBusy', fix))).toContain('it would start in virtual cluster b');
  expect(panel(gang('OnHold'))).not.toContain(text.noFix);
  expect(panel()).not.toContain(text.noFix);
});

test('what was said of nodes that are out of service stands there', () => {
  const shown = panelOf({ ref: '1', job: 1, name: 'a', vc: 'v', phase: 'Waiting', gangs: [gang('BadHardware')], nodes: [{ name: 'n1', cordoned: true, by: 'carol', reason: 'new memory' }, { name: 'n2', reason: 'its kubelet is away' }] });
  expect(shown).toContain('Node n1 is cordoned by carol: new memory');
  expect(shown).toContain('Node n2: its kubelet is away');
});
