"""Tools written as WebAssembly text: the world in every version, and any body for `execute`.

No toolchain is needed, so the hostile tests use these. `Text` hands out the constants of a module;
`tool` puts a body into a component of the tool world.
"""

from __future__ import annotations

LEVELS = '"trace" "debug" "info" "warn" "error"'
KINDS = (
    '"auth-required" "input" "output-too-large" "executor" "network-denied" "client"'
    ' "operation-failed"'
)
VERSIONS = (None, "0.2.0", "0.3.0", "0.4.0", "0.4.1")

# `$put` appends to the answer, which starts at 65536 and grows; `$number` appends a decimal.
LIBRARY = """
    (global $out (mut i32) (i32.const 65536)) (global $end (mut i32) (i32.const 65536))
    (func $put (param $p i32) (param $n i32)
      (memory.copy (global.get $end) (local.get $p) (local.get $n))
      (global.set $end (i32.add (global.get $end) (local.get $n))))
    (func $number (param $v i32)
      (if (i32.ge_u (local.get $v) (i32.const 10))
        (then (call $number (i32.div_u (local.get $v) (i32.const 10)))))
      (i32.store8 (global.get $end) (i32.add (i32.const 48)
        (i32.rem_u (local.get $v) (i32.const 10))))
      (global.set $end (i32.add (global.get $end) (i32.const 1))))
    (func $option (param $r i32)
      (if (i32.load8_u (local.get $r))
        (then (call $put %(quote)s)
          (call $put (i32.load offset=4 (local.get $r)) (i32.load offset=8 (local.get $r)))
          (call $put %(quote)s))
        (else (call $put %(null)s))))
    (func $bool (param $v i32)
      (if (local.get $v) (then (call $put %(true)s)) (else (call $put %(false)s))))
"""


class Text:
    """Constants in the first page of a module's memory."""

    def __init__(self) -> None:
        self._data: list[str] = []
        self._at = 1024

    def __call__(self, text: str | bytes) -> str:
        """Pointer and length of a text, as two operands."""
        raw = text.encode() if isinstance(text, str) else text
        escaped = "".join(f"\\{byte:02x}" for byte in raw)
        self._data.append(f'(data (i32.const {self._at}) "{escaped}")')
        operands = f"(i32.const {self._at}) (i32.const {len(raw)})"
        self._at += len(raw) + (-len(raw) % 8)
        assert self._at < 32768, "constants do not fit"
        return operands

    @property
    def data(self) -> str:
        return "\n    ".join(self._data)


