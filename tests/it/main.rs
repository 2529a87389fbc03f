//! The integration tests, as one binary.

mod stories;
mod support;
