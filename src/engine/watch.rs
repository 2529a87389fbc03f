//! Watches a pull request until it is merged: what the forge says becomes pending items.

pub mod forge;
