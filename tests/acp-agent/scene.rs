//! The current request, and the results of its steps so far.

use std::path::PathBuf;

use serde_json::Value;

use crate::step::Habit;

pub(crate) struct Scene {
    pub(crate) kind: Kind,
    /// Null before the first request.
    pub(crate) id: Value,
    pub(crate) session: String,
    pub(crate) cwd: PathBuf,
    pub(crate) prompt: String,
    /// Which prompt it is, from 1.
    pub(crate) turn: u64,
    pub(crate) cancelled: bool,
    pub(crate) ignores_cancel: bool,
    pub(crate) answered: bool,
    pub(crate) habit: Habit,
    pub(crate) questions: Vec<Question>,
    /// The client's answer to the last answered question.
    pub(crate) outcome: String,
    /// The last terminal that the client created.
    pub(crate) terminal: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Start,
    NewSession,
    Prompt,
    Other,
}

pub(crate) struct Question {
    pub(crate) name: Option<String>,
    pub(crate) id: u64,
    pub(crate) options: Value,
    /// None until the client has answered.
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

    /// Whether it ends before its steps do.
    pub(crate) fn is_cut(&self) -> bool {
        self.cancelled && !self.ignores_cancel && !self.answered
    }

    pub(crate) fn is_prompt_of(&self, session: &Value) -> bool {
        self.kind == Kind::Prompt && *session == *self.session
    }
}
