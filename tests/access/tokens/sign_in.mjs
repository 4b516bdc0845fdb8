// The official TypeScript SDKs' clients sign a person in from an empty home, and call the tool `echo`.
//
//   node sign_in.mjs <folder that holds node_modules> <legacy | 2026-07-28 | sdk-1> <address of the server>
//   out: the page to show to the person; in: the URL that the browser comes back to; out: the result of the tool
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline/promises';
import { join } from 'node:path';

const [folder, mode, url] = process.argv.slice(2);
const require = createRequire(join(folder, 'package.json'));
const { Client, StreamableHTTPClientTransport } = mode === 'sdk-1' ? {
  ...require('@modelcontextprotocol/sdk/client/index.js'),
  ...require('@modelcontextprotocol/sdk/client/streamableHttp.js')
} : require('@modelcontextprotocol/client');
const options = mode === '2026-07-28' ? { versionNegotiation: { mode: { pin: mode } } } : {};
const lines = createInterface({ input: process.stdin });

const kept = {};
const authProvider = {
  redirectUrl: 'http://127.0.0.1:9/callback',
  clientMetadata: {
    client_name: 'a client of tests',
    redirect_uris: ['http://127.0.0.1:9/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none'
  },
  state: () => 'a state of a test',
  clientInformation: () => kept.client,
  saveClientInformation: client => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: tokens => { kept.tokens = tokens; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: verifier => { kept.verifier = verifier; },
  discoveryState: () => kept.discovery,
  saveDiscoveryState: discovery => { kept.discovery = discovery; },
  redirectToAuthorization: page => { kept.page = page.href; }
};

const makeTransport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider });
const makeClient = () => new Client({ name: 'patchbay-tests', version: '1' }, options);

const first = makeTransport();
try {
  await makeClient().connect(first);
  throw new Error('the hub asked for no sign-in');
} catch (error) {
  if (!kept.page) throw error;
}
process.stdout.write(kept.page + '\n');
const { value: back } = await lines[Symbol.asyncIterator]().next();
const query = new URL(back).searchParams;
if (query.get('state') !== 'a state of a test') throw new Error('another state came back');
await first.finishAuth(mode === 'sdk-1' ? query.get('code') : query);

const client = makeClient();
await client.connect(makeTransport());
const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
process.stdout.write(result.content[0].text + '\n');
await client.close();
lines.close();
