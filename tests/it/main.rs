//! Tests with real processes, files and terminals: one binary, one module a part.

mod agents;
mod output;
mod process;
mod quoting;
mod support;
