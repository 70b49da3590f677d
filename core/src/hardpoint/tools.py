"""What a tool is: `Tool` to subclass, `@tool` for functions, `ToolDefinition` for the model."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, overload

import attrs

from hardpoint.calls import canonical_json
from hardpoint.context import JobContext
from hardpoint.errors import RegistrationError
from hardpoint.limits import ToolRateLimitConfig
from hardpoint.parts import Part, Provenance, ToolOutput
from hardpoint.signatures import Signature, describe, to_result
from hardpoint.threads import run_blocking

Effect = Literal["read", "write", "delete", "process", "network", "send", "spend"]
ALL_EFFECTS: Final[frozenset[Effect]] = frozenset(
    ("read", "write", "delete", "process", "network", "send", "spend")
)
EXECUTION_TIMEOUT: Final = timedelta(seconds=60)


class ApprovalRequirement(StrEnum):
    """How much approval one call needs. Ordered: `max` of several is the strictest."""

    NEVER = "never"
    UNLESS_AUTO_APPROVED = "unless_auto_approved"
    """Needs approval unless the session approves automatically or a grant covers it."""
    ALWAYS = "always"
    """Needs an explicit approval for each call."""

    Never = NEVER
    UnlessAutoApproved = UNLESS_AUTO_APPROVED
    Always = ALWAYS

    @property
    def rank(self) -> int:
        return _RANKS[self]

    @property
    def is_required(self) -> bool:
        return self is not ApprovalRequirement.NEVER


_RANKS: Final[Mapping[str, int]] = {"never": 0, "unless_auto_approved": 1, "always": 2}


def strictest(requirements: Collection[ApprovalRequirement]) -> ApprovalRequirement:
    """The strictest of several requirements; `never` when there is none."""
    return max(requirements, key=_rank, default=ApprovalRequirement.NEVER)


def _rank(requirement: ApprovalRequirement) -> int:
    return _RANKS[requirement]


class ToolDomain(StrEnum):
    """The two domains that the core knows. A domain is any name that a plugin registers."""

    ORCHESTRATOR = "orchestrator"
    CONTAINER = "container"

    Orchestrator = ORCHESTRATOR
    Container = CONTAINER


SubjectKind = Literal["command", "path", "url", "text"]


@attrs.frozen
class Subject:
    """What a call acts on, in a form that rules can match."""

    kind: SubjectKind
    value: Any
    """A command line or argv list, a workspace path, an absolute URL, or text."""
    operation: str = ""
    """`read`, `write`, `list`, `delete` for paths; the method for URLs."""


def _subjects(subjects: Iterable[Subject]) -> tuple[Subject, ...]:
    return tuple(subjects)


@attrs.frozen
class Canonical:
    """The arguments that will really run, and what they act on."""

    params: dict[str, Any]
    subjects: tuple[Subject, ...] = attrs.field(default=(), converter=_subjects)


@attrs.frozen
class ToolDiscoverySummary:
    """Guidance that `tool_info` gives beyond the schema."""

    always_required: Sequence[str] = ()
    conditional_requirements: Sequence[str] = ()
    notes: Sequence[str] = ()
    examples: Sequence[Any] = ()


EMPTY_SCHEMA: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "required": []}


@attrs.frozen(slots=False)
class ToolDefinition:
    """A tool as models and clients see it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = attrs.field(factory=lambda: dict(EMPTY_SCHEMA))
    """JSON Schema of the arguments."""
    title: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: Mapping[str, Any] = attrs.field(factory=dict)
    """Hints in MCP's words (`readOnlyHint` …); never a reason to trust."""
    domain: str = "orchestrator"
    owner: str | None = None
    """The distribution, server or application that provides it."""
    original_name: str | None = None
    """The name at its source, where that differs."""
    approval: ApprovalRequirement | None = None
    """What a call of this tool usually needs, where that does not depend on the arguments."""
    meta: Mapping[str, Any] = attrs.field(factory=dict)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what the model is told and where the tool runs; approvals are bound to it."""
        told = [self.name, self.description, self.parameters, self.output_schema, self.domain]
        return hashlib.sha256(canonical_json(told).encode()).hexdigest()


class Tool(ABC):
    """One capability that a model may call.

    `name` and `description` are class attributes or properties. Everything else has a default;
    override what differs. `execute` is the unguarded body: go through `Runtime.call` to have a call
    checked, approved, limited, cleaned and recorded.

    Example:
        class Greet(Tool):
            name = "greet"
            description = "Greet a person."

            def parameters_schema(self):
                return {
                    "type": "object",
                    "properties": {"who": {"type": "string"}},
                    "required": ["who"],
                }

            async def execute(self, params, ctx):
                return ToolOutput.text(f"Hello {params['who']}.")
    """

    name: str
    description: str
    title: str | None = None
    provenance: Provenance = "untrusted"
    """How far results are believed: `trusted` when they hold nothing from outside this machine."""
    subject_kind: SubjectKind | None = None
    """What kind of subject `canonicalise` gives, so that rules for the tool can be read at load."""

    @abstractmethod
    def parameters_schema(self) -> dict[str, Any]:
        """The JSON Schema (2020-12) of the arguments: an object with `properties`."""

    @abstractmethod
    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        """Do the work. `params` are valid against the schema.

        Raises:
            ToolError: What went wrong, in a sentence that a model can act on.
        """

    def estimated_cost(self, params: Mapping[str, Any]) -> Decimal | None:
        """What a call with these arguments will cost, to be reserved in the budget."""
        return None

    def estimated_duration(self, params: Mapping[str, Any]) -> timedelta | None:
        return None

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        """How much approval a call with these arguments needs."""
        return ApprovalRequirement.NEVER

    def approval_requirement(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        """Another spelling of `requires_approval`; the strictest of both counts."""
        return ApprovalRequirement.NEVER

    def domain(self) -> ToolDomain | str:
        """Where the tool runs."""
        return ToolDomain.ORCHESTRATOR

    def rate_limit_config(self) -> ToolRateLimitConfig | None:
        """How often one user may call it."""
        return None

    def execution_timeout(self) -> timedelta:
        """How long one call may run."""
        return EXECUTION_TIMEOUT

    def sensitive_params(self) -> Collection[str]:
        """Top-level parameters that are redacted wherever arguments are shown or written."""
        return ()

    def requires_sanitization(self) -> bool:
        """Whether results may hold text from outside and are scanned and wrapped for the model."""
        return True

    def discovery_schema(self) -> dict[str, Any]:
        """The whole schema, where the advertised one is a short form of it."""
        return self.parameters_schema()

    def discovery_summary(self) -> ToolDiscoverySummary | None:
        """Guidance for `tool_info`."""
        return None

    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of `ToolOutput.result`, where it has one."""
        return None

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        """What a call with these arguments can do to the world; everything unless narrowed."""
        return ALL_EFFECTS

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        """The arguments that will really run, and their subjects. Reads only; starts nothing."""
        return Canonical(params)

    def definition(self) -> ToolDefinition:
        """The definition for models and clients."""
        parameters = self.parameters_schema()
        description = self.description
        if self.discovery_summary() is not None or self.discovery_schema() != parameters:
            description += (
                f'\nFor guidance call tool_info(name: "{self.name}", detail: "summary"),'
                ' or detail: "schema" for the whole schema.'
            )
        return ToolDefinition(
            name=self.name,
            description=description,
            parameters=parameters,
            title=self.title,
            output_schema=self.output_schema(),
            domain=str(self.domain()),
        )

    def schema(self) -> ToolDefinition:
        """Another name of `definition`."""
        return self.definition()


