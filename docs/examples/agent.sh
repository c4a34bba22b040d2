#!/bin/sh
# An agent that keeps its session in a ledger. Every line of standard input is a prompt.
key=agent:main:main

# Stands for a call of a model: reads messages, prints an answer.
model() {
    said=$(grep -o '"role":"user"' | wc -l)
    printf '{"role":"assistant","content":"You have said %d things.","model":"parrot"}\n' "$said"
}

# If the key already has a session, this fails and the session is continued.
quipu session new --key "$key" >/dev/null 2>&1

while IFS= read -r prompt; do
    quipu session begin "$key" --text "$prompt" >/dev/null || exit
    leaf=$(quipu session leaf "$key") || exit
    answer=$(quipu session context "$key" --json | model) || exit
    # If another writer appended since, this fails and prints the leaf. A session that becomes too
    # long for its model is compacted.
    printf '%s\n' "$answer" |
        quipu session append "$key" --expect-leaf "$leaf" --auto-compact >/dev/null || exit
    printf '%s\n' "$answer"
done
