from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.net import Masker

SECRET = 'synthetic "pass" / wörd+1'

spellings = {
    "raw": str,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 without padding": lambda s: base64.b64encode(s.encode()).decode().rstrip("="),
    "url-safe base64": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "quoted": lambda s: quote(s, safe=""),
    "quoted in lower case": lambda s: (
        quote(s, safe="").replace("%C3%B6", "%c3%b6").replace("%2F", "%2f").replace("%2B", "%2b")
    ),
    "quoted but slashes": quote,
    "form": quote_plus,
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "json": lambda s: json.dumps(s)[1:-1],
    "json with text as it is": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "json with escaped slashes": lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
    "html": html.escape,
}


@pytest.mark.parametrize("spelling", spellings)
def test_a_secret_is_hidden_in_every_spelling(spelling):
    text = f"before {spellings[spelling](SECRET)} after"

    masked = Masker([SECRET]).mask_text(text)

    assert masked.startswith("before [REDACTED]")
    assert masked.endswith(" after")
    assert len(masked) <= len("before [REDACTED]xx== after")


@given(
    st.text(alphabet=st.characters(codec="utf-8"), min_size=6, max_size=40).filter(str.strip),
    st.binary(max_size=5),
    st.binary(max_size=5),
)
def test_base64_of_a_longer_text_does_not_carry_the_secret(secret, before, after):
    encoded = base64.b64encode(before + secret.encode() + after)

    masked = Masker([secret]).mask(encoded)

    assert b"[REDACTED]" in masked


def test_blank_values_hide_nothing():
    assert Masker(["", "  "]).mask(b"a  b") == b"a  b"


def test_maskers_add_up():
    both = Masker(["first-one"]) | Masker(["second-one"])

    assert both.mask_text("first-one second-one") == "[REDACTED] [REDACTED]"


def test_other_text_stays_as_it_is():
    data = bytes(range(256))

    assert Masker(["something"]).mask(data) == data
    assert Masker(["something"]).mask_text("\ud800") == "\ud800"