# plain functions -------------------------------------------------------------------------------


Approval = ApprovalRequirement | Callable[[Mapping[str, Any]], ApprovalRequirement]


def _approval(value: str | Approval) -> Approval:
    return ApprovalRequirement(value) if isinstance(value, str) else value


def _timedelta(value: timedelta | float) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=value)


def _effects(value: Collection[Effect]) -> frozenset[Effect]:
    if isinstance(value, str):
        raise ValueError(f"effects is a collection, for example [{value!r}]")
    unknown = sorted(set(value) - ALL_EFFECTS)
    if unknown:
        raise ValueError(f"unknown effect {unknown[0]!r}; known: {', '.join(sorted(ALL_EFFECTS))}")
    return frozenset(value)


@attrs.frozen
class ToolOptions:
    """What `@tool` can say beyond the function's signature."""

    name: str | None = None
    description: str | None = None
    title: str | None = None
    domain: str = "orchestrator"
    approval: Approval = attrs.field(default=ApprovalRequirement.NEVER, converter=_approval)
    rate_limit: ToolRateLimitConfig | None = attrs.field(
        default=None,
        validator=attrs.validators.optional(attrs.validators.instance_of(ToolRateLimitConfig)),
    )
    effects: Collection[Effect] = attrs.field(default=ALL_EFFECTS, converter=_effects)
    timeout: timedelta = attrs.field(
        default=EXECUTION_TIMEOUT,
        converter=_timedelta,
        validator=attrs.validators.gt(timedelta(0)),
    )
    sensitive: Collection[str] = ()
    provenance: Provenance = "untrusted"
    cost: Decimal | None = None
    canonicalise: Callable[..., Any] | None = None


