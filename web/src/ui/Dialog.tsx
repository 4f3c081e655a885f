import { Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import { text } from '../text/common';
import css from './ui.module.css';

interface Props {
  title: string;
  opened?: boolean;
  onClose?: () => void; // without it the dialog stays until its reason is gone, above all others
  children: ReactNode;
}

const stay = () => {};

// Dialog stands above the page. Its head is no header element: the page has its banner.
export function Dialog({ title, opened = true, onClose, children }: Props) {
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
