import { type Notice, Stream } from './stream';

// One for all tabs of a browser: HTTP/1.1 gives a site six connections, and a stream a tab would use them up.
const ports: MessagePort[] = [];
let stream: Stream | undefined;

function tell(n: Notice): void {
  for (const p of ports) p.postMessage(n);
}

addEventListener('connect', (e) => {
  if (!(e instanceof MessageEvent)) return;
  const port = e.ports[0];
  if (port === undefined) return;
  ports.push(port);
  port.onmessage = () => stream?.hurry();
  if (stream === undefined) stream = new Stream(tell);
  else {
    stream.again();
    stream.hurry(); // whoever opens a page may have signed in
  }
});
