"""How often a tool may be called: the value only; counting is in `policy.rate_limit`."""

from __future__ import annotations

import attrs


@attrs.frozen
class ToolRateLimitConfig:
    """How often one user may call one tool. Defaults: 60 a minute, 1000 an hour."""

    requests_per_minute: int = attrs.field(default=60, validator=attrs.validators.ge(1))
    requests_per_hour: int = attrs.field(default=1000, validator=attrs.validators.ge(1))
