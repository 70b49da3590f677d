;; The tool @NAME@ in WebAssembly text: no toolchain, nothing hidden.
;;
;; It answers {"you_sent": ARGUMENTS}. Texts live in the `data` segments; the number beside a text
;; is its length in bytes, so change both together.

(component
  (import "near:agent/host@0.3.0" (instance $host
    (type $levels (enum "trace" "debug" "info" "warn" "error"))
    (export "log-level" (type $level (eq $levels)))
    (export "log" (func (param "level" $level) (param "message" string)))))

  ;; Memory, and the one function that the host needs to put text into it.
  (core module $memory
    (memory (export "memory") 2)
    (global $free (mut i32) (i32.const 65536))
    (func (export "realloc") (param $old i32) (param $old_bytes i32) (param $align i32)
        (param $bytes i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
      (global.set $free (i32.add (local.get $at) (local.get $bytes)))
      (block $enough (loop $more
        (br_if $enough
          (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
        (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))
        (br $more)))
      (local.get $at)))
  (core instance $memory (instantiate $memory))
  (core func $log (canon lower (func $host "log") (memory (core memory $memory "memory"))))

  (core module $tool
    (import "env" "memory" (memory 2))
    (import "env" "realloc" (func $allocate (param i32 i32 i32 i32) (result i32)))
    (import "host" "log" (func $log (param i32 i32 i32)))

    (data (i32.const 1024) "Say back what it was given.")                      ;; 27
    (data (i32.const 2048) "{\22type\22:\22object\22,\22properties\22:{\22text\22:{\22type\22:\22string\22}}}")  ;; 57
    (data (i32.const 3072) "{\22you_sent\22:")                                   ;; 12
    (data (i32.const 3100) "called")                                           ;; 6

    ;; A text is answered as a pointer to its address and length; 16 to 63 hold answers.
    (func $text (param $at i32) (param $length i32) (result i32)
      (i32.store (i32.const 16) (local.get $at))
      (i32.store (i32.const 20) (local.get $length))
      (i32.const 16))
    (func (export "description") (result i32) (call $text (i32.const 1024) (i32.const 27)))
    (func (export "schema") (result i32) (call $text (i32.const 2048) (i32.const 57)))

    (func (export "execute") (param $params i32) (param $length i32)
        (param $has_context i32) (param $context i32) (param $context_length i32) (result i32)
      (local $answer i32)
      (call $log (i32.const 2) (i32.const 3100) (i32.const 6))  ;; level 2 is info
      (local.set $answer (call $allocate (i32.const 0) (i32.const 0) (i32.const 1)
        (i32.add (local.get $length) (i32.const 13))))
      (memory.copy (local.get $answer) (i32.const 3072) (i32.const 12))
      (memory.copy (i32.add (local.get $answer) (i32.const 12))
        (local.get $params) (local.get $length))
      (i32.store8 (i32.add (local.get $answer) (i32.add (local.get $length) (i32.const 12)))
        (i32.const 125))                                         ;; }
      ;; {output: some(answer), error: none}
      (i32.store (i32.const 32) (i32.const 1))
      (i32.store (i32.const 36) (local.get $answer))
      (i32.store (i32.const 40) (i32.add (local.get $length) (i32.const 13)))
      (i32.store (i32.const 44) (i32.const 0))
      (i32.const 32)))

  (core instance $instance (instantiate $tool
    (with "env" (instance $memory))
    (with "host" (instance (export "log" (func $log))))))

  ;; From here on: the types of the world, and the three functions under their names in it.
  (type $request (record (field "params" string) (field "context" (option string))))
  (type $response (record (field "output" (option string)) (field "error" (option string))))
  (func $execute (param "req" $request) (result $response)
    (canon lift (core func $instance "execute")
      (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (func $schema (result string)
    (canon lift (core func $instance "schema") (memory (core memory $memory "memory"))))
  (func $description (result string)
    (canon lift (core func $instance "description") (memory (core memory $memory "memory"))))
  (component $interface
    (type $q (record (field "params" string) (field "context" (option string))))
    (type $s (record (field "output" (option string)) (field "error" (option string))))
    (import "request" (type $request (eq $q)))
    (import "response" (type $response (eq $s)))
    (import "execute" (func $execute (param "req" $request) (result $response)))
    (import "schema" (func $schema (result string)))
    (import "description" (func $description (result string)))
    (export $request_out "request" (type $request))
    (export $response_out "response" (type $response))
    (export "execute" (func $execute) (func (param "req" $request_out) (result $response_out)))
    (export "schema" (func $schema))
    (export "description" (func $description)))
  (instance $world (instantiate $interface
    (with "request" (type $request)) (with "response" (type $response))
    (with "execute" (func $execute)) (with "schema" (func $schema))
    (with "description" (func $description))))
  (export "near:agent/tool@0.3.0" (instance $world)))
