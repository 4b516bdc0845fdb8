// The official TypeScript SDK exchanges an ID token for an identity assertion, and calls the tool `echo` with it.
//
//   node assertion_client.mjs <folder that holds node_modules>
//   in: JSON with idp, idToken, idpClient, hubClient, issuer and endpoint; out: the result of the tool
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const require = createRequire(join(process.argv[2], 'package.json'));
const {
  Client, StreamableHTTPClientTransport, CrossAppAccessProvider, discoverAndRequestJwtAuthGrant
} = require('@modelcontextprotocol/client');
const { idp, idToken, idpClient, hubClient, issuer, endpoint } = JSON.parse(readFileSync(0, 'utf8'));

const authProvider = new CrossAppAccessProvider({
  ...hubClient,
  expectedIssuer: issuer,
  assertion: async (context) => {
    const { jwtAuthGrant } = await discoverAndRequestJwtAuthGrant({
      idpUrl: idp, audience: context.authorizationServerUrl, resource: context.resourceUrl, idToken,
      ...idpClient, scope: context.scope, fetchFn: context.fetchFn
    });
    return jwtAuthGrant;
  }
});
const client = new Client({ name: 'patchbay-tests', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(endpoint), { authProvider }));
const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } });
process.stdout.write(result.content[0].text + '\n');
await client.close();
