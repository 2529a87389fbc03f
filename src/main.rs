//! The `creel` program.

fn main() {}
