//! Parent and child process of a session on a screen.
//!
//! A process cannot detach from its terminal while the shell waits for it. So creel starts itself
//! again for a session on a screen: the parent only waits, the child runs the session and its
//! screen. When the user leaves the session running, the child detaches with it, and the parent
//! returns to the shell.
//!
//! A socket pair connects them. The child gets its end as standard input, and the terminal through
//! it. No other process sees what is passed this way, neither as a variable nor as an open file.
//!
//! # Invariants
//! - The child does not outlive its parent, unless it has detached.
//! - To the shell the two are one: the same job, the same signals, the same exit code.

mod child;
mod parent;

use std::{
    ffi::{OsStr, OsString},
    io::{IsTerminal as _, stdin, stdout},
};

pub(super) use child::ParentProcess;
pub(super) use parent::hold;

/// The verbs that open a screen on a session of this process.
const ON_SCREEN: [&str; 2] = ["run", "resume"];
/// Options with which they do not, or with which this process is the child already.
const ELSEWHERE: [&str; 5] = ["--headless", "--json", "--detach", "--background", "--held"];

/// Whether to start a child. Looks at the words only: the parent stays as small as possible, so it
/// does not parse the command line. If the command is wrong or opens no screen after all, the child
/// does what this process would have done.
pub(super) fn is_wanted(args: impl Iterator<Item = OsString>) -> bool {
    stdin().is_terminal() && stdout().is_terminal() && asks_for_screen(args)
}

fn asks_for_screen(args: impl Iterator<Item = OsString>) -> bool {
    let mut words = args.take_while(|word| word != "--").peekable();
    let is_one_of = |word: &OsStr, list: &[&str]| list.iter().any(|one| word == *one);
    words.peek().is_some_and(|verb| is_one_of(verb, &ON_SCREEN))
        && !words.any(|word| is_one_of(&word, &ELSEWHERE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_on_a_screen_has_a_parent_and_a_child() {
        let asks = |line: &str| asks_for_screen(line.split_whitespace().map(OsString::from));
        for line in [
            "run",
            "run -n 3 prompt",
            "resume",
            "resume name --max-iterations 3",
            "run -- --headless",
        ] {
            assert!(asks(line), "{line}");
        }
        let elsewhere = [
            "",
            "run --headless",
            "run x --json",
            "run --detach",
            "--held run",
            "attach",
            "demo",
            "--help",
        ];
        for line in elsewhere {
            assert!(!asks(line), "{line}");
        }
    }
}
