import { MantineProvider } from '@mantine/core';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, test } from 'vitest';
import { LogScroll } from './LogScroll';
import { Lines } from './lines';
import { nothing } from './useLog';

function shown(more: { failed: boolean; cut: boolean; reading: boolean }): string {
  const lines = new Lines();
  lines.take('one\nValueError: bad rank\nthree\n');
  const log = { ...nothing, lines, version: 1, cut: more.cut, reading: more.reading };
  return renderToStaticMarkup(<MantineProvider><LogScroll log={log} label="Log" rest="" failed={more.failed} toError={false} follow onFollow={() => {}} /></MantineProvider>);
}

test('the first error is that of the lines which were read: where there are older ones the button says so', () => {
  expect(shown({ failed: true, cut: false, reading: false })).toContain('>First error<');
  expect(shown({ failed: true, cut: true, reading: false })).toContain('>First error in the last 3 lines<');
  expect(shown({ failed: true, cut: true, reading: true })).not.toContain('First error');
  expect(shown({ failed: false, cut: true, reading: false })).not.toContain('First error');
});
