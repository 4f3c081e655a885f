import 'virtual:variables.css';
import '@mantine/core/styles/baseline.css';
import '@mantine/core/styles/global.css';
import '@mantine/core/styles/UnstyledButton.css';
import '@mantine/core/styles/VisuallyHidden.css';
import '@mantine/core/styles/ScrollArea.css';
import '@mantine/core/styles/Paper.css';
import '@mantine/core/styles/Popover.css';
import '@mantine/core/styles/CloseButton.css';
import '@mantine/core/styles/Group.css';
import '@mantine/core/styles/Loader.css';
import '@mantine/core/styles/Overlay.css';
import '@mantine/core/styles/ModalBase.css';
import '@mantine/core/styles/Modal.css';
import '@mantine/core/styles/Input.css';
import '@mantine/core/styles/InlineInput.css';
import '@mantine/core/styles/PasswordInput.css';
import '@mantine/core/styles/NumberInput.css';
import '@mantine/core/styles/Combobox.css';
import '@mantine/core/styles/Checkbox.css';
import '@mantine/core/styles/SegmentedControl.css';
import '@mantine/core/styles/FloatingIndicator.css';
import '@mantine/core/styles/ActionIcon.css';
import '@mantine/core/styles/Button.css';
import './theme/tokens.css';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { meQuery } from './api/people';
import { cache } from './live/live';
import { ask, begin, router } from './routes';
import { SignInPage } from './shell/door';
import { renew } from './shell/renew';
import { nonce } from './theme/nonce';
import { Themed } from './theme/Themed';

setNonce(nonce()); // for what locks scrolling behind a dialog

const place = document.getElementById('root');

window.addEventListener('vite:preloadError', () => void renew());

// What is drawn first is the page itself, once: who asks and the page's own file come while the rest is made. What takes long is not waited for: then the
// page says so itself.
const who = cache.prefetchQuery(meQuery).then(() => {
  const me = cache.getQueryData(meQuery.queryKey);
  if (me === null) return SignInPage.preload();
  if (me) ask(window.location.pathname, window.location.search);
  return undefined;
});
const ready = Promise.allSettled([begin(window.location.pathname), who, router.load()]);
const patience = new Promise((resolve) => setTimeout(resolve, 1500));

void Promise.race([ready, patience]).then(() => {
  if (place === null) return;
  createRoot(place).render(
    <StrictMode>
      <Themed>
        <QueryClientProvider client={cache}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </Themed>
    </StrictMode>,
  );
});
