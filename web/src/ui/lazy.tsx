import { type ComponentType, createElement, type ReactNode, use } from 'react';
import { Failure } from '../api/client';
import { text } from '../text/common';

// NotLoaded is a part of the portal whose file did not come. again lets the next try ask for it anew.
export class NotLoaded extends Failure {
  readonly again: () => void;

  constructor(again: () => void) {
    super(0, text.notLoaded);
    this.again = again;
  }
}

type Lazy<P> = ((props: P) => ReactNode) & { preload: () => Promise<void>; there: () => boolean };

// lazyPart loads a part when it is first shown. Unlike React's own lazy, a failed load can be tried again.
export function lazyPart<P extends object>(load: () => Promise<ComponentType<P>>): Lazy<P> {
  let part: ComponentType<P> | undefined;
  let error: NotLoaded | undefined;
  let loading: Promise<void> | undefined;
  const forget = () => {
    error = undefined;
    loading = undefined;
  };
  const start = () => {
    loading ??= load().then(
      (p) => {
        part = p;
      },
      () => {
        error = new NotLoaded(forget);
      },
    );
    return loading;
  };
  function LazyPart(props: P) {
    if (part) return createElement(part, props);
    if (error) throw error;
    use(start());
    return null; // not reached before the part is there or has failed
  }
  // preload is called before it is shown. Where it fails, what shows it tries again; there says whether it came.
  LazyPart.preload = () => {
    if (error) forget();
    return start().then(() => {
      if (error) forget();
    });
  };
  LazyPart.there = () => part !== undefined;
  return LazyPart;
}
