"""WebAssembly text for what is not of the tool world: commands, typed components, broken things."""

from __future__ import annotations

PREVIEW1 = "wasi_snapshot_preview1"

_IMPORTS = f"""
  (import "{PREVIEW1}" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "{PREVIEW1}" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "{PREVIEW1}" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "{PREVIEW1}" "proc_exit" (func $exit (param i32)))
  (import "{PREVIEW1}" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))"""


def command(body: str, *, extra: str = "", memory: str = "2") -> str:
    """A preview 1 command. `$say` writes memory to a descriptor; 4096 to 65535 is free."""
    return f"""(module {_IMPORTS}
  (memory (export "memory") {memory})
  (func $say (param $fd i32) (param $p i32) (param $n i32) (result i32)
    (i32.store (i32.const 0) (local.get $p)) (i32.store (i32.const 4) (local.get $n))
    (call $write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
  (func $sleep (param $nanoseconds i64)
    (i64.store (i32.const 128) (i64.const 7)) (i64.store (i32.const 136) (i64.const 0))
    (i64.store (i32.const 144) (i64.const 1)) (i64.store (i32.const 152) (local.get $nanoseconds))
    (i64.store (i32.const 160) (i64.const 0)) (i64.store (i32.const 168) (i64.const 0))
    (drop (call $poll (i32.const 128) (i32.const 192) (i32.const 1) (i32.const 224))))
  {extra}
  (func (export "_start") (local $n i32) (local $i i32)
    {body}))"""


ECHO = command("""
    (i32.store (i32.const 16) (i32.const 4104)) (i32.store (i32.const 20) (i32.const 50000))
    (drop (call $read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 24)))
    (local.set $n (i32.load (i32.const 24)))
    (i64.store (i32.const 4096) (i64.const 0x3a226f6863227b)) ;; {"cho":
    (i64.store (i32.const 4096) (i64.const 0x3a226f686365227b)) ;; {"echo":
    (i32.store8 (i32.add (i32.const 4104) (local.get $n)) (i32.const 125))
    (drop (call $say (i32.const 1) (i32.const 4096) (i32.add (local.get $n) (i32.const 9))))""")

FLOOD = command("""
    (memory.fill (i32.const 4096) (i32.const 120) (i32.const 61440))
    (loop $again
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (if (i32.eqz (call $say (i32.const 1) (i32.const 4096) (i32.const 61440)))
        (then (br_if $again (i32.lt_u (local.get $i) (i32.const 17500))))))""")

SLEEP = command("(call $sleep (i64.const 3600000000000))")
NAP = command("""(call $sleep (i64.const 1000000))
    (i32.store (i32.const 4096) (i32.const 0x65757274)) ;; true
    (drop (call $say (i32.const 1) (i32.const 4096) (i32.const 4)))""")
EXIT = command("""
    (i64.store (i32.const 4096) (i64.const 0x20646f6f67206f6e)) ;; no good
    (drop (call $say (i32.const 2) (i32.const 4096) (i32.const 8))) (call $exit (i32.const 7))""")


def sleeper(version: str = "0.2.3") -> str:
    """A typed component whose `nap` sleeps for some nanoseconds by a WASI timer."""
    return f"""(component
  (import "wasi:io/poll@{version}" (instance $poll
    (export "pollable" (type $P (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $P))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@{version}" (instance $clock
    (alias outer 1 $pollable (type $p))
    (export "now" (func (result u64)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $p))))))
  (core func $subscribe (canon lower (func $clock "subscribe-duration")))
  (core func $now (canon lower (func $clock "now")))
  (core func $block (canon lower (func $poll "[method]pollable.block")))
  (core module $m
    (import "c" "s" (func $subscribe (param i64) (result i32)))
    (import "c" "b" (func $block (param i32)))
    (import "c" "n" (func $now (result i64)))
    (func (export "nap") (param i64) (result i64) (local i64)
      (local.set 1 (call $now))
      (call $block (call $subscribe (local.get 0)))
      (i64.sub (call $now) (local.get 1))))
  (core instance $i (instantiate $m (with "c" (instance (export "s" (func $subscribe))
    (export "b" (func $block)) (export "n" (func $now))))))
  (func (export "nap") (param "nanoseconds" u64) (result u64)
    (canon lift (core func $i "nap"))))"""


def typed(*functions: str, libc: str = "") -> str:
    """A component with a memory `$l` and these exported functions, each whole."""
    return f"""(component
  (core module $libc (memory (export "memory") 4) (global $top (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.set $top (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.get $top) (global.set $top (i32.add (global.get $top) (local.get 3))))
    {libc})
  (core instance $l (instantiate $libc))
  {" ".join(functions)})"""