def tool(
    body: str = "",
    *,
    version: str | None = "0.3.0",
    text: Text | None = None,
    extra: str = "",
    package: str = "near:agent",
    more_imports: str = "",
    schema: str = '{"type":"object","properties":{"op":{"type":"string"}}}',
    description: str = "a tool in WebAssembly text",
    http_params: int = 5,
    memory: str = "2",
    start: str = "",
) -> str:
    """A component of the tool world.

    `body` runs in `execute` before it answers; `$p`, `$n` are the request's params, `$r` points to
    64 bytes for results of host functions. Without `$put` in it the answer echoes the params.
    """
    text = text or Text()
    record_errors = version == "0.4.1"
    at = f"@{version}" if version else ""
    library = LIBRARY % {
        "quote": text('"'),
        "null": text("null"),
        "true": text("true"),
        "false": text("false"),
    }
    opening, closing = text('{"echo":'), text("}")
    echo = (
        ""
        if "$put" in body
        else f"(call $put {opening}) (call $put (local.get $p) (local.get $n))"
        f" (call $put {closing})"
    )
    timeout = '(param "timeout-ms" (option u32))' if http_params == 5 else ""
    core_http = "i32 " * (12 if http_params == 5 else 10)
    failure = (
        f'(type $k0 (enum {KINDS})) (export "failure-kind" (type $k (eq $k0)))'
        '(type $f0 (record (field "kind" $k) (field "code" string) (field "message" string)'
        ' (field "request-sent" bool)))'
        '(export "http-failure" (type $f (eq $f0)))'
        if record_errors
        else ""
    )
    http_error = "$f" if record_errors else "string"
    if record_errors:
        response = (
            f"(type $gk (enum {KINDS}))"
            '(type $gf (record (field "kind" $gk) (field "code" string) (field "message" string)))'
            '(type $rs (variant (case "success" string) (case "failure" $gf)))'
        )
        shape_types = (
            f"(type $gk (enum {KINDS}))"
            '(import "gk" (type $GK (eq $gk)))'
            '(type $gf (record (field "kind" $GK) (field "code" string) (field "message" string)))'
            '(import "gf" (type $GF (eq $gf)))'
            '(type $s (variant (case "success" string) (case "failure" $GF)))'
        )
        shape_exports = (
            '(export $GK2 "failure-kind" (type $gk))'
            '(type $gf2 (record (field "kind" $GK2) (field "code" string)'
            ' (field "message" string)))'
            '(export $GF2 "guest-failure" (type $gf2))'
            '(type $s2 (variant (case "success" string) (case "failure" $GF2)))'
            '(export $S2 "response" (type $s2))'
        )
        shape_with = '(with "gk" (type $gk)) (with "gf" (type $gf))'
        answer = """(i32.store8 (i32.const 32) (i32.const 0))
      (i32.store (i32.const 36) (global.get $out))
      (i32.store (i32.const 40) (i32.sub (global.get $end) (global.get $out)))"""
    else:
        response = (
            '(type $rs (record (field "output" (option string)) (field "error" (option string))))'
        )
        shape_types = (
            '(type $s (record (field "output" (option string)) (field "error" (option string))))'
        )
        shape_exports, shape_with = '(export $S2 "response" (type $S))', ""
        answer = """(i32.store (i32.const 32) (i32.const 1))
      (i32.store (i32.const 36) (global.get $out))
      (i32.store (i32.const 40) (i32.sub (global.get $end) (global.get $out)))
      (i32.store (i32.const 44) (i32.const 0))"""
    said, schema_at = text(description), text(schema)

    def stored(operands: str) -> str:
        pointer, length = operands.split(") (")
        return (
            f"(i32.store (i32.const 16) {pointer})) (i32.store (i32.const 20) ({length})"
            " (i32.const 16)"
        )

    return f"""(component
  (import "{package}/host{at}" (instance $host
    (type $l0 (enum {LEVELS})) (export "log-level" (type $ll (eq $l0)))
    (type $h0 (record (field "status" u16) (field "headers-json" string) (field "body" (list u8))))
    (export "http-response" (type $h (eq $h0)))
    {failure}
    (export "log" (func (param "level" $ll) (param "message" string)))
    (export "now-millis" (func (result u64)))
    (export "workspace-read" (func (param "path" string) (result (option string))))
    (export "http-request" (func (param "method" string) (param "url" string)
      (param "headers-json" string) (param "body" (option (list u8))) {timeout}
      (result (result $h (error {http_error})))))
    (export "tool-invoke" (func (param "alias" string) (param "params-json" string)
      (result (result string (error string)))))
    (export "secret-exists" (func (param "name" string) (result bool)))))
  {more_imports}
  (core module $libc (memory (export "memory") {memory})
    (global $top (mut i32) (i32.const 262144))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local i32)
      (local.set 4 (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.set $top (i32.add (local.get 4) (local.get 3)))
      (block (loop
        (br_if 1 (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
        (if (i32.eq (memory.grow (i32.const 4)) (i32.const -1)) (then unreachable)) (br 0)))
      (local.get 4)))
  (core instance $l (instantiate $libc))
  (core func $log (canon lower (func $host "log") (memory (core memory $l "memory"))))
  (core func $now (canon lower (func $host "now-millis")))
  (core func $read (canon lower (func $host "workspace-read") (memory (core memory $l "memory"))
    (realloc (core func $l "realloc"))))
  (core func $http (canon lower (func $host "http-request") (memory (core memory $l "memory"))
    (realloc (core func $l "realloc"))))
  (core func $invoke (canon lower (func $host "tool-invoke") (memory (core memory $l "memory"))
    (realloc (core func $l "realloc"))))
  (core func $secret (canon lower (func $host "secret-exists") (memory (core memory $l "memory"))))
  (core module $main
    (import "m" "memory" (memory 2))
    (import "m" "realloc" (func $alloc (param i32 i32 i32 i32) (result i32)))
    (import "h" "log" (func $log (param i32 i32 i32)))
    (import "h" "now" (func $now (result i64)))
    (import "h" "read" (func $read (param i32 i32 i32)))
    (import "h" "http" (func $http (param {core_http})))
    (import "h" "invoke" (func $invoke (param i32 i32 i32 i32 i32)))
    (import "h" "secret" (func $secret (param i32 i32) (result i32)))
    {library}
    {extra}
    (func (export "schema") (result i32) {stored(schema_at)})
    (func (export "description") (result i32) {stored(said)})
    (func (export "execute") (param $p i32) (param $n i32) (param $cd i32) (param $cp i32)
        (param $cn i32) (result i32) (local $r i32) (local $i i32) (local $j i32)
      (local.set $r (i32.const 512))
      {body}
      {echo}
      {answer}
      (i32.const 32))
    {text.data}
    {start})
  (core instance $i (instantiate $main (with "m" (instance $l)) (with "h" (instance
    (export "log" (func $log)) (export "now" (func $now)) (export "read" (func $read))
    (export "http" (func $http)) (export "invoke" (func $invoke))
    (export "secret" (func $secret))))))
  (type $rq (record (field "params" string) (field "context" (option string))))
  {response}
  (func $execute (param "req" $rq) (result $rs) (canon lift (core func $i "execute")
    (memory (core memory $l "memory")) (realloc (core func $l "realloc"))))
  (func $schema (result string)
    (canon lift (core func $i "schema") (memory (core memory $l "memory"))))
  (func $description (result string)
    (canon lift (core func $i "description") (memory (core memory $l "memory"))))
  (component $shape
    (type $q (record (field "params" string) (field "context" (option string))))
    {shape_types}
    (import "q" (type $Q (eq $q))) (import "s" (type $S (eq $s)))
    (import "e" (func $e (param "req" $Q) (result $S)))
    (import "f" (func $f (result string))) (import "g" (func $g (result string)))
    (export $Q2 "request" (type $Q)) {shape_exports}
    (export "execute" (func $e) (func (param "req" $Q2) (result $S2)))
    (export "schema" (func $f)) (export "description" (func $g)))
  (instance $tool (instantiate $shape (with "q" (type $rq)) (with "s" (type $rs)) {shape_with}
    (with "e" (func $execute)) (with "f" (func $schema)) (with "g" (func $description))))
  (export "{package}/tool{at}" (instance $tool)))"""


