//! The terminal door.
fn main() {}
