# What a contributor does daily. `just` alone lists it; each line is a plain command, if `just` is not
# installed.

default:
    @just --list

# Format, lint and test: run it before a commit.
check: fmt lint test

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# All tests, or those whose name contains WORD.
test WORD="":
    cargo test --workspace --locked {{WORD}}

# The random tests with more cases than usual.
properties CASES="2000":
    PROPTEST_CASES={{CASES}} cargo test --release -p quipu-ledger --test it properties

# What runs every night: all tests, with random cases of each property instead of a few fixed ones.
nightly CASES="2000":
    PROPTEST_CASES={{CASES}} cargo test --release --workspace --locked

# Accept changed snapshots, after reading the difference.
accept:
    INSTA_UPDATE=always cargo test --workspace --locked

# Write the JSON Schemas of all commands to docs/json, after a type of `wire` has changed.
schemas:
    INSTA_UPDATE=always cargo test --locked -p quipu --test it schemas::the_documents

# Faults from outside, for a time such as 10m.
torture TIME="2m":
    cargo build --workspace --locked
    target/debug/quipu-torture --for {{TIME}}

# One benchmark, for example `just bench import --size 100MB`.
bench *ARGS:
    cargo build --release --locked -p quipu -p quipu-bench
    target/release/quipu-bench {{ARGS}}

# quipu together with the agents themselves: all checks, or for example `just e2e claude`.
e2e *CHECKS:
    .ci/e2e {{CHECKS}}

# Everything that CI runs.
ci:
    .ci/run
