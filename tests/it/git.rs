//! The built-in hooks, with real repositories, a bare remote, and a `gh` that records its calls.
//! Each test checks afterwards that no commit is lost and nothing is left in progress.

mod merge;
mod pull_request;
mod rebase;
mod rescue;
mod tests;
