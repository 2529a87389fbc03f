//! The integration tests, as one binary.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks at the few kinds of events that it is about")]

mod invariants;
mod stories;
mod support;
