import { Link } from '@tanstack/react-router';
import { text } from '../text/common';
import { Page } from '../ui/Page';

export function NoPage() {
  return (
    <Page title={text.noPage}>
      <p>
        <Link to="/">{text.toHome}</Link>
      </p>
    </Page>
  );
}
