"""The tokens that providers hand out, as a table: how each begins and goes on.

A row is found where one of its beginnings stands at a boundary and `rest` matches behind it.
Secrets that are known by what stands beside them (headers, assignments, URLs, key blocks) are in
`contexts`, `assignments` and `key_blocks`.
"""

from __future__ import annotations

from typing import Literal

import attrs

Action = Literal["block", "redact"]

W = "[A-Za-z0-9]"
U = "[A-Za-z0-9_-]"
H = "[0-9a-f]"
B = "[A-Za-z0-9+/]"
UUID = f"{H}{{8}}-{H}{{4}}-{H}{{4}}-{H}{{4}}-{H}{{12}}"


@attrs.frozen
class TokenPattern:
    """One kind of token."""

    kind: str
    title: str
    begins: str
    """The beginnings, separated by blanks."""
    rest: str
    """A regular expression for what follows; a group `secret` narrows what is hidden."""
    action: Action = "block"
    loose: bool = False
    """The shape alone says little: the rest must also look random."""
    before: str = ""
    """A regular expression for what must stand in front, for tokens known by their middle."""


def _exactly(cls: str, count: int) -> str:
    return f"{cls}{{{count}}}(?!{W})"


def _at_least(cls: str, count: int) -> str:
    # Bounded, so that hostile text cannot make every hit read all that follows.
    return f"{cls}{{{count},400}}"


