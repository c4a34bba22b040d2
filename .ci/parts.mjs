// Compares what an agent sent to a model with quipu's context, part by part: texts, thoughts, calls
// and results. How parts are grouped into messages is each agent's own way of sending.
import { blocksOf } from "./model.mjs";

const textOf = (content) => blocksOf({ content }).map((block) => block.text ?? block.type).join("\n");

/** Joins texts of one role that follow each other, as agents do when they send them. */
function joined(parts) {
  const out = [];
  for (const [kind, text, ...rest] of parts) {
    const last = out.at(-1);
    if (kind === "user" && last?.[0] === "user") last[1] += `\n${text}`;
    else out.push([kind, text, ...rest]);
  }
  return out;
}

/** Returns the parts of a request's messages. `clean` returns what a user said in a text, if anything. */
export function sentParts(messages, clean) {
  const said = messages.filter((message) => message.role !== "system");
  return joined(said.flatMap(({ role, content }) => blocksOf({ content }).flatMap((block) => {
    if (block.type === "tool_result") return [["result", block.tool_use_id, textOf(block.content), block.is_error ?? false]];
    if (block.type === "tool_use") return [["call", block.id, block.name, block.input]];
    if (block.type === "thinking") return [["thinking", block.thinking, block.signature]];
    const text = role === "user" ? clean(block.text) : block.text;
    return text === undefined ? [] : [[role, text.trimEnd()]];
  })));
}

/** Returns the parts of the messages of `quipu session context`. */
export function ownParts(messages) {
  return joined(messages.flatMap(({ role, content, ...message }) => {
    if (role === "compactionSummary") return [["user", message.summary.trimEnd()]];
    if (role === "toolResult") return [["result", message.toolCallId, textOf(content), message.isError]];
    return blocksOf({ content }).map((block) => {
      if (block.type === "toolCall") return ["call", block.id, block.name, block.arguments];
      if (block.type === "thinking") return ["thinking", block.thinking, block.thinkingSignature];
      return [role, block.text.trimEnd()];
    });
  }));
}

/** Compares two lists of parts; an error names the place and the kinds, never the text. */
export function same(what, theirs, ours) {
  for (let index = 0; index < Math.max(theirs.length, ours.length); index += 1) {
    const [a, b] = [theirs[index], ours[index]].map((part) => JSON.stringify(part));
    if (a === b) continue;
    const kind = (part, json) => (part ? `${part[0]} of ${json.length} bytes` : "nothing");
    throw new Error(`${what}: part ${index + 1} of ${theirs.length} is ${kind(theirs[index], a)}, in quipu ${kind(ours[index], b)}`);
  }
}
