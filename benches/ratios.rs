//! Placeholder until the figures are merged.

fn main() {}
