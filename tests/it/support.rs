//! Builders that the tests share.

pub mod world;
