//! The built-in hooks, with real repositories, a bare remote, and a `gh` that remembers how it was called. Each test looks
//! afterwards whether a commit is lost or something is left in progress.

mod merge;
mod pull_request;
mod rebase;
mod rescue;
mod tests;
