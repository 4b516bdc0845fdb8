// The official TypeScript SDK calls the tool `echo` as a program: with a client secret, then with a signed assertion.
//
//   node program_client.mjs <folder that holds node_modules>
//   in: JSON with secret, key, issuer and endpoint; out: the result of the tool, twice
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const require = createRequire(join(process.argv[2], 'package.json'));
const {
  Client, StreamableHTTPClientTransport, ClientCredentialsProvider, PrivateKeyJwtProvider
} = require('@modelcontextprotocol/client');
const { secret, key, issuer, endpoint } = JSON.parse(readFileSync(0, 'utf8'));

const providers = [
  new ClientCredentialsProvider({ clientId: 'typescript', clientSecret: secret, expectedIssuer: issuer }),
  new PrivateKeyJwtProvider({
    clientId: 'typescript-signer', privateKey: key, algorithm: 'ES256', expectedIssuer: issuer
  })
];
for (const authProvider of providers) {
  const client = new Client({ name: 'patchbay-tests', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { authProvider }));
  const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
  process.stdout.write(result.content[0].text + '\n');
  await client.close();
}
