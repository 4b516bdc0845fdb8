// Token exchange (RFC 8693) as a grant of oidc-provider: access tokens for another audience, and identity assertions
// (ID-JAG, draft-ietf-oauth-identity-assertion-authz-grant). The subject is the one of a token of this issuer.
// A subject whose name begins with `left-` is refused, as one whose account ended.
import { randomUUID } from 'node:crypto';

export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const TYPES = 'urn:ietf:params:oauth:token-type:';
const PARAMETERS = ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'resource', 'scope'];
const PRIVATE = ['d', 'p', 'q', 'dp', 'dq', 'qi'];

export function addTokenExchange(provider, errors, jose, jwks, url) {
  const publicKeys = jose.createLocalJWKSet({
    keys: jwks.keys.map((key) => Object.fromEntries(Object.entries(key).filter(([name]) => !PRIVATE.includes(name))))
  });

  async function findSubject({ params, client }) {
    const isIdToken = params.subject_token_type === `${TYPES}id_token`;
    if (!isIdToken && params.subject_token_type !== `${TYPES}access_token`) {
      throw new errors.InvalidRequest('subject_token_type is not supported');
    }
    try {
      const audience = isIdToken ? { audience: client.clientId } : {};
      const { payload } = await jose.jwtVerify(params.subject_token, publicKeys, { issuer: url, ...audience });
      if (payload.sub.startsWith('left-')) throw new Error('the account ended');
      return payload;
    } catch (problem) {
      throw new errors.InvalidGrant(`subject_token: ${problem.message}`);
    }
  }

  async function signAssertion({ params, client }, subject) {
    const key = jwks.keys[0];
    return new jose.SignJWT({ client_id: client.clientId, resource: params.resource, scope: params.scope, groups: ['research'] })
      .setProtectedHeader({ typ: 'oauth-id-jag+jwt', alg: key.alg, kid: key.kid })
      .setIssuer(url).setSubject(subject.sub).setAudience(params.audience).setJti(randomUUID())
      .setIssuedAt().setExpirationTime('5m').sign(await jose.importJWK(key));
  }

  async function makeAccessToken(ctx, subject) {
    const { params, client } = ctx.oidc;
    const token = new provider.AccessToken({ accountId: subject.sub, client, gty: 'token_exchange', scope: params.scope });
    const audience = params.audience ?? params.resource;
    token.resourceServer = new provider.ResourceServer(audience, {
      audience, scope: params.scope, accessTokenFormat: 'jwt', jwt: { sign: { alg: jwks.keys[0].alg } }
    });
    ctx.oidc.entity('AccessToken', token);
    return { value: await token.save(), seconds: token.expiration };
  }

  provider.registerGrantType(TOKEN_EXCHANGE, async (ctx) => {
    const { params } = ctx.oidc;
    const subject = await findSubject(ctx.oidc);
    if (params.requested_token_type === `${TYPES}id-jag`) {
      ctx.body = {
        access_token: await signAssertion(ctx.oidc, subject), token_type: 'N_A', expires_in: 300,
        issued_token_type: params.requested_token_type
      };
    } else {
      const { value, seconds } = await makeAccessToken(ctx, subject);
      ctx.body = {
        access_token: value, token_type: 'Bearer', expires_in: seconds, issued_token_type: `${TYPES}access_token`
      };
    }
  }, PARAMETERS);
}
