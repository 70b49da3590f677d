import base64
import json
import random
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardpoint.output import leaks
from hardpoint.output.leaks import LeakScanner
from hardpoint.output.stream import StreamScanner

SCANNER = LeakScanner()
STORED = "kestrel/Quarry+94=Old~~?>x"


def kinds(text, scanner=SCANNER):
    return [finding.kind for finding in scanner.scan(text)]


def drawn(alphabet, count, seed=0):
    rng = random.Random(f"{alphabet} {seed}")
    return "".join(rng.choice(alphabet) for _ in range(count))


WORD = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"
GITHUB = "gh" + "p_" + drawn(WORD, 36)


# text -----------------------------------------------------------------------------------------


def test_several_tokens_in_one_text_are_all_found():
    text = f"first {GITHUB}\nthen AKIA{drawn('ABCDEFGHJKLMNPQRSTUVWXYZ234567', 16)}\nend"

    assert kinds(text) == ["github_token", "aws_access_key"]
    assert SCANNER.redact(text) == (
        "first [REDACTED:github_token]\nthen [REDACTED:aws_access_key]\nend"
    )


def test_a_very_long_token_is_hidden_to_its_end():
    value = "sk" + "-proj-" + drawn(WORD, 3000)

    assert SCANNER.redact(f"a {value} b") == "a [REDACTED:openai_api_key] b"


def test_places_are_counted_in_characters():
    text = f"𝄞中é {GITHUB} 𝄞"

    (finding,) = SCANNER.scan(text)

    assert text[finding.start : finding.end] == GITHUB
    (in_bytes,) = SCANNER.scan(text.encode())
    assert text.encode()[in_bytes.start : in_bytes.end].decode() == GITHUB


def test_a_lone_surrogate_does_not_disturb():
    assert SCANNER.redact(f"\ud800 {GITHUB} \udfff") == "\ud800 [REDACTED:github_token] \udfff"


