"""Read a plain function as a tool: JSON Schema, description, typed values for each call.

    signature = describe(function)
    signature.parameters                      # JSON Schema of the arguments
    kwargs = signature.bind(params, context)  # real dates, enums, dataclasses; function(**kwargs)
    to_result(value)                          # what the function returned, as a JSON value

Decides how Python types and JSON meet (`builder` and what it puts together, `results`) and where
descriptions come from (`docstrings`). Whether a schema may be registered and whether arguments fit
it is decided in `schema`; `bind` expects arguments that passed, and still refuses what a schema
cannot express.
"""

from __future__ import annotations

from hardpoint.signatures.functions import Signature, describe
from hardpoint.signatures.metadata import Param
from hardpoint.signatures.results import to_result

__all__ = ["Param", "Signature", "describe", "to_result"]
