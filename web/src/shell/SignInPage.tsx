import { text as common } from '../text/common';
import { text } from '../text/signin';
import { Mark } from './Mark';
import { SignIn } from './SignIn';
import css from './shell.module.css';

export function SignInPage() {
  return (
    <main className={css.gate}>
      <div className={css.gateCard}>
        <div className={css.brand}>
          <Mark size={28} /> <span>{common.product}</span>
        </div>
        <h1>{text.title}</h1>
        <SignIn />
        <p className="meta">{text.help}</p>
      </div>
    </main>
  );
}
