// Uses every host function, and can misbehave when asked.
import {
  httpRequest, log, nowMillis, secretExists, toolInvoke, workspaceRead,
} from "near:agent/host@0.3.0";

function attempt(work) {
  try {
    return work();
  } catch (error) {
    return error.payload ?? String(error);
  }
}

function tour() {
  log("info", "from js");
  const body = Uint8Array.from("body", (letter) => letter.charCodeAt(0));
  const answer = httpRequest("POST", "https://api.example.com/v1/x", '{"x-a":"1"}', body, 1500);
  return {
    now: nowMillis() > 0n,
    document: workspaceRead("notes/a.txt") ?? null,
    missing: workspaceRead("notes/none.txt") ?? null,
    secret: secretExists("API_KEY"),
    no_secret: secretExists("OTHER"),
    status: answer.status,
    answer: String.fromCharCode(...answer.body),
    denied: attempt(() => httpRequest("GET", "https://denied.example.org/", "{}", undefined, undefined)),
    sum: JSON.parse(toolInvoke("adder", '{"a":1,"b":2}')),
  };
}

function run(params) {
  switch (params.op ?? "echo") {
    case "tour":
      return tour();
    case "loop":
      for (;;);
    case "memory": {
      const held = [];
      for (;;) held.push(new Uint8Array(1 << 20).fill(1));
    }
    case "fail":
      throw new Error("told to fail");
  }
  return { echo: params };
}

export const tool = {
  execute(req) {
    const params = JSON.parse(req.params);
    if (params.op === "crash") throw new Error("told to crash");
    try {
      return { output: JSON.stringify(run(params)), error: undefined };
    } catch (error) {
      return { output: undefined, error: String(error) };
    }
  },
  schema: () => '{"type":"object","properties":{"op":{"type":"string"}}}',
  description: () => "a tool in JavaScript",
};
