import { convertCssVariables, type CSSVariablesResolver, DEFAULT_THEME, defaultCssVariablesResolver, mergeMantineTheme } from '@mantine/core';
import { theme } from './theme.ts';

// This runs when the portal is built: its answer is a style sheet, variables.css.

const ground = {
  '--mantine-color-body': 'var(--card)',
  '--mantine-color-text': 'var(--ink)',
  '--mantine-color-dimmed': 'var(--muted)',
  '--mantine-color-placeholder': 'var(--muted)',
  '--mantine-color-error': 'var(--failed)',
  '--mantine-color-default': 'var(--card)',
  '--mantine-color-default-color': 'var(--ink)',
  '--mantine-color-default-border': 'var(--edge)',
  '--mantine-color-default-hover': 'var(--hover)',
  '--mantine-primary-color-contrast': 'var(--on-accent)',
};

// variables is what the toolkit's own style sheets are written with, in the portal's sizes and colours.
export function variables(): string {
  const { variables, light, dark }: ReturnType<CSSVariablesResolver> = defaultCssVariablesResolver(mergeMantineTheme(DEFAULT_THEME, theme));
  return convertCssVariables({ variables, light: { ...light, ...ground }, dark: { ...dark, ...ground } });
}
