"""docs/reference/leak-patterns.md is made from the detectors; run this file to write it anew."""

from pathlib import Path

from hardpoint.output.assignments import assignment_detectors
from hardpoint.output.contexts import context_detectors
from hardpoint.output.key_blocks import key_block_detectors
from hardpoint.output.patterns import PROVIDERS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "leak-patterns.md"

HEAD = """\
# Leak patterns

What the leak scan finds. This page is made from the table in `hardpoint.output.patterns`.

| Class | In the arguments of a call that sends data away | In what a tool returns |
|---|---|---|
| `block` | the call is denied | replaced by `[REDACTED:kind]` |
| `redact` | noted in the audit, never a reason to refuse | replaced by `[REDACTED:kind]` |

Tokens are found at any position and in any surroundings, also in JSON inside JSON, behind an escape
such as `\\n` or `%3D`, and in a stream across its chunks. They are not found inside a longer word;
placeholders (`xxxx`, `your-key-here`, `1234567890`), references (`${TOKEN}`, `os.environ[…]`) and
checksums are left alone.

## Stored secrets

Every value of a secret store is searched for as `stored_secret`, whatever it looks like: as it is,
escaped for JSON any number of times, URL-encoded once or more, in HTML, in base64 (either alphabet,
with or without padding, at any alignment, wrapped) and in hexadecimal.

| Length of the value | Found | Class |
|---|---|---|
| under 4 characters | never: it would be found everywhere | |
| 4 to 7 | where no letter or digit stands beside it | `redact` |
| 8 or more | anywhere | `block` |
| over 240, such as key files | by its random parts | `block` |

"""


def render():
    """The whole page."""
    lines = ["## By what stands beside them", "", "| Kind | Found | Class |", "|---|---|---|"]
    in_context = [*key_block_detectors(), *context_detectors(), *assignment_detectors()]
    lines += [f"| `{d.kind}` | {d.title} | `{d.action}` |" for d in in_context]
    lines += ["", "## Tokens of providers", "", "| Kind | Provider | Begins with | Class |"]
    lines += ["|---|---|---|---|"]
    for row in sorted(PROVIDERS, key=lambda row: row.kind):
        begins = " ".join(f"`{begin}`" for begin in row.begins.split())
        inside = " (inside)" if row.before else ""
        lines.append(f"| `{row.kind}` | {row.title} | {begins}{inside} | `{row.action}` |")
    return HEAD + "\n".join(lines) + "\n"


def test_the_page_says_what_the_table_says():
    assert PAGE.read_text("utf-8") == render()


def test_every_kind_is_listed_once():
    kinds = [row.kind for row in PROVIDERS]

    assert len(kinds) == len(set(kinds))


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
