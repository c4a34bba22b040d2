# An agent runtime with nothing but HTTP. Its model is a parrot.
# Usage: QUIPU_TOKEN=$(quipu token new runtime --scope write) python3 runtime.py URL KEY TEXT
import json, os, sys, urllib.request, uuid

url, key, text = sys.argv[1:4]
session = f"{url}/v1/sessions/{key}"

def call(method, address, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers |= {"Authorization": "Bearer " + os.environ["QUIPU_TOKEN"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data, headers, method=method)) as answer:
        return json.load(answer)

call("POST", f"{url}/v1/sessions", {"key": key, "or_existing": True})
turn = call("POST", f"{session}/begin", {"role": "user", "content": text}, Idempotency_Key=str(uuid.uuid4()))
context = call("GET", f"{session}/context")
answer = f"{text}, says the parrot, who was told {len(context['messages'])} things"
message = {"role": "assistant", "content": answer, "provider": "none", "model": "parrot"}
# If another writer came first, this is an error 409 that has the leaf.
call("POST", f"{session}/entries?auto_compact=true", message, Expected_Leaf=turn["leaf"], Idempotency_Key=str(uuid.uuid4()))
print(answer)
