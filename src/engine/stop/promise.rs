//! What an agent promises in its last message: `<promise>COMPLETE</promise>` and its like.

/// A promise, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// The work is done.
    Complete,
    /// A person has to look.
    Escalate,
    /// It cannot go on.
    Blocked,
}

impl Promise {
    const ALL: [Self; 3] = [Self::Complete, Self::Escalate, Self::Blocked];

    /// The word inside the tag.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "COMPLETE",
            Self::Escalate => "ESCALATE",
            Self::Blocked => "BLOCKED",
        }
    }

    /// The strongest promise in a message.
    pub fn strongest(message: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|promise| message.contains(&format!("<promise>{}</promise>", promise.word())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_outranks_escalate_outranks_blocked() {
        let tag = |promise: Promise| format!("<promise>{}</promise>", promise.word());
        let both = format!("{} {}", tag(Promise::Blocked), tag(Promise::Escalate));
        assert_eq!(Promise::strongest(&both), Some(Promise::Escalate));
        assert_eq!(Promise::strongest(&format!("{both} {}", tag(Promise::Complete))), Some(Promise::Complete));
        assert_eq!(Promise::strongest("promise: COMPLETE"), None);
    }
}
