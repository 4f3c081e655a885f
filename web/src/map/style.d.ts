import 'react';

declare module 'react' {
  interface CSSProperties {
    '--leaf'?: string;
  }
}
