// The client of @ai-sdk/mcp with events: list, subscribe, refresh, unsubscribe; and the official client's own requests.
//
//   node events.mjs <folder that holds node_modules> <url of an endpoint> <event> <callback url>
//   out: one JSON object
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, url, name, callback] = process.argv.slice(2);
const require = createRequire(join(folder, 'package.json'));
const load = async module => import(pathToFileURL(require.resolve(module)).href);
const { createMCPClient } = await load('@ai-sdk/mcp');

const rows = new Map();
const store = {
  get: async key => rows.get(key),
  getById: async id => [...rows.values()].find(row => row.id === id),
  set: async row => void rows.set(row.key, row),
  update: async (key, change) => void rows.set(key, { ...rows.get(key), ...change }),
  delete: async key => void rows.delete(key)
};
const client = await createMCPClient({ transport: { type: 'http', url }, experimental_events: { store } });
try {
  const events = client.experimental_events;
  const listed = (await events.list()).events.map(event => event.name);
  const found = { listed };
  if (callback) {
    const secret = process.env.EVENT_SECRET;
    const made = await events.subscribe({ name, delivery: { mode: 'webhook', url: callback, secret } });
    const again = await events.refresh({ id: made.id });
    found.id = made.id;
    found.refreshed = again.id === made.id;
    if (process.env.EVENT_END) await events.unsubscribe({ id: made.id });
  }
  console.log(JSON.stringify(found));
} finally {
  await client.close();
}
