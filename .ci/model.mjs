// A model on the loopback interface that speaks Anthropic's messages API, for agents that run without
// an account: the agents' end-to-end checks start it in their own process. It answers what a plan
// says, and keeps every request.
import http from "node:http";

/** Returns the blocks of a message. */
export const blocksOf = ({ content }) =>
  typeof content === "string" ? [{ type: "text", text: content }] : content ?? [];

/**
 * Starts a model. `plans` has, for a prompt, the tool calls of each response: `[{name, input}]`.
 * A response after the last of them, or to any other prompt, is text.
 */
export async function startModel(plans = {}) {
  const requests = [];
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
      const asked = request.method === "POST" ? JSON.parse(body) : {};
      const json = (status, value) => {
        response.writeHead(status, { "content-type": "application/json" });
        response.end(JSON.stringify(value));
      };
      const path = request.url.split("?")[0];
      if (path.endsWith("/count_tokens")) return json(200, { input_tokens: 1000 });
      if (!path.endsWith("/v1/messages")) return json(404, { type: "error", error: { type: "not_found_error", message: path } });
      const message = answer(plans, asked, requests.length + 1);
      requests.push({ ...asked, answer: message });
      response.setHeader("request-id", `req_${message.id}`);
      if (asked.stream) stream(response, message);
      else json(200, message);
    });
  });
  // Agents get the model as their proxy too, so that nothing leaves the machine.
  server.on("connect", (request, socket) => socket.destroy());
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  const environment = { HTTP_PROXY: url, HTTPS_PROXY: url, NO_PROXY: "127.0.0.1" };
  return { url, requests, environment, close };
}

/** Returns the response to a request. Its numbers tell it apart from every other one. */
function answer(plans, { messages, model, tools, thinking }, number) {
  const says = (message, prompt) =>
    message.role === "user" && blocksOf(message).some((block) => block.text?.includes(prompt));
  // The prompt that was asked last decides.
  const asked = Object.keys(plans)
    .map((prompt) => ({ prompt, at: messages.findLastIndex((message) => says(message, prompt)) }))
    .reduce((last, one) => (one.at > last.at ? one : last), { at: -1 });
  const since = messages.slice(asked.at + 1);
  const isOver = since.some((message) => message.role === "user" && !blocksOf(message).some((block) => block.type === "tool_result"));
  const done = since.filter((message) => message.role === "assistant").length;
  const calls = asked.at < 0 || isOver || !tools?.length ? [] : plans[asked.prompt][done] ?? [];
  const content = [
    ...(thinking && thinking.type !== "disabled" ? [{ type: "thinking", thinking: `thought ${number}`, signature: "c2lnbmVk" }] : []),
    { type: "text", text: says(messages.at(-1), "<summary>") ? `<summary>answer ${number}</summary>` : `answer ${number}` },
    ...calls.map((call, index) => ({ type: "tool_use", id: `toolu_${number}_${index}`, ...call })),
  ];
  const usage = {
    input_tokens: 10 + number, output_tokens: 20 + number, cache_read_input_tokens: 1000,
    cache_creation_input_tokens: 100, cache_creation: { ephemeral_5m_input_tokens: 60, ephemeral_1h_input_tokens: 40 },
  };
  const stop = { stop_reason: calls.length > 0 ? "tool_use" : "end_turn", stop_sequence: null };
  return { id: `msg_${String(number).padStart(4, "0")}`, type: "message", role: "assistant", model, content, ...stop, usage };
}

/** Sends a response as a stream of events. */
function stream(response, { content, stop_reason, stop_sequence, usage, ...message }) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (type, fields) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  const beginning = { content: [], stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 1 } };
  send("message_start", { message: { ...message, ...beginning } });
  for (const [index, block] of content.entries()) {
    const { empty, deltas } = pieces(block);
    send("content_block_start", { index, content_block: empty });
    for (const delta of deltas) send("content_block_delta", { index, delta });
    send("content_block_stop", { index });
  }
  send("message_delta", { delta: { stop_reason, stop_sequence }, usage });
  send("message_stop", {});
  response.end();
}

/** Returns a block without its contents, and the deltas that fill it. */
function pieces(block) {
  if (block.type === "text") return { empty: { ...block, text: "" }, deltas: [{ type: "text_delta", text: block.text }] };
  if (block.type === "tool_use") {
    return { empty: { ...block, input: {} }, deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(block.input) }] };
  }
  const { thinking, signature } = block;
  return {
    empty: { ...block, thinking: "", signature: "" },
    deltas: [{ type: "thinking_delta", thinking }, { type: "signature_delta", signature }],
  };
}
