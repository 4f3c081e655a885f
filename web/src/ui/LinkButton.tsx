import { Button, type ButtonProps } from '@mantine/core';
import { createLink } from '@tanstack/react-router';
import { type AnchorHTMLAttributes, forwardRef } from 'react';

type Props = ButtonProps & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof ButtonProps>;

// LinkButton looks like a button and is a link to a page.
export const LinkButton = createLink(
  forwardRef<HTMLAnchorElement, Props>(function LinkButton(props, ref) {
    return <Button component="a" ref={ref} {...props} />;
  }),
);
