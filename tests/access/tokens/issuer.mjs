// An OAuth 2.1 authorization server of another project (npm oidc-provider): the outside issuer of tests.
//
//   node issuer.mjs <folder that holds node_modules> <port> <file with its private keys, a JWK set> [seconds of a token]
//     [file with further clients and the claims of people, which is read for each sign-in]
//
// The first key of the file signs. `POST /test/keys` reads the file again (rotation). `POST /test/down` and
// `POST /test/up` switch its answers off and on; `GET /test/counts` counts the requests by path.
// A resource whose URL ends in `opaque` gets opaque tokens. A person signs in with any name.
// Token exchange (RFC 8693, `exchange.mjs`) gives access tokens for another audience, and identity assertions (ID-JAG).
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { TOKEN_EXCHANGE, addTokenExchange } from './exchange.mjs';

const [folder, port, keys, seconds = '600', more = ''] = process.argv.slice(2);
const { Provider, errors } = await import(pathToFileURL(join(folder, 'node_modules/oidc-provider/lib/index.js')));
const jose = await import(pathToFileURL(join(folder, 'node_modules/jose/dist/webapi/index.js')));
const url = `http://127.0.0.1:${port}`;

const known = () => (more ? JSON.parse(readFileSync(more, 'utf-8')) : { clients: [], people: {} });
const claimsOf = (id) => ({ sub: id, name: `Name of ${id}`, groups: ['research'], ...known().people[id] });

function makeProvider() {
  const jwks = JSON.parse(readFileSync(keys, 'utf-8'));
  const provider = new Provider(url, {
    jwks,
    clients: [
      {
        client_id: 'robot', client_secret: 'robot-secret', grant_types: ['client_credentials'],
        redirect_uris: [], response_types: []
      },
      ...(jwks.keys[0].kty === 'EC' ? [{
        client_id: 'signer', grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
        token_endpoint_auth_method: 'private_key_jwt',
        jwks: { keys: jwks.keys.slice(0, 1).map(({ d, ...rest }) => rest) } // the first key also signs for this client
      }] : []),
      {
        client_id: 'exchanger', client_secret: 'exchanger-secret', response_types: ['code'],
        grant_types: ['authorization_code', TOKEN_EXCHANGE], redirect_uris: ['http://127.0.0.1:9/callback']
      },
      {
        client_id: 'hub', client_secret: 'hub: secret/%', grant_types: [], redirect_uris: [], response_types: []
      },
      ...known().clients
    ],
    cookies: { keys: ['a key of a test'] },
    claims: { openid: ['sub', 'name', 'groups'], email: ['email', 'email_verified'] },
    scopes: ['openid', 'offline_access', 'email', 'mcp:use', 'mcp:more'],
    enabledJWA: { dPoPSigningAlgValues: ['ES256', 'Ed25519'] },
    findAccount: (_, id) => ({ accountId: id, claims: () => claimsOf(id) }),
    extraTokenClaims: (_, token) => (token.accountId ? { ...claimsOf(token.accountId), sub: undefined } : { groups: ['machines'] }),
    fetch: (url, { dispatcher, ...options }) => fetch(url, options), // the hub of a test is at a loopback address
    rotateRefreshToken: true,
    issueRefreshToken: () => true,
    features: {
      backchannelLogout: { enabled: true },
      clientCredentials: { enabled: true },
      dPoP: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => ({
          scope: 'mcp:use mcp:more',
          audience: resource,
          accessTokenTTL: Number(seconds),
          ...(resource.endsWith('opaque')
            ? { accessTokenFormat: 'opaque' }
            : { accessTokenFormat: 'jwt', jwt: { sign: { alg: jwks.keys[0].alg, kid: jwks.keys[0].kid } } })
        })
      },
      revocation: { enabled: true, allowedPolicy: () => true }
    },
    ttl: { AccessToken: Number(seconds), ClientCredentials: 600, Session: 3600, Grant: 3600, Interaction: 3600, RefreshToken: 3600 }
  });
  addTokenExchange(provider, errors, jose, jwks, url);
  provider.on('server_error', (_, error) => console.error(error));
  provider.on('backchannel.error', (_, error) => console.error(error));
  return provider.callback();
}

let answer = makeProvider();
let isDown = false;
const counts = {};

const controls = {
  '/test/keys': () => { answer = makeProvider(); return {}; },
  '/test/down': () => { isDown = true; return {}; },
  '/test/up': () => { isDown = false; return {}; },
  '/test/counts': () => counts
};

createServer((request, response) => {
  const path = request.url.split('?')[0];
  if (controls[path]) {
    response.end(JSON.stringify(controls[path]()));
  } else {
    counts[path] = (counts[path] ?? 0) + 1;
    if (isDown) {
      response.statusCode = 503;
      response.end();
    } else {
      answer(request, response);
    }
  }
}).listen(Number(port), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
