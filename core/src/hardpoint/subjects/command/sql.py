"""Which SQL destroys data, told from its words without its texts and comments."""

from __future__ import annotations

import re
from typing import Final

_COMMENT: Final = re.compile(r"--[^\n]*|#[^\n]*|/\*(?!!).*?\*/", re.DOTALL)
# MySQL runs what stands in /*! … */.
_RUN_COMMENT: Final = re.compile(r"/\*!\d*|\*/")
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")
_ESCAPED_TEXT: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'", re.DOTALL)
_DESTROYS: Final = re.compile(
    r"""\b(?:
        drop\s+(?:table|database|schema|view|materialized|index|user|role|column|keyspace|collection
            |sequence|function|procedure|trigger|type|extension|tablespace|policy|constraint|owned
            |aggregate|domain|foreign|publication|subscription|server|rule|stage|warehouse|stream
            |if|temporary|unique|event|partition|language|cast|operator|text|access)\b
      | truncate\b | delete\s+from\b | delete\s+\w+\s+from\b
      | alter\s+(?:table|database|user|role|system|schema)\b
      | update\s+(?:only\s+)?["`\w.\[\]]+\s+(?:as\s+\w+\s+)?set\b(?![^;]*\bwhere\b)
      | replace\s+into\b | grant\b | revoke\b | purge\b | shutdown\b | flush\s+\w | reset\s+master
      | set\s+password | create\s+(?:or\s+replace\s+)?(?:user|role)\b | detach\b
      | vacuum\s+full | reassign\s+owned | merge\s+into\b | load\s+data\b | load_file\s*\(
      | execute\s+immediate | prepare\s+\w+\s+from | copy\s+.+\bfrom\s+program
      | pg_terminate_backend | pg_read_file | xp_cmdshell | lo_unlink | dropDatabase | remove\(
      | deleteMany | deleteOne | \.drop\( | db\.\w+\.drop
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_RUNS_TEXT: Final = re.compile(r"\b(?:execute|prepare|do|exec|eval|sp_executesql)\b", re.IGNORECASE)


def destroys(text: str) -> bool:
    """Whether a statement in this text deletes or changes whole tables, rights or databases."""
    plain = _RUN_COMMENT.sub(" ", _COMMENT.sub(" ", text))
    # `#` and `--` inside a text are no comments; both readings count.
    readings = [
        pattern.sub("''", candidate)
        for candidate in (plain, _RUN_COMMENT.sub(" ", text))
        for pattern in (_TEXT, _ESCAPED_TEXT)
    ]
    if _RUNS_TEXT.search(plain):
        readings.append(text)
    return any(_DESTROYS.search(reading) for reading in readings)
