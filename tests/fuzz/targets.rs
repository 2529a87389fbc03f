//! The fuzz targets, with the properties that every input must satisfy. Each target returns a short
//! description of what happened to the input.

pub mod acp;
pub mod config;
pub mod journal;
pub mod output;
pub mod reader;
pub mod socket;
pub mod template;

use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

/// A runtime for async targets, one per thread of the suite.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// A temporary folder of this test program.
pub static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// Classifies an outcome: its text without quoted parts and numbers.
pub fn class(text: &str) -> String {
    let outside = text.split(['`', '"', '\'']).step_by(2).collect::<String>();
    let letters: String = outside
        .chars()
        .filter(|c| c.is_alphabetic() || *c == ' ')
        .take(200)
        .collect();
    letters
        .split(' ')
        .filter(|word| !word.is_empty())
        .take(14)
        .collect::<Vec<_>>()
        .join(" ")
}
