import type { ErrorComponentProps } from '@tanstack/react-router';
import { text } from '../text/common';
import { Failed } from '../ui/Failed';
import { NotLoaded } from '../ui/lazy';
import { Page } from '../ui/Page';

// Broken stands in a page's place when the page has an error; the rest goes on.
export function Broken({ error, reset }: ErrorComponentProps) {
  const again = () => {
    if (error instanceof NotLoaded) error.again();
    reset();
  };
  return (
    <Page title={text.broken}>
      <Failed error={error instanceof Error ? error : new Error(String(error))} onRetry={again} />
    </Page>
  );
}