@pytest.mark.parametrize("shift", range(0, 48, 5))
def test_a_token_on_the_edge_of_a_window_is_found_once(shift):
    text = "a " * (leaks.WINDOW // 2 - 24) + " " * shift + GITHUB + " b" * 1000

    assert kinds(text) == ["github_token"]
    scanner = LeakScanner({"word": STORED})
    assert kinds(text.replace(GITHUB, STORED), scanner) == ["stored_secret"]


# contexts ---------------------------------------------------------------------------------------

RANDOM = drawn(WORD, 32, seed=3)
JWT = ".".join(
    base64.urlsafe_b64encode(part).rstrip(b"=").decode()
    for part in (b'{"alg":"HS256"}', b'{"sub":"somebody"}', bytes(range(32)))
)
BASIC = base64.b64encode(b"deploy:some-pass-2291").decode()

IN_CONTEXT = [
    ("Authorization: Bearer {}", RANDOM, "bearer_token"),
    ('{{"headers": {{"authorization": "bearer {}"}}}}', RANDOM, "bearer_token"),
    ("Authorization: {}", RANDOM, "authorization_header"),
    ("Authorization: token {}", RANDOM, "authorization_header"),
    ("Proxy-Authorization: Basic {}", BASIC, "authorization_header"),
    ("curl -H 'Authorization: Basic {}'", BASIC, "authorization_header"),
    ("X-Api-Key: {}", RANDOM, "generic_secret"),
    ("x-auth-token: {}\r\nAccept: */*", RANDOM, "generic_secret"),
    ("cookie: session={}; path=/", RANDOM, "session_cookie"),
    ("cookie: session={}; path=/", JWT, "jwt"),
    ("https://example.com/?access_token={}&x=1", RANDOM, "generic_secret"),
    ("https://deploy:{}@git.example.com/app.git", "q1-Q2-q3", "url_credentials"),
    ("postgres://app:{}@db:5432/app", "p@ss:word!9", "url_credentials"),
    ("redis://:{}@cache.example.com:6379/0", "hunter22", "url_credentials"),
    ('{{"url": "https:\\/\\/u:{}@example.com"}}', "q1-Q2-q3", "url_credentials"),
    ('api_key = "{}"', RANDOM, "generic_secret"),
    ("API_KEY={}", RANDOM, "generic_secret"),
    ("apiKey: '{}',", RANDOM, "generic_secret"),
    ("export CLIENT_SECRET={}", RANDOM, "generic_secret"),
    ('{{"client_secret":"{}"}}', RANDOM, "generic_secret"),
    ('{{\\"clientSecret\\": \\"{}\\"}}', RANDOM, "generic_secret"),
    ('config["secret_key"] = "{}"', RANDOM, "generic_secret"),
    ("<password>{}</password>", "Tr0ub4dor&3x", "generic_secret"),
    ("password: {}", "Tr0ub4dor&3x", "generic_secret"),
    ("DB_PASSWORD={}", "x9$Kq!27Lm", "generic_secret"),
    ("Server=db;User=sa;Password={};", "x9$Kq!27Lm", "generic_secret"),
    ("the password is {} for now", "x9$Kq!27Lm", "generic_secret"),
    ("tool --api-key {} --verbose", RANDOM, "generic_secret"),
    ("tool --password={}", "x9$Kq!27Lm", "generic_secret"),
    ("machine h login ana password {}", "x9$Kq!27Lm", "generic_secret"),
    ("aws_secret_access_key = {}", drawn(WORD + "/+", 40, seed=5), "aws_secret_key"),
    ('"SecretAccessKey": "{}"', drawn(WORD + "/+", 40, seed=6), "aws_secret_key"),
    ('{{"auths": {{"r.io": {{"auth": "{}"}}}}}}', BASIC, "basic_credentials"),
    ("//r.local/:_auth={}", BASIC, "basic_credentials"),
    ("DB_PASS={}", "x9$Kq!27Lm", "generic_secret"),
    ("SECRET_KEY_BASE={}", RANDOM, "generic_secret"),
    ("Ocp-Apim-Subscription-Key: {}", drawn("0123456789abcdef", 32), "generic_secret"),
    ("HEROKU_API_KEY={}", "3f2b8c1d-94e7-4a60-8b5d-c7e1f0a29d63", "generic_secret"),
    ("otpauth://totp/x?secret={}", "KBQWY4DPEHPK5PXQ", "generic_secret"),
    ("Authorization: SSWS {}", RANDOM, "authorization_header"),
    ("mongodb+srv://app:{}@cluster0.example.net/db", "q1-Q2-q3", "url_credentials"),
    ("token: {}", JWT, "jwt"),
]


@pytest.mark.parametrize(("text", "secret", "kind"), IN_CONTEXT)
def test_a_secret_is_known_by_what_stands_beside_it(text, secret, kind):
    text = text.format(secret)

    assert kind in kinds(text)
    assert secret not in SCANNER.redact(text)


SILENT = """\
commit 4f0c123b1612dd272d1371c17149d439536b32aa
request 0b6f6a52-3c1e-4b57-9a35-5d0b3f1f6c11 done
{"next_page_token": "Q2hhcmxpZSBicm93bjEyMzQ1Njc4OTA", "etag": "7893f57fd14c1604d115cea325a65e19"}
Digest: sha256:f99eee3692f09e2e8c662248b483b7ffc050fec94dbca3a0aac36098b2cc2bd8
"integrity": "sha512-02vAiq0f/464QG4vin/EzOTdnwtBENny+gAlyO/lfzdyT0036isUAEB3E5tBgN85MiSZYsaFcA=="
<div class="sk-folding-cube-container-wrapper-large sk-cube1 sk-cube">
the task-force-on-long-range-planning met; disk-usage-by-directory-and-owner-2024
def ghs_shutdown_handler_with_very_long_name_here(): pass
npm_config_registry npm_package_version npm_lifecycle_event_name
sess_timeout_seconds_default_value_for_tests
OPENAI_API_KEY=YOUR_API_KEY
api_key: your_api_key_here_please_replace
password=changeme
password: string, required, at least 8 characters
"password": "********"
password = getpass.getpass("Password: ")
PASSWORD=${DB_PASSWORD}
password: {{ vault_password }}
token = os.environ["GITHUB_TOKEN_FOR_CI1"]
api_key = settings.OPENAI_API_KEY_2
const secret = await vault.get('billing_token')
secretKeyRef: {name: db-credentials, key: password1}
secret_name: my-app-prod-2024-db1
Authorization: Bearer ${ACCESS_TOKEN}
Authorization: Bearer <your token here>
Authorization: Basic <credentials>
Bearer authentication is described in chapter four.
Basic usage instructions follow below.
git@github.com:acme/site.git and ssh://git@example.com/x
http://localhost:8080/@scope/pkg and https://medium.com/@somebody:2020
https://user:password@example.com/ and https://$USER:$PASSWORD@example.com
arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db1-AbCdEf
arn:aws:iam::123456789012:role/service-role/deploy
xoxo-hugs-and-kisses-from-everyone-here
AIza is how some keys start, and eyJ how web tokens do; AKIA1234
It starts with "-----BEGIN RSA PRIVATE KEY-----" and ends with "-----END RSA PRIVATE KEY-----".
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJXVU0n4APCTFjhQnteuM0szBbF4s7vyPabcdefghij me@host
3.14159265358979323846264338327950288419716939937510
max_tokens=4096, token_count: 1234567890123456
{"tool_call_id": "call_a8Fh3kLmN0pQrStUvWxYz12345", "id": "msg_01XFDUDYJgAACzvnptvVoYEL"}
"""


@pytest.mark.parametrize("text", SILENT.splitlines())
def test_ordinary_text_is_left_alone(text):
    assert kinds(text) == []


# private keys -----------------------------------------------------------------------------------


def pem(label, newline="\n", end=True):
    lines = [drawn(WORD + "+/", 64, seed=n) for n in range(8)]
    last = [f"-----END {label}-----"] if end else ["... [cut]"]
    return newline.join([f"-----BEGIN {label}-----", *lines, *last]), lines


@pytest.mark.parametrize(
    "label",
    [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\\\\n", "\n    ", "\n> "])
@pytest.mark.parametrize("end", [True, False])
def test_a_key_block_is_hidden_whole(label, newline, end):
    block, lines = pem(label, newline, end)

    redacted = SCANNER.redact(f"before {block} after")

    assert kinds(block) == ["private_key"]
    assert redacted.startswith("before [REDACTED:private_key]")
    assert redacted.endswith(" after")
    assert not any(line in redacted for line in lines)


def test_a_key_block_in_base64_is_a_key():
    block, _ = pem("RSA PRIVATE KEY")
    encoded = base64.b64encode(block.encode()).decode()

    assert kinds(f"key: {encoded} end") == ["private_key"]
    assert SCANNER.redact(f"key: {encoded} end") == "key: [REDACTED:private_key] end"


@pytest.mark.parametrize("label", ["PUBLIC KEY", "CERTIFICATE", "PGP PUBLIC KEY BLOCK"])
def test_public_keys_and_certificates_may_be_shown(label):
    assert kinds(pem(label)[0]) == []


# stored secrets ---------------------------------------------------------------------------------

SPELLINGS = {
    "raw": lambda v: v,
    "base64": lambda v: base64.b64encode(v.encode()).decode(),
    "base64 without padding": lambda v: base64.b64encode(v.encode()).decode().rstrip("="),
    "base64url": lambda v: base64.urlsafe_b64encode(v.encode()).decode(),
    "base64 inside more": lambda v: base64.b64encode(f"u:{v}!".encode()).decode(),
    "base64 inside more, shifted": lambda v: base64.b64encode(f"ab{v}yz".encode()).decode(),
    "hex": lambda v: v.encode().hex(),
    "upper-case hex": lambda v: v.encode().hex().upper(),
    "URL": lambda v: quote(v, safe=""),
    "URL, lower-case codes": lambda v: (
        quote(v, safe="").lower()
        if v.islower()
        else "".join(c if len(c) == 1 else c.lower() for c in _codes(v))
    ),
    "URL, slashes kept": lambda v: quote(v),
    "form": quote_plus,
    "URL twice": lambda v: quote(quote(v, safe=""), safe=""),
    "JSON": lambda v: json.dumps(v)[1:-1],
    "JSON, not only ASCII": lambda v: json.dumps(v, ensure_ascii=False)[1:-1],
    "JSON twice": lambda v: json.dumps(json.dumps(v))[1:-1],
    "JSON three times": lambda v: json.dumps(json.dumps(json.dumps(v)))[1:-1],
}


def _codes(value):
    encoded, place = quote(value, safe=""), 0
    while place < len(encoded):
        width = 3 if encoded[place] == "%" else 1
        yield encoded[place : place + width]
        place += width


VALUES = [
    STORED,
    'line"quote\\Quarry\tTab-55',
    "two words Quarry 66",
    "пароль-секрет-длинный",
    "päss wörd/ünder-94",
    "!?&<>'\"{}%%%$$",
    "aB3$" * 5,
    "12345678901234",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("value", VALUES)
def test_a_stored_value_is_found_in_every_spelling(value, spelling):
    scanner = LeakScanner({"billing": value})
    spelled = SPELLINGS[spelling](value)
    text = f"data={spelled} end"

    found = [f for f in scanner.scan(text) if f.kind == "stored_secret"]

    assert found
    assert (found[0].name, found[0].action) == ("billing", "block")
    redacted = scanner.redact(text)
    assert spelled not in redacted
    assert redacted.startswith("data=")
    assert redacted.endswith(" end")


@settings(deadline=None)
@given(
    value=st.text(st.characters(exclude_categories=("Cs",)), min_size=8, max_size=60).filter(
        lambda value: len(value.strip()) >= 8
    ),
    spelling=st.sampled_from(sorted(SPELLINGS)),
)
def test_any_stored_value_is_found_in_every_spelling(value, spelling):
    value = value.strip()
    scanner = LeakScanner({"any": value})

    assert any(f.name == "any" for f in scanner.scan(f" {SPELLINGS[spelling](value)} "))


def test_a_stored_value_is_not_found_in_other_text():
    scanner = LeakScanner({"billing": STORED, "unset": "", "blank": "   ", "pin": "42"})

    for text in (
        STORED[::-1],
        STORED.replace("9", "8"),
        STORED[:-1],
        "the PIN is 42 of 99",
        "nothing to see here",
    ):
        assert kinds(text, scanner) == []


def test_a_short_value_must_stand_alone_and_refuses_no_call():
    scanner = LeakScanner({"pin": "h4x0r"})

    assert [(f.kind, f.action) for f in scanner.scan("pin=h4x0r.")] == [("stored_secret", "redact")]
    assert kinds("ah4x0rs", scanner) == []


def test_overlapping_values_are_hidden_together():
    scanner = LeakScanner({"short": "quarry-word-4417", "long": "quarry-word-4417-extended"})

    assert scanner.redact("use quarry-word-4417-extended now") == (
        "use [REDACTED:stored_secret] now"
    )


def test_a_stored_key_file_is_found_line_by_line():
    block, lines = pem("RSA PRIVATE KEY")
    scanner = LeakScanner({"deploy": block})

    for text in (lines[3], base64.b64encode(block.encode()).decode(), block.replace("\n", "\\n")):
        redacted = scanner.redact(f"a {text} b")
        assert lines[3] not in redacted
        assert text not in redacted
    assert kinds("-----BEGIN CERTIFICATE-----", scanner) == []


def test_base64_over_several_lines_is_found():
    encoded = base64.encodebytes((STORED * 3).encode()).decode()
    scanner = LeakScanner({"long": STORED * 3})

    assert kinds(encoded, scanner) == ["stored_secret"]


def test_more_secrets_can_be_added_without_changing_the_first_scanner():
    first = LeakScanner({"a": "quarry-word-4417"})
    second = first.with_secrets({"b": "kestrel-word-5528"})

    assert kinds("quarry-word-4417 kestrel-word-5528", second) == ["stored_secret"] * 2
    assert kinds("kestrel-word-5528", first) == []


def test_a_thousand_secrets_are_all_found():
    values = {f"name{n}": f"{drawn(WORD, 20, seed=n)}" for n in range(1000)}
    scanner = LeakScanner(values)

    text = " ".join(values.values())
    assert {f.name for f in scanner.scan(text)} == set(values)


# JSON values ------------------------------------------------------------------------------------


def test_a_clean_value_comes_back_as_the_same_object():
    value = {"a": [1, 2, {"b": "text"}], "c": None}

    assert SCANNER.redact_value(value) == (value, ())
    assert SCANNER.redact_value(value)[0] is value


def test_secrets_in_a_value_are_replaced_where_they_stand():
    value = {
        "out": f"use {GITHUB} now",
        "nested": [{"json": json.dumps({"token": GITHUB})}],
        "password": "Tr0ub4dor&3x",
        GITHUB: 1,
        "rest": [True, None, 1.5],
    }

    cleaned, findings = SCANNER.redact_value(value)

    assert {finding.kind for finding in findings} >= {"github_token", "generic_secret"}
    assert cleaned == {
        "out": "use [REDACTED:github_token] now",
        "nested": [{"json": '{"token": "[REDACTED:github_token]"}'}],
        "password": "[REDACTED:generic_secret]",
        "[REDACTED:github_token]": 1,
        "rest": [True, None, 1.5],
    }


def test_a_secret_that_is_a_number_is_replaced():
    scanner = LeakScanner({"pin": "8841773025"})

    assert scanner.redact_value({"pin": 8841773025, "other": 12})[0] == {
        "pin": "[REDACTED:stored_secret]",
        "other": 12,
    }


def test_a_key_block_without_an_end_leaves_valid_json():
    block, lines = pem("RSA PRIVATE KEY", end=False)
    value = {"key": block.removesuffix("... [cut]"), "after": {"x": 1}}

    cleaned, _ = SCANNER.redact_value(value)

    assert cleaned["after"] == {"x": 1}
    assert lines[0] not in str(cleaned)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    )
)
def test_redacting_a_value_leaves_nothing_to_redact(value):
    scanner = LeakScanner({"word": "quarry-word-4417"})
    cleaned, _ = scanner.redact_value({"v": value, "w": ["quarry-word-4417"]})

    assert scanner.redact_value(cleaned)[1] == ()


@pytest.mark.parametrize(("text", "secret", "kind"), IN_CONTEXT)
def test_redacted_text_holds_nothing_to_redact(text, secret, kind):
    redacted = SCANNER.redact(text.format(secret))

    assert SCANNER.redact(redacted) == redacted


# streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 1000, 5000, 40_000, 1_000_000])
def test_a_stream_gives_what_the_whole_text_would(step):
    block, _ = pem("RSA PRIVATE KEY")
    scanner = LeakScanner({"word": STORED})
    pieces = [GITHUB, STORED, block, 'password = "Tr0ub4dor&3x"', "plain"]
    rng = random.Random(7)
    text = "".join(
        f"{'lorem ipsum ' * rng.randint(0, 800)} {rng.choice(pieces)} " for _ in range(12)
    ).encode()
    stream = StreamScanner(scanner)

    given_on = [stream.feed(text[at : at + step]) for at in range(0, len(text), step)]
    given_on.append(stream.finish())

    assert b"".join(given_on) == scanner.redact_bytes(text)
    places = [(f.start, f.end) for f in stream.findings]
    assert sorted(places) == sorted((f.start, f.end) for f in scanner.scan(text))


def test_a_long_stream_is_given_on_before_it_ends():
    stream = StreamScanner(SCANNER)

    given_on = sum(len(stream.feed(b"lorem ipsum " * 1000)) for _ in range(20))

    assert given_on > 200_000
