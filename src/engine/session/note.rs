//! The completion note: what tells the agent how to report the end of its work.
//!
//! # Invariants
//! - The note stands at the end of iteration prompts only, and once in each conversation.
//! - A goal that mentions promises itself needs no note.
//! - An agent that repeats the note promises nothing: the tags in it are inline code.

use super::State;
use crate::engine::{conversation::Conversation, policy::Instructions};

/// The note. Orders from the queue end with it, too.
pub const COMPLETION_NOTE: &str = include_str!("../../../assets/prompts/completion.md");

/// What a goal contains that says itself how to report the end.
const MENTIONS_PROMISES: &str = "<promise>";

impl State {
    /// The note for an iteration prompt.
    pub(super) fn completion_note(&self, conversation: Conversation) -> Option<String> {
        let is_known = conversation == Conversation::Same;
        let text = match &self.plan().instructions {
            _ if is_known => return None,
            Instructions::None => return None,
            Instructions::Auto if self.began.prompt.contains(MENTIONS_PROMISES) => return None,
            Instructions::Auto => COMPLETION_NOTE,
            Instructions::Text(text) => text,
        };
        Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
    }
}
