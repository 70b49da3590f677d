"""Every row of the pattern table, with tokens drawn from it at run time."""

import random
import re._constants as sre
import re._parser as sre_parser

import pytest

from hardpoint.output.leaks import LeakScanner
from hardpoint.output.patterns import PROVIDERS

SCANNER = LeakScanner()


def kinds(text):
    return [finding.kind for finding in SCANNER.scan(text)]


# tokens of providers ----------------------------------------------------------------------------

SURROUNDINGS = [
    "{}",
    "KEY={}\n",
    'x = "{}"',
    "<b>{}</b>",
    '{{"a": "line\\n{}\\n"}}',
    '{{\\"a\\": \\"{}\\"}}',
    "say {} now",
    "https://example.com/?q=%3D{}&b=1",
    "\x1b[31m{}\x1b[0m",
    "设置:{} 完成",
]


@pytest.mark.parametrize("row", PROVIDERS, ids=lambda row: row.kind)
def test_every_kind_of_token_is_found_and_hidden_wherever_it_stands(row):
    for begin in row.begins.split():
        for seed, surrounding in enumerate(SURROUNDINGS):
            value = token(row, begin, seed)
            text = surrounding.format(value)

            found = [f for f in SCANNER.scan(text) if f.kind == row.kind]

            assert found, text
            assert found[0].action == row.action
            assert text[found[0].start : found[0].end] in value
            assert value not in SCANNER.redact(text)


@pytest.mark.parametrize("row", PROVIDERS, ids=lambda row: row.kind)
def test_no_kind_of_token_is_found_inside_a_longer_word(row):
    if row.before:
        return
    for begin in row.begins.split():
        if begin[0].isalnum():
            assert row.kind not in kinds("a" + token(row, begin, 0))


@pytest.mark.parametrize("row", PROVIDERS, ids=lambda row: row.kind)
def test_a_placeholder_in_the_form_of_a_token_is_none(row):
    for begin in row.begins.split():
        if row.before or "secret" in row.rest:
            continue
        assert kinds(begin + "x" * 60) == []
        assert kinds(begin + "your-token-goes-here-please-replace-this-text") == []
        assert kinds(f"a pattern: {begin}[A-Za-z0-9]{{36}}") == []
        assert kinds(f"masked: {begin}******** {begin}...") == []


# drawing a token --------------------------------------------------------------------------------


def token(row, begin, seed):
    rng = random.Random(f"{row.kind} {begin} {seed}")
    return (sample(row.before, rng) if row.before else "") + begin + sample(row.rest, rng)


def sample(pattern: str, rng: random.Random) -> str:
    """A random text that the regular expression matches; repetitions stay near their minimum."""
    return _draw(sre_parser.parse(pattern), rng)


def _draw(nodes, rng):
    out = []
    for kind, value in nodes:
        if kind is sre.LITERAL:
            out.append(chr(value))
        elif kind is sre.IN:
            out.append(rng.choice(_members(value)))
        elif kind is sre.CATEGORY:
            out.append(rng.choice(_members([(kind, value)])))
        elif kind is sre.MAX_REPEAT:
            low, high, inner = value
            count = low + (rng.randint(0, 3) if int(high) > low + 3 else 0)
            out += [_draw(inner, rng) for _ in range(count)]
        elif kind is sre.SUBPATTERN:
            out.append(_draw(value[-1], rng))
        elif kind is sre.BRANCH:
            out.append(_draw(rng.choice(value[1]), rng))
        elif kind not in (sre.ASSERT, sre.ASSERT_NOT, sre.AT):
            raise NotImplementedError(kind)
    return "".join(out)


def _members(items):
    chars = []
    for kind, value in items:
        if kind is sre.NEGATE:
            return " "
        if kind is sre.LITERAL:
            chars.append(chr(value))
        elif kind is sre.RANGE:
            chars += map(chr, range(value[0], value[1] + 1))
        elif value is sre.CATEGORY_DIGIT:
            chars += "0123456789"
        elif value is sre.CATEGORY_NOT_SPACE:
            chars += "abcdefghijkmnpqrstuvwxyz0123456789"
        else:
            raise NotImplementedError(kind, value)
    # Marks are rare in real tokens; drawn evenly they would end many of them.
    letters = [char for char in chars if char.isalnum()]
    return letters or chars
