#!/bin/sh
# An agent that keeps its session in a ledger. Every line of standard input is a prompt.
key=agent:main:main

# Stands for the call of a model: messages in on standard input, an answer out.
model() {
    said=$(grep -o '"role":"user"' | wc -l)
    printf '{"role":"assistant","content":"You have said %d things.","model":"parrot"}\n' "$said"
}

# Whoever comes second finds the key taken, and goes on with it.
quipu session new --key "$key" >/dev/null 2>&1

while IFS= read -r prompt; do
    quipu session begin "$key" --text "$prompt" >/dev/null || exit
    leaf=$(quipu session leaf "$key") || exit
    answer=$(quipu session context "$key" --json | model) || exit
    # If somebody else went on meanwhile, this fails and names the leaf.
    printf '%s\n' "$answer" | quipu session append "$key" --expect-leaf "$leaf" >/dev/null || exit
    printf '%s\n' "$answer"
done