def tour(version: str | None = "0.3.0", http_params: int = 5) -> str:
    """A tool that uses every host function and answers with what they gave."""
    t = Text()
    none = "(i32.const 0) (i32.const 0) (i32.const 0)"
    timeout = "(i32.const 1) (i32.const 1500)" if http_params == 5 else ""
    no_timeout = "(i32.const 0) (i32.const 0)" if http_params == 5 else ""
    message = 16 if version == "0.4.1" else 4
    body = f"""
      (call $log (i32.const 2) {t("from wat")})
      (call $put {t('{"now":')}) (call $bool (i64.gt_u (call $now) (i64.const 0)))
      (call $read {t("notes/a.txt")} (local.get $r))
      (call $put {t(',"document":')}) (call $option (local.get $r))
      (call $read {t("notes/none.txt")} (local.get $r))
      (call $put {t(',"missing":')}) (call $option (local.get $r))
      (call $put {t(',"secret":')}) (call $bool (call $secret {t("API_KEY")}))
      (call $put {t(',"no_secret":')}) (call $bool (call $secret {t("OTHER")}))
      (call $http {t("POST")} {t("https://api.example.com/v1/x")} {t('{"x-a":"1"}')}
        (i32.const 1) {t("body")} {timeout} (local.get $r))
      (call $put {t(',"status":')})
      (if (i32.load8_u (local.get $r)) (then (call $number (i32.const 0)))
        (else (call $number (i32.load16_u offset=4 (local.get $r)))))
      (call $put {t(',"answer":"')})
      (call $put (i32.load offset=16 (local.get $r)) (i32.load offset=20 (local.get $r)))
      (call $http {t("GET")} {t("https://denied.example.org/")} {t("{}")}
        {none} {no_timeout} (local.get $r))
      (call $put {t('","denied":"')})
      (call $put (i32.load offset={message} (local.get $r))
        (i32.load offset={message + 4} (local.get $r)))
      (call $invoke {t("adder")} {t('{"a":1,"b":2}')} (local.get $r))
      (call $put {t('","sum":')})
      (call $put (i32.load offset=4 (local.get $r)) (i32.load offset=8 (local.get $r)))
      (call $put {t("}")})"""
    return tool(body, version=version, text=t, http_params=http_params)
