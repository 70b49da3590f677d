import pytest

from hardpoint.redaction import (
    REDACTED,
    is_sensitive_key,
    redact_params,
    redact_sensitive_json,
)


def test_named_parameters_are_replaced_in_a_copy():
    params = {"url": "https://example.com", "body": {"a": 1}}

    assert redact_params(params, {"body", "absent"}) == {
        "url": "https://example.com",
        "body": REDACTED,
    }
    assert params["body"] == {"a": 1}


SENSITIVE = (
    "authorization Authorization proxy-authorization Proxy-Authorization cookie set-cookie "
    "Set-Cookie x-api-key X-API-Key api-key api_key apiKey apikey APIKey APIKEY access_token "
    "accessToken refresh_token session_token sessionToken id_token token password passwd secret "
    "client_secret clientSecret private_key privateKey apisecret DB_PASSWORD password2 apiKey1 "
    "credentials user_credentials aws_secret_access_key authToken oauth_token jwt bearer_token "
    "account_key X-Auth-Token user_jwt appKey"
)


@pytest.mark.parametrize("key", SENSITIVE.split())
def test_a_key_that_names_a_secret_is_sensitive(key):
    assert is_sensitive_key(key)


HARMLESS = (
    "author authors authorize_user token_count tokenCount tokenize tokenizer oauth_redirect_uri "
    "max_tokens prompt_tokens key keyboard primary_key sort_key monkey secretary cookies_count "
    "secret_name secretName password_policy passwordRequired token_type access_token_type "
    "client_id user_id api_version session_id keywords accessibility"
)


@pytest.mark.parametrize("key", HARMLESS.split())
def test_a_key_that_names_none_is_not(key):
    assert not is_sensitive_key(key)


def test_values_are_replaced_at_any_depth_and_nothing_else_changes():
    value = {
        "url": "https://example.com",
        "headers": {"Authorization": "Bearer x", "Accept": "*/*"},
        "items": [{"db": {"password": 12345}}, "password", 7],
        "credentials": {"user": "ana", "pin": [1, 2]},
        "token": None,
        "password": "",
        "secret": True,
    }

    assert redact_sensitive_json(value) == {
        "url": "https://example.com",
        "headers": {"Authorization": REDACTED, "Accept": "*/*"},
        "items": [{"db": {"password": REDACTED}}, "password", 7],
        "credentials": REDACTED,
        "token": None,
        "password": "",
        "secret": True,
    }
    assert value["headers"]["Authorization"] == "Bearer x"


def test_recorded_headers_are_pairs_of_name_and_value():
    headers = [{"name": "Cookie", "value": "sid=1"}, {"name": "Accept", "value": "*/*"}]

    assert redact_sensitive_json(headers) == [
        {"name": "Cookie", "value": REDACTED},
        {"name": "Accept", "value": "*/*"},
    ]


def test_nesting_without_end_is_cut_and_does_not_fail():
    value = inner = {}
    for _ in range(5000):
        inner["a"] = inner = {}
    inner["password"] = "hidden"

    assert "hidden" not in str(redact_sensitive_json(value))
