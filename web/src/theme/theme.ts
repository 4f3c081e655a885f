import { Button, createTheme, type MantineColorsTuple } from '@mantine/core';

// Ten shades of the one accent; pages use the two of tokens.css.
const accent: MantineColorsTuple = [
  '#edf3ff', '#d9e5ff', '#b3ccff', '#8ab2ff', '#5f98ff', '#3f7ff5', '#1f5fe6', '#184fc4', '#133f9d', '#0e2f76',
];

// Fields, boxes and switches take the grounds of tokens.css in dark, not the toolkit's neutral greys.
const dark: MantineColorsTuple = [
  '#e6e9ee', '#c5cbd3', '#a3acb8', '#8c96a3', '#6f7985', '#343a43', '#15171b', '#1d2026', '#15171b', '#101216',
];

// The scheme decides at the place of use, which a colour that is worked out here could not.
const red = { '--button-bg': 'var(--failed)', '--button-hover': 'color-mix(in srgb, var(--failed) 85%, var(--ink))', '--button-color': 'var(--on-vc)' };
const redLine = { '--button-color': 'var(--failed)', '--button-bd': '1px solid var(--failed)' };
const filled = { '--button-bg': 'var(--accent)', '--button-hover': 'var(--accent-hover)', '--button-color': 'var(--on-accent)' };

export const theme = createTheme({
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
  fontFamilyMonospace: 'var(--mono)',
  colors: { accent, dark },
  primaryColor: 'accent',
  primaryShade: { light: 6, dark: 4 },
  defaultRadius: 4,
  respectReducedMotion: true,
  components: {
    Button: Button.extend({
      vars: (_, props) => {
        const whole = props.variant === undefined || props.variant === 'filled';
        // What ends or removes something is red.
        if (props.color === 'red') return { root: whole ? red : redLine };
        return { root: whole ? filled : {} };
      },
    }),
  },
  fontSizes: { xs: '12px', sm: '14px', md: '14px', lg: '16px', xl: '20px' },
});
