//! What is fuzzed, and what has to hold for every input. Each returns a few words about what became of the input.

pub mod acp;
pub mod config;
pub mod journal;
pub mod output;
pub mod reader;
pub mod socket;
pub mod template;

use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

/// A runtime for targets that are async, one for each thread of the suite.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// A folder of this test program, for targets that need one.
pub static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// Text as a class of outcomes: without what is in quotes, and without numbers.
pub fn class(text: &str) -> String {
    let outside = text.split(['`', '"', '\'']).step_by(2).collect::<String>();
    let letters: String = outside.chars().filter(|c| c.is_alphabetic() || *c == ' ').take(200).collect();
    letters.split(' ').filter(|word| !word.is_empty()).take(14).collect::<Vec<_>>().join(" ")
}
