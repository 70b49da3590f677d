/* The tool world near:agent@0.3.0 for C, without a libc: include it once, in tool.c.
 *
 * You write: `tool_description`, `tool_schema` and `tool_execute`. You call: `host_…`.
 * Text is a pointer and a length, never zero-terminated. Memory is given back when the call ends. */
#ifndef HOST_H
#define HOST_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef __SIZE_TYPE__ size;

typedef struct { const char *at; u32 length; } text;

enum log_level { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

typedef struct { u32 status; text headers; text body; } http_response;

/* what you write */
static text tool_description(void);
static text tool_schema(void);
/* The answer goes to `*answer`; return 1 for a result, 0 for an error. */
static int tool_execute(text params, text *answer);

/* memory ------------------------------------------------------------------------------------- */

extern u8 __heap_base;
static u32 heap_top;

static void *allocate(u32 bytes, u32 alignment) {
  if (!heap_top) heap_top = (u32)&__heap_base;
  u32 start = (heap_top + alignment - 1) & ~(alignment - 1);
  u32 end = start + bytes, have = __builtin_wasm_memory_size(0) * 65536u;
  if (end < start) __builtin_trap();
  if (end > have && __builtin_wasm_memory_grow(0, (end - have + 65535u) / 65536u) == (size)-1)
    __builtin_trap();
  heap_top = end;
  return (void *)start;
}

/* The compiler calls these even without a libc; `volatile` keeps them from calling themselves. */
void *memcpy(void *to, const void *from, size bytes) {
  volatile u8 *t = to;
  const u8 *f = from;
  while (bytes--) *t++ = *f++;
  return to;
}
void *memset(void *to, int value, size bytes) {
  volatile u8 *t = to;
  while (bytes--) *t++ = (u8)value;
  return to;
}

__attribute__((export_name("cabi_realloc"), used)) void *
cabi_realloc(void *old, u32 old_bytes, u32 alignment, u32 bytes) {
  void *made = allocate(bytes, alignment);
  if (old) memcpy(made, old, old_bytes < bytes ? old_bytes : bytes);
  return made;
}

/* text --------------------------------------------------------------------------------------- */

static u32 length_of(const char *zero_terminated) {
  u32 n = 0;
  while (zero_terminated[n]) n++;
  return n;
}
static text T(const char *zero_terminated) {
  return (text){zero_terminated, length_of(zero_terminated)};
}
static int equal(text a, text b) {
  if (a.length != b.length) return 0;
  for (u32 i = 0; i < a.length; i++)
    if (a.at[i] != b.at[i]) return 0;
  return 1;
}
static text joined(u32 count, const text *pieces) {
  u32 n = 0;
  for (u32 i = 0; i < count; i++) n += pieces[i].length;
  char *made = allocate(n, 1), *at = made;
  for (u32 i = 0; i < count; i++) {
    memcpy(at, pieces[i].at, pieces[i].length);
    at += pieces[i].length;
  }
  return (text){made, n};
}
#define JOIN(...) joined(sizeof((text[]){__VA_ARGS__}) / sizeof(text), (text[]){__VA_ARGS__})

static text number(u64 value) {
  char *end = (char *)allocate(20, 1) + 20, *at = end;
  do *--at = (char)('0' + value % 10);
  while (value /= 10);
  return (text){at, (u32)(end - at)};
}

/* The string under a top-level key of a JSON object, escapes left as they are. Enough for small
 * arguments; bring a JSON library for more. */
static int json_string(text json, text key, text *value) {
  int depth = 0;
  for (u32 i = 0; i < json.length; i++) {
    char c = json.at[i];
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
    if (c != '"') continue;
    u32 start = ++i;
    while (i < json.length && json.at[i] != '"') i += json.at[i] == '\\' ? 2 : 1;
    text name = {json.at + start, i - start};
    u32 j = i + 1;
    while (j < json.length && (json.at[j] == ' ' || json.at[j] == '\n')) j++;
    if (depth != 1 || j >= json.length || json.at[j] != ':' || !equal(name, key)) continue;
    for (j++; j < json.length && (json.at[j] == ' ' || json.at[j] == '\n'); j++) {}
    if (j >= json.length || json.at[j] != '"') return 0;
    start = ++j;
    while (j < json.length && json.at[j] != '"') j += json.at[j] == '\\' ? 2 : 1;
    if (j >= json.length) return 0;
    *value = (text){json.at + start, j - start};
    return 1;
  }
  return 0;
}

/* the host ----------------------------------------------------------------------------------- */

#define HOST(name) __attribute__((import_module("near:agent/host@0.3.0"), import_name(name)))
HOST("log") void abi_log(u32, const char *, u32);
HOST("now-millis") u64 host_now_millis(void);
HOST("workspace-read") void abi_read(const char *, u32, u32 *);
HOST("http-request") void abi_http(const char *, u32, const char *, u32, const char *, u32, u32,
                                   const char *, u32, u32, u32, u32 *);
HOST("tool-invoke") void abi_invoke(const char *, u32, const char *, u32, u32 *);
HOST("secret-exists") u32 abi_secret(const char *, u32);

__attribute__((unused)) static void host_log(enum log_level level, text message) {
  abi_log(level, message.at, message.length);
}
/* 1 and the document, or 0. */
__attribute__((unused)) static int host_workspace_read(text path, text *document) {
  u32 result[3];
  abi_read(path.at, path.length, result);
  if (!(result[0] & 255)) return 0;
  *document = (text){(const char *)result[1], result[2]};
  return 1;
}
/* 1 and the answer, or 0 and the error. `body` may be 0; a timeout of 0 is the capability's own. */
__attribute__((unused)) static int host_http_request(text method, text url, text headers_json,
                                                     const text *body, u32 timeout_ms,
                                                     http_response *answer, text *error) {
  u32 r[6];
  abi_http(method.at, method.length, url.at, url.length, headers_json.at, headers_json.length,
           body != 0, body ? body->at : 0, body ? body->length : 0, timeout_ms != 0, timeout_ms, r);
  if (r[0] & 255) {
    *error = (text){(const char *)r[1], r[2]};
    return 0;
  }
  *answer = (http_response){
      r[1] & 65535, {(const char *)r[2], r[3]}, {(const char *)r[4], r[5]}};
  return 1;
}
/* 1 and the result as JSON, or 0 and the error. */
__attribute__((unused)) static int host_tool_invoke(text alias, text params_json, text *answer) {
  u32 r[3];
  abi_invoke(alias.at, alias.length, params_json.at, params_json.length, r);
  *answer = (text){(const char *)r[1], r[2]};
  return !(r[0] & 255);
}
__attribute__((unused)) static int host_secret_exists(text name) {
  return abi_secret(name.at, name.length) != 0;
}

/* what the host calls ------------------------------------------------------------------------ */

#define TOOL(name) __attribute__((export_name("near:agent/tool@0.3.0#" name), used))
static u32 abi_answer[6];

static u32 *abi_text(text said) {
  abi_answer[0] = (u32)said.at;
  abi_answer[1] = said.length;
  return abi_answer;
}
TOOL("description") u32 *abi_description(void) { return abi_text(tool_description()); }
TOOL("schema") u32 *abi_schema(void) { return abi_text(tool_schema()); }
TOOL("execute") u32 *abi_execute(const char *params, u32 length, u32 has_context,
                                 const char *context, u32 context_length) {
  (void)has_context, (void)context, (void)context_length;
  text answer = {"", 0};
  int failed = !tool_execute((text){params, length}, &answer);
  memset(abi_answer, 0, sizeof abi_answer);
  u32 *place = abi_answer + (failed ? 3 : 0);
  place[0] = 1;
  place[1] = (u32)answer.at;
  place[2] = answer.length;
  return abi_answer;
}
#endif