PROVIDERS = (
    # models
    TokenPattern(
        "openai_api_key", "OpenAI, and keys of the same form", "sk-", _at_least(U, 20), loose=True
    ),
    TokenPattern(
        "anthropic_api_key", "Anthropic", "sk-ant-", f"[a-z]+[0-9]{{2}}-{_at_least(U, 60)}"
    ),
    TokenPattern("openrouter_api_key", "OpenRouter", "sk-or-v1-", _exactly(H, 64)),
    TokenPattern("google_api_key", "Google API", "AIza", f"{_at_least(U, 35)}"),
    TokenPattern("gemini_api_key", "Gemini API", "AQ.Ab", _at_least(U, 40)),
    TokenPattern("groq_api_key", "Groq", "gsk_", _at_least(W, 48)),
    TokenPattern("xai_api_key", "xAI", "xai-", _at_least(W, 60)),
    TokenPattern("huggingface_token", "Hugging Face", "hf_ api_org_", _at_least(W, 30)),
    TokenPattern("replicate_token", "Replicate", "r8_", _at_least(W, 37)),
    TokenPattern("perplexity_api_key", "Perplexity", "pplx-", _at_least(W, 40)),
    TokenPattern("nvidia_api_key", "NVIDIA", "nvapi-", _at_least(U, 60)),
    TokenPattern("fireworks_api_key", "Fireworks", "fw_", _at_least(W, 22), loose=True),
    TokenPattern("together_api_key", "Together", "tgp_v1_", _at_least(U, 40)),
    TokenPattern("cerebras_api_key", "Cerebras", "csk-", _at_least(W, 40)),
    TokenPattern("langsmith_api_key", "LangSmith", "lsv2_", f"(?:pt|sk)_{H}{{32}}_{H}{{10}}"),
    TokenPattern("pinecone_api_key", "Pinecone", "pcsk_", _at_least("[A-Za-z0-9_]", 50)),
    TokenPattern("voyage_api_key", "Voyage", "pa-", _at_least(U, 43), loose=True),
    TokenPattern("jina_api_key", "Jina", "jina_", _at_least(U, 50)),
    TokenPattern("tavily_api_key", "Tavily", "tvly-", _at_least(U, 28), loose=True),
    TokenPattern("firecrawl_api_key", "Firecrawl", "fc-", _exactly(H, 32)),
    TokenPattern("elevenlabs_api_key", "ElevenLabs", "sk_", _exactly(H, 48)),
    TokenPattern("e2b_api_key", "E2B", "e2b_ sk_e2b_", _exactly(H, 40)),
    TokenPattern("runpod_api_key", "RunPod", "rpa_", _at_least(W, 40)),
    TokenPattern("browserbase_api_key", "Browserbase", "bb_live_ bb_test_", _at_least(U, 24)),
    TokenPattern("anyscale_api_key", "Anyscale", "esecret_", _at_least(W, 24)),
    TokenPattern("wandb_api_key", "Weights & Biases", "wandb_v1_", _at_least("[A-Za-z0-9_]", 40)),
    TokenPattern("daytona_api_key", "Daytona", "dtn_", _exactly(H, 64)),
    TokenPattern("nearai_session", "NEAR AI session", "sess_ sess-", _at_least(W, 32)),
    # code hosts, and what builds code
    TokenPattern("github_token", "GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", _at_least(W, 36)),
    TokenPattern(
        "github_fine_grained_pat",
        "GitHub, fine-grained",
        "github_pat_",
        _at_least("[A-Za-z0-9_]", 50),
    ),
    TokenPattern(
        "gitlab_token",
        "GitLab",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct- glwt-",
        f"(?:t\\d_)?{_at_least('[A-Za-z0-9_.-]', 20)}",
    ),
    TokenPattern(
        "gitlab_runner_token", "GitLab runner registration", "GR1348941", _at_least(U, 20)
    ),
    TokenPattern(
        "bitbucket_token",
        "Bitbucket",
        "ATBB ATCTT3xFfG",
        _at_least("[A-Za-z0-9_=-]", 24),
        loose=True,
    ),
    TokenPattern("atlassian_token", "Atlassian", "ATATT3xFfG", _at_least("[A-Za-z0-9_=-]", 60)),
    TokenPattern("circleci_token", "CircleCI", "CCIPAT_ CCIPRJ_", _at_least("[A-Za-z0-9_]", 40)),
    TokenPattern("buildkite_token", "Buildkite", "bkua_", _exactly(H, 40)),
    TokenPattern("sonar_token", "SonarQube", "sqp_ squ_ sqa_", _exactly(H, 40)),
    TokenPattern("sourcegraph_token", "Sourcegraph", "sgp_", f"(?:(?:{H}{{16}}|local)_)?{H}{{40}}"),
    TokenPattern("harness_token", "Harness", "pat. sat.", f"{U}{{22}}\\.{W}{{24}}\\.{W}{{20}}"),
    TokenPattern("octopus_api_key", "Octopus Deploy", "API-", _exactly("[A-Z0-9]", 26)),
    TokenPattern("postman_api_key", "Postman", "PMAK-", f"{H}{{24}}-{H}{{34}}"),
    TokenPattern("pulumi_token", "Pulumi", "pul-", _exactly(H, 40)),
    TokenPattern(
        "terraform_token", "Terraform Cloud", ".atlasv1.", _at_least(U, 60), before=f"{W}{{14}}"
    ),
    # package registries
    TokenPattern("npm_token", "npm", "npm_", _at_least(W, 36)),
    TokenPattern("pypi_token", "PyPI", "pypi-AgE", _at_least(U, 50)),
    TokenPattern("rubygems_api_key", "RubyGems", "rubygems_", _exactly(H, 48)),
    TokenPattern("nuget_api_key", "NuGet", "oy2", _exactly("[a-z0-9]", 43)),
    TokenPattern("crates_token", "the Rust package registry", "cio", _exactly(W, 32)),
    TokenPattern("clojars_token", "Clojars", "CLOJARS_", _exactly("[a-z0-9]", 60)),
    TokenPattern("docker_token", "Docker Hub", "dckr_pat_ dckr_oat_", _at_least(U, 27)),
    TokenPattern("artifactory_token", "Artifactory", "AKCp", _at_least(W, 65)),
    TokenPattern(
        "artifactory_reference", "Artifactory reference token", "cmVmdGtu", _at_least(W, 50)
    ),
    TokenPattern("packagist_token", "Packagist", "packagist_ack_ packagist_uut_", _at_least(W, 40)),
    # clouds and hosting
    TokenPattern(
        "aws_access_key", "AWS access key", "AKIA ABIA ACCA A3T", _exactly("[A-Z0-9]", 16)
    ),
    TokenPattern("aws_temporary_key", "AWS temporary access key", "ASIA", _exactly("[A-Z0-9]", 16)),
    TokenPattern(
        "aws_session_token",
        "AWS session token",
        "IQoJb3JpZ2lu FwoGZXIvYXdz",
        _at_least("[A-Za-z0-9+/=%]", 100),
    ),
    TokenPattern(
        "aws_bedrock_key",
        "Amazon Bedrock",
        "ABSKQmVkcm9ja0FQSUtleS bedrock-api-key-YmVkcm9jay",
        _at_least("[A-Za-z0-9+/=]", 40),
    ),
    TokenPattern("google_oauth_secret", "Google OAuth client", "GOCSPX-", _at_least(U, 24)),
    TokenPattern("google_oauth_token", "Google OAuth access token", "ya29.", _at_least(U, 20)),
    TokenPattern("google_refresh_token", "Google OAuth refresh token", "1//0", _at_least(U, 36)),
    TokenPattern(
        "firebase_server_key",
        "Firebase messaging",
        ":APA91b",
        _at_least(U, 100),
        before=f"AAAA{U}{{7}}",
    ),
    TokenPattern(
        "azure_storage_key",
        "Azure storage",
        "AccountKey= AccountKey%3D",
        f"(?P<secret>{B}{{86}}(?:==|%3D%3D)?)",
    ),
    TokenPattern(
        "azure_shared_access_key",
        "Azure shared access",
        "SharedAccessKey= accessKey=",
        f"(?P<secret>{B}{{43}}=?)",
        action="redact",
    ),
    TokenPattern(
        "azure_shared_access_signature",
        "Azure shared access signature",
        "?sig= &sig=",
        "(?P<secret>[A-Za-z0-9%+/]{43,100}(?:%3[Dd]|=))",
        action="redact",
    ),
    TokenPattern(
        "azure_client_secret",
        "Microsoft Entra client",
        "Q~",
        "[A-Za-z0-9_~.-]{31,36}",
        before="[A-Za-z0-9_~.]{3}[0-9]",
    ),
    TokenPattern("azure_devops_token", "Azure DevOps", "AZDO", _exactly(W, 4), before=f"{W}{{76}}"),
    TokenPattern("digitalocean_token", "DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", _exactly(H, 64)),
    TokenPattern("alibaba_access_key", "Alibaba Cloud", "LTAI", f"{W}{{12,26}}(?!{W})", loose=True),
    TokenPattern("tencent_secret_id", "Tencent Cloud", "AKID", f"{W}{{28,44}}(?!{W})", loose=True),
    TokenPattern("yandex_api_key", "Yandex Cloud", "AQVN YCAJ YCM", _at_least(U, 30), loose=True),
    TokenPattern(
        "scaleway_access_key",
        "Scaleway",
        "SCW",
        _exactly("[A-Z0-9]", 17),
        action="redact",
        loose=True,
    ),
    TokenPattern("cloudflare_token", "Cloudflare", "cfut_ cfat_ cfk_", _at_least(U, 40)),
    TokenPattern(
        "cloudflare_origin_key", "Cloudflare origin CA", "v1.0-", f"{H}{{24}}-{H}{{100,160}}"
    ),
    TokenPattern("heroku_api_key", "Heroku", "HRKU-", _at_least(U, 36)),
    TokenPattern(
        "flyio_token", "Fly.io", "fo1_ fm1r_ fm1a_ fm2_", _at_least("[A-Za-z0-9+/=_,-]", 40)
    ),
    TokenPattern("render_api_key", "Render", "rnd_", _at_least(W, 28), loose=True),
    TokenPattern(
        "vercel_token",
        "Vercel",
        "vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_",
        _at_least("[A-Za-z0-9_]", 24),
        loose=True,
    ),
    TokenPattern("netlify_token", "Netlify", "nfp_ nfc_ nfo_ nfu_ nfb_", _at_least(W, 36)),
    TokenPattern("supabase_key", "Supabase", "sbp_ sb_secret_", _at_least(U, 31), loose=True),
    TokenPattern(
        "planetscale_token",
        "PlanetScale",
        "pscale_tkn_ pscale_pw_ pscale_oauth_",
        _at_least("[A-Za-z0-9_.=-]", 32),
    ),
    TokenPattern("neon_api_key", "Neon", "napi_", _at_least(W, 60)),
    TokenPattern("mongodb_service_key", "MongoDB Atlas", "mdb_sa_sk_", _at_least(U, 36)),
    TokenPattern("databricks_token", "Databricks", "dapi dose dkea", f"{H}{{32}}(?:-\\d)?(?!{W})"),
    TokenPattern("aiven_token", "Aiven", "aivenv1", _at_least("[A-Za-z0-9+/=]", 100)),
    TokenPattern("tailscale_key", "Tailscale", "tskey-", f"[a-z]+-{_at_least(U, 20)}"),
    TokenPattern("rancher_token", "Rancher", "token-", f"[a-z0-9]{{5}}:{_exactly('[a-z0-9]', 54)}"),
    # secret managers and keys
    TokenPattern("vault_token", "HashiCorp Vault", "hvs. hvb. hvr.", _at_least(U, 24)),
    TokenPattern(
        "doppler_token",
        "Doppler",
        "dp.pt. dp.st. dp.sa. dp.ct. dp.scim. dp.audit.",
        f"(?:[a-z0-9_-]{{2,35}}\\.)?{_at_least(W, 40)}",
    ),
    TokenPattern(
        "onepassword_token",
        "1Password service account",
        "ops_eyJ",
        _at_least("[A-Za-z0-9_=-]", 100),
    ),
    TokenPattern(
        "onepassword_secret_key",
        "1Password secret key",
        "A3-",
        "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
    ),
    TokenPattern(
        "age_secret_key", "age", "AGE-SECRET-KEY-1 AGE-PLUGIN-", _at_least("[A-Z0-9-]", 50)
    ),
    TokenPattern(
        "bip32_private_key", "BIP 32 extended key", "xprv yprv zprv tprv", _exactly(W, 107)
    ),
    TokenPattern("nostr_private_key", "Nostr", "nsec1", _exactly("[a-z0-9]", 58)),
    # monitoring
    TokenPattern(
        "grafana_token", "Grafana", "glsa_ glc_", _at_least("[A-Za-z0-9_+/=-]", 32), loose=True
    ),
    TokenPattern("sentry_token", "Sentry", "sntrys_eyJ", _at_least("[A-Za-z0-9+/=_-]", 60)),
    TokenPattern("sentry_user_token", "Sentry", "sntryu_ sntrya_", _exactly(H, 64)),
    TokenPattern(
        "newrelic_key", "New Relic", "NRAK- NRAA- NRII- NRIQ- NRRA- NRSP-", _at_least(U, 27)
    ),
    TokenPattern(
        "honeycomb_key",
        "Honeycomb",
        "hcaik_ hcbik_ hccik_ hcaic_ hcxik_",
        _at_least("[a-z0-9]", 58),
    ),
    TokenPattern(
        "dynatrace_token",
        "Dynatrace",
        "dt0c01. dt0s01. dt0s02. dt0s16.",
        "[A-Z0-9]{8,24}\\.[A-Z0-9]{64}",
    ),
    TokenPattern("launchdarkly_key", "LaunchDarkly", "sdk- api-", UUID, action="redact"),
    TokenPattern("posthog_key", "PostHog", "phx_ phs_", _at_least(W, 40)),
    TokenPattern("statsig_key", "Statsig", "secret-", _exactly(W, 40), loose=True),
    # work and content
    TokenPattern("linear_api_key", "Linear", "lin_api_ lin_oauth_ lin_wh_", _at_least(W, 32)),
    TokenPattern("notion_token", "Notion", "ntn_ secret_", _at_least(W, 43)),
    TokenPattern("figma_token", "Figma", "figd_ figo_ figp_", _at_least(U, 36)),
    TokenPattern("dropbox_token", "Dropbox", "sl.", f"(?:u\\.)?{_at_least(U, 100)}"),
    TokenPattern("clickup_token", "ClickUp", "pk_", f"\\d{{6,10}}_{_exactly('[A-Z0-9]', 32)}"),
    TokenPattern("trello_token", "Trello", "ATTA", _at_least("[0-9A-Za-z]", 60)),
    TokenPattern("contentful_token", "Contentful", "CFPAT-", _at_least(U, 40)),
    TokenPattern("typeform_token", "Typeform", "tfp_", _at_least("[A-Za-z0-9_.=-]", 40)),
    TokenPattern("readme_key", "ReadMe", "rdme_", _exactly("[a-z0-9]", 70)),
    TokenPattern("adafruit_key", "Adafruit IO", "aio_", _exactly(W, 28)),
    TokenPattern("prefect_key", "Prefect", "pnu_ pnb_", _exactly(W, 36)),
    TokenPattern("dbt_token", "dbt", "dbtc_ dbtu_ dbts_", _at_least("[A-Za-z0-9_=-]", 36)),
    TokenPattern("apify_token", "Apify", "apify_api_", _at_least(W, 34)),
    TokenPattern("n8n_key", "n8n", "n8n_api_", _exactly(H, 80)),
    TokenPattern("hubspot_token", "HubSpot", "pat-na pat-eu", f"\\d-{UUID}"),
    TokenPattern(
        "mapbox_token",
        "Mapbox secret token",
        "sk.eyJ1 tk.eyJ1",
        f"{_at_least(U, 40)}\\.{U}{{20,60}}",
    ),
    TokenPattern("maxmind_key", "MaxMind", "_mmk", f"(?!{W})", before=f"{W}{{6}}_{W}{{29}}"),
    # messages and mail
    TokenPattern(
        "slack_token",
        "Slack",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxp- xoxr- xoxs-",
        _at_least("[A-Za-z0-9._%-]", 10),
    ),
    TokenPattern(
        "slack_app_token", "Slack app", "xapp- xwfp-", f"\\d-{_at_least('[A-Za-z0-9-]', 20)}"
    ),
    TokenPattern(
        "slack_webhook",
        "Slack webhook",
        "hooks.slack.com/",
        f"(?:services|workflows|triggers)/{W}{{6,}}/{W}{{6,}}(?:/{W}{{12,}})+",
    ),
    TokenPattern(
        "teams_webhook",
        "Microsoft Teams webhook",
        ".webhook.office.com/",
        f"webhookb2/{UUID}@{UUID}/[A-Za-z0-9/_-]{{30,200}}",
        before="[a-z0-9]",
    ),
    TokenPattern(
        "discord_webhook",
        "Discord webhook",
        "https://discord.com/api/webhooks/ https://discordapp.com/api/webhooks/",
        f"\\d{{17,20}}/{_at_least(U, 60)}",
    ),
    TokenPattern(
        "discord_bot_token",
        "Discord bot",
        "MT MD MC Mj Mz ND NT Nj Nz OD OT",
        f"{W}{{21,28}}\\.{U}{{6}}\\.{U}{{27,45}}(?!{W})",
    ),
    TokenPattern(
        "telegram_bot_token", "Telegram bot", ":A", f"{U}{{33,34}}(?!{W})", before="[0-9]{8,10}"
    ),
    TokenPattern("sendgrid_api_key", "SendGrid", "SG.", f"{U}{{16,32}}\\.{U}{{32,64}}"),
    TokenPattern("mailgun_key", "Mailgun", "key-", _exactly(H, 32), before="[^-A-Za-z0-9]"),
    TokenPattern("mailchimp_key", "Mailchimp", "-us", f"\\d{{1,2}}(?!{W})", before=f"{H}{{32}}"),
    TokenPattern("brevo_key", "Brevo", "xkeysib- xsmtpsib-", f"{H}{{64}}-{W}{{16}}"),
    TokenPattern("resend_key", "Resend", "re_", f"{W}{{6,10}}_{W}{{20,30}}(?!{W})"),
    TokenPattern("twilio_api_key", "Twilio", "SK", _exactly("[0-9a-fA-F]", 32)),
    TokenPattern(
        "meta_access_token",
        "Facebook, Instagram, WhatsApp",
        "EAA IGQ",
        # Not in the middle of base64, where runs of A are common.
        f"(?<![+/]EAA)(?<![+/]IGQ){_at_least(W, 60)}",
    ),
    # payment and shops
    TokenPattern("stripe_api_key", "Stripe", "sk_live_ sk_test_", _at_least(W, 16)),
    TokenPattern(
        "stripe_restricted_key", "Stripe, restricted", "rk_live_ rk_test_", _at_least(W, 16)
    ),
    TokenPattern(
        "stripe_webhook_secret", "Stripe webhook", "whsec_", _at_least("[A-Za-z0-9+/=]", 24)
    ),
    TokenPattern(
        "stripe_client_secret",
        "Stripe payment",
        "pi_ seti_",
        f"{W}{{14,30}}_secret_{W}{{16,40}}",
        action="redact",
    ),
    TokenPattern("square_access_token", "Square", "EAAA", f"(?<![+/]EAAA){_at_least(U, 60)}"),
    TokenPattern("square_token", "Square", "sq0atp- sq0csp-", _at_least(U, 22)),
    TokenPattern(
        "paypal_token", "PayPal", "access_token$", f"(?:production|sandbox)\\${W}{{16}}\\${H}{{32}}"
    ),
    TokenPattern(
        "plaid_token", "Plaid", "access-sandbox- access-development- access-production-", UUID
    ),
    TokenPattern(
        "flutterwave_key", "Flutterwave", "FLWSECK- FLWSECK_TEST-", _at_least("[A-Za-z0-9-]", 32)
    ),
    TokenPattern(
        "shopify_token",
        "Shopify",
        "shpat_ shpca_ shppa_ shpss_ shptka_ shpua_",
        _exactly("[0-9a-fA-F]", 32),
    ),
    TokenPattern("woocommerce_key", "WooCommerce", "ck_ cs_", _exactly(H, 40)),
    TokenPattern("easypost_key", "EasyPost", "EZAK EZTK", _at_least(W, 50)),
    TokenPattern("shippo_token", "Shippo", "shippo_live_ shippo_test_", _exactly(H, 40)),
    TokenPattern(
        "duffel_token", "Duffel", "duffel_live_ duffel_test_", _at_least("[A-Za-z0-9_=-]", 40)
    ),
    TokenPattern(
        "zapier_webhook",
        "Zapier webhook",
        "https://hooks.zapier.com/hooks/catch/",
        "\\d{5,10}/[A-Za-z0-9]{5,20}",
        action="redact",
    ),
)
