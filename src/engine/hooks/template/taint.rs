//! How far a value comes in a command line: which commands may read it.
//!
//! Owns the groups of the shell's grammar, `(…)`, `{ …; }`, `if`, loops and `case`, as far as a pipe goes into them or
//! out of them, and the variables that hold a value. Does not know which command reads code: see [`super::simple_command`].
//!
//! # Invariants
//! - A pipeline's commands may read what stands in it, before it in a pipeline around it, or anywhere in a group of it.
//! - What a variable was given is where the variable is.
//! - Files are nobody's: what is written to one and read again is not followed.

use super::Placeholder;

/// What a group was opened by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupOpener {
    /// `(` or `$(`; also what is around all.
    Parenthesis,
    Brace,
    If,
    Loop,
    Case,
}

#[derive(Debug)]
struct ShellGroup {
    opener: GroupOpener,
    /// The first value in the pipeline that is being read.
    pipeline: Option<Placeholder>,
    /// The first in those before it.
    before: Option<Placeholder>,
    /// Whether a `|` was read last, and no command after it.
    piped: bool,
}

/// Where the values are so far.
#[derive(Debug)]
pub(super) struct TaintTracker {
    /// From the outside; never empty.
    groups: Vec<ShellGroup>,
    /// Variables with a value in them.
    held: Vec<(String, Placeholder)>,
}

impl Default for TaintTracker {
    fn default() -> Self {
        Self { groups: vec![ShellGroup::new(GroupOpener::Parenthesis)], held: Vec::new() }
    }
}

impl ShellGroup {
    const fn new(opener: GroupOpener) -> Self {
        Self { opener, pipeline: None, before: None, piped: false }
    }
}

impl TaintTracker {
    /// A value stands here.
    pub(super) fn speak(&mut self, placeholder: &Placeholder) {
        self.group().pipeline.get_or_insert_with(|| placeholder.clone());
    }

    /// The first value that a command which ends here may read.
    pub(super) fn spoken(&self) -> Option<&Placeholder> {
        self.groups.iter().find_map(|group| group.pipeline.as_ref())
    }

    /// These variables get it.
    pub(super) fn hold(&mut self, names: &[&str], placeholder: &Placeholder) {
        self.held.extend(names.iter().map(|name| ((*name).to_owned(), placeholder.clone())));
    }

    /// The value in the variable whose name stands after a `$`.
    pub(super) fn held(&self, after: &str) -> Option<&Placeholder> {
        let after = after.strip_prefix('{').unwrap_or(after).trim_start_matches(['#', '!']);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let name = if end == 0 { after.get(..1).unwrap_or_default() } else { &after[..end] };
        self.held.iter().find(|(held, _)| held == name).map(|(_, placeholder)| placeholder)
    }

    /// A `$` was read: whether a variable comes that holds a value, which then stands here.
    pub(super) fn mention(&mut self, after: &str) -> bool {
        let held = self.held(after).cloned();
        held.inspect(|placeholder| self.speak(placeholder)).is_some()
    }

    /// After a `|`.
    pub(super) fn pipe(&mut self) {
        self.group().piped = true;
    }

    pub(super) fn is_piped(&self) -> bool {
        self.groups.last().is_some_and(|group| group.piped)
    }

    /// Whatever comes next reads nothing of what was said before.
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

    /// After the `)` that closes it, and whatever is open in it.
    pub(super) fn close(&mut self) {
        while self.groups.len() > 1 && self.leave() != GroupOpener::Parenthesis {}
        self.group().piped = false;
    }

    /// Whether the next `)` ends a pattern.
    pub(super) fn in_case(&self) -> bool {
        self.groups.last().is_some_and(|group| group.opener == GroupOpener::Case)
    }

    /// A word has ended, which may be a keyword if it leads its command.
    pub(super) fn word(&mut self, word: &str, leads: bool) {
        let opened = match word {
            // Behind the name of a function, too.
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
        let Some(group) = self.groups.pop() else { return GroupOpener::Parenthesis };
        if let Some(placeholder) = group.before.or(group.pipeline) {
            self.speak(&placeholder);
        }
        group.opener
    }

    fn group(&mut self) -> &mut ShellGroup {
        self.groups.last_mut().expect("the one around all is never left")
    }
}
