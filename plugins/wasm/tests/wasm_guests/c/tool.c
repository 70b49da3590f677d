/* Uses every host function, and can misbehave when asked. */
#include "host.h"

static text tool_description(void) { return T("a tool in C"); }

static text tool_schema(void) {
  return T("{\"type\":\"object\",\"properties\":{\"op\":{\"type\":\"string\"}}}");
}

static text quoted(text value) { return JOIN(T("\""), value, T("\"")); }
static text truth(int value) { return value ? T("true") : T("false"); }

static text tour(void) {
  text document = T("null"), missing, error = T(""), sum = T(""), body = T("body");
  http_response answer = {0, T(""), T("")}, none;
  host_log(LOG_INFO, T("from c"));
  text now = truth(host_now_millis() > 0);
  if (host_workspace_read(T("notes/a.txt"), &document)) document = quoted(document);
  int found = host_workspace_read(T("notes/none.txt"), &missing);
  host_http_request(T("POST"), T("https://api.example.com/v1/x"), T("{\"x-a\":\"1\"}"), &body, 1500,
                    &answer, &error);
  host_http_request(T("GET"), T("https://denied.example.org/"), T("{}"), 0, 0, &none, &error);
  if (!host_tool_invoke(T("adder"), T("{\"a\":1,\"b\":2}"), &sum)) sum = quoted(sum);
  return JOIN(T("{\"now\":"), now, T(",\"document\":"), document, T(",\"missing\":"),
              found ? T("\"?\"") : T("null"), T(",\"secret\":"),
              truth(host_secret_exists(T("API_KEY"))), T(",\"no_secret\":"),
              truth(host_secret_exists(T("OTHER"))), T(",\"status\":"), number(answer.status),
              T(",\"answer\":"), quoted(answer.body), T(",\"denied\":"), quoted(error),
              T(",\"sum\":"), sum, T("}"));
}

static volatile u32 sink;

static int tool_execute(text params, text *answer) {
  text op = T("echo");
  json_string(params, T("op"), &op);
  if (equal(op, T("tour"))) *answer = tour();
  else if (equal(op, T("loop"))) for (;;) sink++;
  else if (equal(op, T("crash"))) __builtin_trap();
  else if (equal(op, T("memory"))) for (;;) *(volatile u8 *)allocate(1 << 20, 1) = 1;
  else if (equal(op, T("fail"))) {
    *answer = T("told to fail");
    return 0;
  } else *answer = JOIN(T("{\"echo\":"), params, T("}"));
  return 1;
}
