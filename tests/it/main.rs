//! The integration tests, as one binary.

mod invariants;
mod stories;
mod support;
