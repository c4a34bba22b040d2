// An agent runtime with nothing but HTTP. Its model is a parrot.
// Usage: QUIPU_TOKEN=$(quipu token new runtime --scope write) node runtime.mjs URL KEY TEXT
const [url, key, text] = process.argv.slice(2);
const session = `${url}/v1/sessions/${key}`;

async function call(method, address, body, headers) {
  const own = { Authorization: `Bearer ${process.env.QUIPU_TOKEN}`, "Content-Type": "application/json" };
  const answer = await fetch(address, { method, body: body && JSON.stringify(body), headers: { ...own, ...headers } });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
const once = () => ({ "Idempotency-Key": crypto.randomUUID() });

await call("POST", `${url}/v1/sessions`, { key, or_existing: true });
const turn = await call("POST", `${session}/begin`, { role: "user", content: text }, once());
const context = await call("GET", `${session}/context`);
const answer = `${text}, says the parrot, who was told ${context.messages.length} things`;
const message = { role: "assistant", content: answer, provider: "none", model: "parrot" };
// If another writer came first, this is an error 409 that has the leaf.
await call("POST", `${session}/entries?auto_compact=true`, message, { "Expected-Leaf": turn.leaf, ...once() });
console.log(answer);
