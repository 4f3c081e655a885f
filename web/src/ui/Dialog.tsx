import { Modal } from '@mantine/core';
import { type ReactNode, useLayoutEffect } from 'react';
import { text } from '../text/common';
import css from './ui.module.css';

interface Props {
  title: string;
  opened?: boolean;
  onClose?: () => void; // without it the dialog stays until its reason is gone, above all others
  children: ReactNode;
}

const stay = () => {};

// useFocusBack gives the keyboard back to where it was when the dialog came: the toolkit does so only for one that is closed and
// stays. What opened it may be gone or off by then: the page has it.
function useFocusBack() {
  useLayoutEffect(() => {
    const from = document.activeElement;
    return () => {
      if (from instanceof HTMLElement) from.focus({ preventScroll: true });
      if (document.activeElement !== from || from === document.body) document.getElementById('content')?.focus({ preventScroll: true });
    };
  }, []);
}

// Dialog stands above the page. Its head is no header element: the page has its banner.
export function Dialog({ title, opened = true, onClose, children }: Props) {
  useFocusBack();
  return (
    <Modal.Root zIndex={onClose ? 200 : 300} opened={opened} onClose={onClose ?? stay} centered closeOnEscape={!!onClose} closeOnClickOutside={!!onClose}>
      <Modal.Overlay />
      <Modal.Content>
        <div className={css.dialogHead}>
          <Modal.Title>{title}</Modal.Title>
          {onClose && <Modal.CloseButton aria-label={text.close} />}
        </div>
        <Modal.Body>{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
