//! `{{name}}` in the command of a hook: which names there are, and how a value is put in its place.
//!
//! # Invariants
//! - A value is data, never code: it is quoted for the place where it stands, and the shell reads back exactly the
//!   bytes that were put in.
//! - A value is not looked through for further names.

use std::ops::Range;

use super::point::Point;

/// One `{{name}}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// What stands between the braces.
    pub name: String,
    /// Where it stands, braces included, in bytes.
    pub range: Range<usize>,
}

/// All placeholders of a text. Braces around anything but one plain name (`{{.Names}}`, `{{ a b }}`) are ordinary text,
/// since other programs have templates too.
pub fn placeholders(text: &str) -> Vec<Placeholder> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text[from..].find("{{").map(|i| from + i) {
        let inside = open + 2;
        let Some(close) = text[inside..].find("}}").map(|i| inside + i) else { break };
        let name = text[inside..close].trim_matches([' ', '\t']);
        if is_name(name) {
            found.push(Placeholder { name: name.to_owned(), range: open..close + 2 });
            from = close + 2;
        } else {
            from = open + 1;
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The names that a point offers.
pub const fn offered(point: Point) -> &'static [&'static str] {
    match point {
        Point::SessionStart | Point::SessionEnd => &["session"],
        Point::PreIteration | Point::PostIteration => &["session", "iteration"],
        Point::Stop => &["session", "iteration", "attempt"],
        Point::OnError => &["session", "iteration", "error"],
        Point::OnTaskComplete => &["session", "iteration", "task_id", "task_content"],
        Point::BeforeSubmit | Point::BeforeMerge => &["session", "task_id", "task_content", "attempt"],
        Point::AfterSubmit | Point::AfterMerge => &["session", "task_id", "task_content"],
    }
}
