//! The request that is being played, and what came out of its steps so far.

use std::path::PathBuf;

use serde_json::Value;

use crate::step::Habit;

pub(crate) struct Scene {
    pub(crate) kind: Kind,
    /// The id of the request, if it is one.
    pub(crate) id: Value,
    pub(crate) session: String,
    pub(crate) cwd: PathBuf,
    pub(crate) prompt: String,
    /// The how manyth prompt it is.
    pub(crate) turn: u64,
    pub(crate) cancelled: bool,
    pub(crate) ignores_cancel: bool,
    pub(crate) answered: bool,
    pub(crate) habit: Habit,
    pub(crate) questions: Vec<Question>,
    /// What the client said to the last question that was answered.
    pub(crate) outcome: String,
    /// The last terminal that the client made.
    pub(crate) terminal: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Start,
    NewSession,
    Prompt,
    Other,
}

/// A permission that was asked for.
pub(crate) struct Question {
    pub(crate) name: Option<String>,
    pub(crate) id: u64,
    pub(crate) options: Value,
    /// Whether the client allowed it, once it has answered.
    pub(crate) allowed: Option<bool>,
}

impl Scene {
    pub(crate) fn new(kind: Kind, id: Value, session: String, cwd: PathBuf) -> Self {
        Self {
            kind,
            id,
            session,
            cwd,
            prompt: String::new(),
            turn: 0,
            cancelled: false,
            ignores_cancel: false,
            answered: false,
            habit: Habit::Once,
            questions: Vec::new(),
            outcome: String::new(),
            terminal: String::new(),
        }
    }

    /// Whether it is over before its steps are.
    pub(crate) fn is_cut(&self) -> bool {
        self.cancelled && !self.ignores_cancel && !self.answered
    }

    pub(crate) fn is_prompt_of(&self, session: &Value) -> bool {
        self.kind == Kind::Prompt && *session == *self.session
    }
}
