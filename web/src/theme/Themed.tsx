import { MantineContext, MantineThemeProvider } from '@mantine/core';
import { type ReactNode, useMemo } from 'react';
import { nonce } from './nonce';
import { choose, useScheme } from './scheme';
import { theme } from './theme';

const root = () => document.documentElement;

// Themed gives the toolkit its theme. The toolkit's own provider would work out all of its variables and write them into a style
// element at each start: here they are a file, which variables.ts makes when the portal is built.
export function Themed({ children }: { children: ReactNode }) {
  const scheme = useScheme();
  const context = useMemo(
    () => ({
      colorScheme: scheme,
      setColorScheme: (to: string) => choose(to === 'dark' ? 'dark' : 'light'),
      clearColorScheme: () => {},
      getRootElement: root,
      classNamesPrefix: 'mantine',
      getStyleNonce: nonce,
      cssVariablesSelector: ':root',
      withStaticClasses: false,
    }),
    [scheme],
  );
  return (
    <MantineContext value={context}>
      <MantineThemeProvider theme={theme}>{children}</MantineThemeProvider>
    </MantineContext>
  );
}