class FunctionTool(Tool):
    """A plain function as a tool. Synchronous functions run on a thread."""

    is_function: ClassVar[bool] = True

    def __init__(self, function: Callable[..., Any], options: ToolOptions) -> None:
        self.function = function
        self.options = options
        self.signature: Signature = describe(function)
        self.name = function.__name__ if options.name is None else options.name
        self.description = options.description or self.signature.description
        self.title = options.title
        self.provenance = options.provenance
        unknown = set(options.sensitive) - set(self.signature.parameters["properties"])
        if unknown:
            raise RegistrationError(
                self.name, f"{self.name!r} has no parameter {sorted(unknown)[0]!r} to redact"
            )
        self._abandoned = 0
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, unguarded."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name!r}>"

    @property
    def abandoned_runs(self) -> int:
        """How many timed-out runs of the function still occupy a thread."""
        return self._abandoned

    def parameters_schema(self) -> dict[str, Any]:
        return self.signature.parameters

    def output_schema(self) -> dict[str, Any] | None:
        return self.signature.output_schema

    def domain(self) -> str:
        return self.options.domain

    def requires_approval(self, params: Mapping[str, Any]) -> ApprovalRequirement:
        approval = self.options.approval
        return approval if isinstance(approval, ApprovalRequirement) else approval(params)

    def rate_limit_config(self) -> ToolRateLimitConfig | None:
        return self.options.rate_limit

    def execution_timeout(self) -> timedelta:
        return self.options.timeout

    def sensitive_params(self) -> Collection[str]:
        return self.options.sensitive

    def estimated_cost(self, params: Mapping[str, Any]) -> Decimal | None:
        return self.options.cost

    def effects(self, params: Mapping[str, Any]) -> Collection[Effect]:
        return self.options.effects

    async def canonicalise(self, params: dict[str, Any], context: JobContext) -> Canonical:
        if self.options.canonicalise is None:
            return Canonical(params)
        made = self.options.canonicalise(params, context)
        return made if isinstance(made, Canonical) else await made

    async def execute(self, params: dict[str, Any], ctx: JobContext, /) -> ToolOutput:
        args, kwargs = self.signature.bind(params, ctx)
        if self.signature.is_async:
            returned = await self.function(*args, **kwargs)
        else:
            returned = await run_blocking(
                lambda: self.function(*args, **kwargs),
                on_abandon=self._abandon,
                on_end=self._end,
            )
        return to_output(returned)

    def _abandon(self) -> None:
        with self._lock:
            self._abandoned += 1

    def _end(self) -> None:
        with self._lock:
            self._abandoned -= 1


_PLAIN: Final = frozenset((int, bool, type(None)))


def to_output(returned: Any) -> ToolOutput:
    """What a function returned, as an output: parts stay, text is text, values become JSON."""
    kind = type(returned)
    if kind is ToolOutput:
        return returned  # type: ignore[no-any-return]
    if kind is str:
        return ToolOutput.text(returned)
    if kind in _PLAIN:
        return ToolOutput(result=returned)
    if isinstance(returned, Part):
        return ToolOutput(structured=False, parts=(returned,))
    if isinstance(returned, list | tuple) and any(isinstance(item, Part) for item in returned):
        others = [to_result(item) for item in returned if not isinstance(item, Part)]
        parts = [item for item in returned if isinstance(item, Part)]
        result = None if not others else others[0] if len(others) == 1 else others
        return ToolOutput(result=result, parts=parts, structured=False)
    return ToolOutput(result=to_result(returned))


@overload
def tool(function: Callable[..., Any], /, **options: Any) -> FunctionTool: ...
@overload
def tool(**options: Any) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a plain function: `@tool`, `@tool(rate_limit=…)` or `tool(function)`.

    The schema comes from the type hints, the descriptions from the docstring. A parameter annotated
    `JobContext` receives the context and is not part of the schema.

    Args:
        function: The function, async or not.
        **options: `name`, `description`, `title`, `domain`, `approval` (a requirement, or a
            function of the arguments), `rate_limit`, `effects`, `timeout` (seconds or timedelta),
            `sensitive` (parameters to redact), `provenance`, `cost`, `canonicalise`.

    Raises:
        RegistrationError: An option cannot be used, or a parameter has no usable type; the message
            names it.
    """
    try:
        checked = ToolOptions(**options)
    except (TypeError, ValueError) as error:
        raise RegistrationError(
            str(options.get("name", "")),
            f"tool(): {str(error.args[0]).replace('ToolOptions.__init__() ', '')}",
            hint="known options: " + ", ".join(field.name for field in attrs.fields(ToolOptions)),
        ) from error
    if function is None:
        return lambda f: FunctionTool(f, checked)
    return FunctionTool(function, checked)
