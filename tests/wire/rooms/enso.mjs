// WebSocket clients made with npm `ws`, framed as the published Enso reference frames its messages, driven by lines of
// JSON on the standard input. One process serves a whole test run; each client has a name.
//
//   node enso.mjs <folder that holds node_modules>
//   in:  {"client": "a", "open": "ws://..."}          out: {"client": "a", "opened": true}
//        {"client": "a", "hello": {...}}                   {"client": "a", "frame": {...}}
//        {"client": "a", "event": "chat.msg", "payload": {...}, "id": "..."}
//        {"client": "a", "text": "..."}, {"client": "a", "bytes": "<base64>"}, {"client": "a", "ping": "..."}
//        {"client": "a", "close": true}                    {"client": "a", "closed": [1011, "..."]}
//        {"client": "a", "terminate": true}                ends the connection without a close
import { createRequire } from 'node:module';
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const require = createRequire(join(process.argv[2], 'package.json'));
const WebSocket = require('ws');
const sockets = new Map();

const say = value => process.stdout.write(JSON.stringify(value) + '\n');
const frame = (socket, value) =>
  socket.send(
    JSON.stringify(value, (_, one) =>
      one && one.bytes64 ? { __enso_binary__: Buffer.from(one.bytes64, 'base64').toString('base64') } : one
    )
  );

function open(client, url) {
  const socket = new WebSocket(url);
  sockets.set(client, socket);
  socket.on('open', () => say({ client, opened: true }));
  socket.on('message', data => say({ client, frame: JSON.parse(String(data)) }));
  socket.on('close', (code, reason) => say({ client, closed: [code, String(reason)] }));
  socket.on('unexpected-response', (_, response) => say({ client, refused: response.statusCode }));
  socket.on('error', () => {});
}

for await (const line of createInterface({ input: process.stdin })) {
  const { client, ...asked } = JSON.parse(line);
  const socket = sockets.get(client);
  if (asked.open) open(client, asked.open);
  else if (asked.hello) frame(socket, { type: 'hello', payload: asked.hello });
  else if (asked.ping) frame(socket, { type: 'ping', ts: asked.ping });
  else if (asked.text) socket.send(asked.text);
  else if (asked.bytes) socket.send(Buffer.from(asked.bytes, 'base64'));
  else if (asked.close) socket.close();
  else if (asked.terminate) socket.terminate();
  else if (asked.event) {
    const envelope = { id: asked.id ?? randomUUID(), ts: new Date().toISOString(), room: 'local', from: 'enso-client' };
    frame(socket, { type: 'envelope', payload: { ...envelope, kind: 'event', type: asked.event, payload: asked.payload } });
  }
}
process.exit(0);
