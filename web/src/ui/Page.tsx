import { type ReactNode, useEffect } from 'react';
import { text } from '../text/common';
import css from './ui.module.css';

interface Props {
  title: string;
  beside?: ReactNode; // the state of what the page is about
  facts?: ReactNode; // one line
  actions?: ReactNode; // at most two buttons
  children: ReactNode;
}

// Page is the one layout: title, state, buttons; a line of facts; content.
export function Page({ title, beside, facts, actions, children }: Props) {
  useEffect(() => {
    document.title = `${title} · ${text.product}`;
  }, [title]);
  return (
    <article className={css.page}>
      <header className={css.pageHead}>
        <div className={css.pageTitle}>
          <h1>{title}</h1>
          {beside}
        </div>
        {actions && <div className={css.actions}>{actions}</div>}
        {facts && <div className={css.facts}>{facts}</div>}
      </header>
      {children}
    </article>
  );
}

// Section is a part of a page with a heading of its own.
export function Section({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }) {
  return (
    <section className={css.section} aria-label={title}>
      <div className={css.sectionHead}>
        <h2>{title}</h2>
        {aside && <div className="meta">{aside}</div>}
      </div>
      {children}
    </section>
  );
}

// Fact is one thing to know, under its name.
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <span className={css.fact}>
      <span className={css.factName}>{name}</span> <span>{children}</span>
    </span>
  );
}
