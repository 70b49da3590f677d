/* The tool @NAME@. */
#include "host.h"

static text tool_description(void) { return T("Greet a person."); }

static text tool_schema(void) {
  return T("{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\","
           "\"description\":\"Whom to greet.\"}},\"required\":[\"who\"]}");
}

static int tool_execute(text params, text *answer) {
  text who;
  if (!json_string(params, T("who"), &who)) {
    *answer = T("who must be text");
    return 0;
  }
  host_log(LOG_INFO, JOIN(T("greeting "), who));
  *answer = JOIN(T("{\"greeting\":\"Hello "), who, T(".\"}"));
  return 1;
}
