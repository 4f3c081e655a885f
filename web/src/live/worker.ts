import { Stream } from './stream';
import { type Asked, Tabs } from './tabs';

// One for all tabs of a browser: HTTP/1.1 gives a site six connections, and a stream a tab would use them up.
const tabs = new Tabs(navigator.locks);
let stream: Stream | undefined;

addEventListener('connect', (e) => {
  if (!(e instanceof MessageEvent)) return;
  const port = e.ports[0];
  if (port === undefined) return;
  tabs.add(port);
  port.onmessage = (m: MessageEvent<Asked>) => {
    if (m.data.kind === 'holds') tabs.until(port, m.data.lock);
    else stream?.hurry();
  };
  if (stream === undefined) stream = new Stream((n) => tabs.tell(n));
  else {
    stream.again();
    stream.hurry(); // whoever opens a page may have signed in
  }
});
