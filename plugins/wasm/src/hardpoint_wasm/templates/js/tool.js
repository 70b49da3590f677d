// The tool @NAME@.
import { log } from "near:agent/host@0.3.0";

const SCHEMA = {
  type: "object",
  properties: { who: { type: "string", description: "Whom to greet." } },
  required: ["who"],
};

function run({ who }) {
  if (typeof who !== "string") throw new TypeError("who must be text");
  log("info", `greeting ${who}`);
  return { greeting: `Hello ${who}.` };
}

export const tool = {
  execute(req) {
    // An exception that leaves this function aborts the tool; the model sees an error instead.
    try {
      return { output: JSON.stringify(run(JSON.parse(req.params))), error: undefined };
    } catch (error) {
      return { output: undefined, error: String(error) };
    }
  },
  schema() {
    return JSON.stringify(SCHEMA);
  },
  description() {
    return "Greet a person.";
  },
};
