//! Tracks how far a placeholder's value gets in a command line: which commands can read it.
//!
//! Owns the groups of the shell's grammar, `(…)`, `{ …; }`, `if`, loops and `case`, as far as a
//! pipe leads into them or out of them, and the variables that contain a value. Does not know which
//! command reads code: see [`super::simple_command`].
//!
//! # Invariants
//! - A pipeline's commands can read a value that is in the pipeline, in an earlier part of an
//!   enclosing pipeline, or anywhere in a group of it.
//! - A variable that was assigned a value counts as that value wherever it is used.
//! - Files are not tracked: a value that is written to a file and read again is not followed.

use super::Placeholder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupOpener {
    /// `(` or `$(`; also the outermost level.
    Parenthesis,
    Brace,
    If,
    Loop,
    Case,
}

#[derive(Debug)]
struct ShellGroup {
    opener: GroupOpener,
    /// The first value in the current pipeline.
    pipeline: Option<Placeholder>,
    /// The first value in earlier pipelines of the group.
    before: Option<Placeholder>,
    /// Whether the last token was `|`, with no command after it yet.
    piped: bool,
}

#[derive(Debug)]
pub(super) struct TaintTracker {
    /// From the outermost group inwards; never empty.
    groups: Vec<ShellGroup>,
    /// Variables that contain a value.
    held: Vec<(String, Placeholder)>,
}

impl Default for TaintTracker {
    fn default() -> Self {
        Self {
            groups: vec![ShellGroup::new(GroupOpener::Parenthesis)],
            held: Vec::new(),
        }
    }
}

impl ShellGroup {
    const fn new(opener: GroupOpener) -> Self {
        Self {
            opener,
            pipeline: None,
            before: None,
            piped: false,
        }
    }
}

impl TaintTracker {
    /// A value occurs at this position.
    pub(super) fn speak(&mut self, placeholder: &Placeholder) {
        self.group()
            .pipeline
            .get_or_insert_with(|| placeholder.clone());
    }

    /// The first value that a command ending here can read.
    pub(super) fn spoken(&self) -> Option<&Placeholder> {
        self.groups.iter().find_map(|group| group.pipeline.as_ref())
    }

    /// These variables are assigned the value.
    pub(super) fn hold(&mut self, names: &[&str], placeholder: &Placeholder) {
        self.held.extend(
            names
                .iter()
                .map(|name| ((*name).to_owned(), placeholder.clone())),
        );
    }

    /// The value in the variable whose name follows a `$`.
    pub(super) fn held(&self, after: &str) -> Option<&Placeholder> {
        let after = after
            .strip_prefix('{')
            .unwrap_or(after)
            .trim_start_matches(['#', '!']);
        let end = after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(after.len());
        let name = if end == 0 {
            after.get(..1).unwrap_or_default()
        } else {
            &after[..end]
        };
        self.held
            .iter()
            .find(|(held, _)| held == name)
            .map(|(_, placeholder)| placeholder)
    }

    /// After a `$`: whether a variable with a value follows. If so, the value occurs here.
    pub(super) fn mention(&mut self, after: &str) -> bool {
        let held = self.held(after).cloned();
        held.inspect(|placeholder| self.speak(placeholder))
            .is_some()
    }

    /// After a `|`.
    pub(super) fn pipe(&mut self) {
        self.group().piped = true;
    }

    pub(super) fn is_piped(&self) -> bool {
        self.groups.last().is_some_and(|group| group.piped)
    }

    /// The next command reads nothing that was written before it.
    pub(super) fn end_pipeline(&mut self) {
        let group = self.group();
        group.piped = false;
        let spoken = group.pipeline.take();
        group.before = group.before.take().or(spoken);
    }

    /// After a `(` or `$(`.
    pub(super) fn open(&mut self) {
        self.groups.push(ShellGroup::new(GroupOpener::Parenthesis));
    }

    /// After a `)`: closes its group and all groups still open inside it.
    pub(super) fn close(&mut self) {
        while self.groups.len() > 1 && self.leave() != GroupOpener::Parenthesis {}
        self.group().piped = false;
    }

    /// Whether the next `)` ends a pattern of a `case`.
    pub(super) fn in_case(&self) -> bool {
        self.groups
            .last()
            .is_some_and(|group| group.opener == GroupOpener::Case)
    }

    /// After a word. If it leads its command, it may be a keyword.
    pub(super) fn word(&mut self, word: &str, leads: bool) {
        let opened = match word {
            // A brace also opens a group after the name of a function.
            "{" => Some(GroupOpener::Brace),
            "if" if leads => Some(GroupOpener::If),
            "for" | "select" | "while" | "until" if leads => Some(GroupOpener::Loop),
            "case" if leads => Some(GroupOpener::Case),
            _ => None,
        };
        if let Some(opener) = opened {
            self.groups.push(ShellGroup::new(opener));
            return;
        }
        let closed = match word {
            "}" if leads => GroupOpener::Brace,
            "fi" if leads => GroupOpener::If,
            "done" if leads => GroupOpener::Loop,
            "esac" => GroupOpener::Case,
            _ => return,
        };
        if self.group().opener == closed {
            self.leave();
        }
    }

    fn leave(&mut self) -> GroupOpener {
        let Some(group) = self.groups.pop() else {
            return GroupOpener::Parenthesis;
        };
        if let Some(placeholder) = group.before.or(group.pipeline) {
            self.speak(&placeholder);
        }
        group.opener
    }

    fn group(&mut self) -> &mut ShellGroup {
        self.groups
            .last_mut()
            .expect("the one around all is never left")
    }
}
