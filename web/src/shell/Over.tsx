import { text } from '../text/signin';
import { Dialog } from '../ui/Dialog';
import css from './shell.module.css';
import { SignIn } from './SignIn';

// Over stands above the page when the session has ended: whoever signs in again goes on where they were.
export function Over({ user }: { user: string }) {
  return (
    <Dialog title={text.over}>
      <p className={css.overWhy}>{text.overWhy}</p>
      <SignIn user={user} />
    </Dialog>
  );
}
