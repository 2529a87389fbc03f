//! Whole configs, and what is said about them.
