// The authorization server of another project (oidc-provider), with a person who always agrees.
//
//     node provider.mjs MODULE PORT RESOURCE FORMAT SECONDS
//
// FORMAT is `jwt` or `opaque`, SECONDS how long an access token lasts. GET /counts tells how often
// each grant was used.

const [, , module, port, resource, format, seconds] = process.argv;
const { default: Provider, errors } = await import(module);

const issuer = `http://127.0.0.1:${port}`;
const counts = {};

function about(ctx, indicator) {
  if (indicator !== resource && indicator !== 'https://elsewhere.example/mcp') {
    throw new errors.InvalidTarget();
  }
  return {
    scope: 'tools',
    audience: indicator,
    accessTokenFormat: format,
    accessTokenTTL: Number(seconds),
    jwt: { sign: { alg: 'RS256' } },
  };
}

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'gateway',
      client_secret: 'not-a-secret-of-anybody',
      token_endpoint_auth_method: 'client_secret_basic',
      redirect_uris: [],
      response_types: [],
      grant_types: ['client_credentials'],
    },
  ],
  cookies: { keys: ['a test'] },
  scopes: ['openid', 'offline_access', 'tools'],
  responseTypes: ['code'],
  pkce: { required: () => true },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (ctx, interaction) => `/agree/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    deviceFlow: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      getResourceServerInfo: about,
      useGrantedResource: () => true,
    },
  },
});

provider.on('grant.success', (ctx) => {
  const kind = ctx.oidc.params.grant_type;
  counts[kind] = (counts[kind] ?? 0) + 1;
});

provider.use(async (ctx, next) => {
  if (ctx.path === '/counts') {
    ctx.body = counts;
    return;
  }
  if (!ctx.path.startsWith('/agree/')) {
    await next();
    return;
  }
  const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
  if (prompt.name === 'login') {
    await provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: 'ana' } });
    ctx.respond = false;
    return;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope('openid offline_access tools');
  for (const indicator of [params.resource ?? resource].flat()) {
    grant.addResourceScope(indicator, 'tools');
  }
  const result = { consent: { grantId: await grant.save() } };
  await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: true });
  ctx.respond = false;
});

provider.listen(Number(port), '127.0.0.1');
