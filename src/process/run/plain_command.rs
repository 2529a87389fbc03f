//! Command lines for which a shell would do nothing but start a program.
//!
//! Starting a shell first takes longer than everything else that creel does around a short command.
//!
//! # Invariants
//! - A line counts as plain only if every character of it stands for itself, and its first word is
//!   the path of a file that can be executed. Everything else is for the shell, and so are its
//!   messages about what cannot be started.

use std::path::Path;

use rustix::fs::{Access, access};

/// The words of a plain command line. None if the line needs a shell.
pub(super) fn words<'a>(line: &'a str, cwd: &Path) -> Option<Vec<&'a str>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" _./=:,@%+-".contains(&byte);
    if !line.bytes().all(is_plain) {
        return None;
    }
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    // A name without a slash may be built into the shell, and `a=b` sets a variable.
    let program = words
        .first()
        .filter(|word| word.contains('/') && !word.contains('='))?;
    let path = cwd.join(program);
    (path.is_file() && access(&path, Access::EXEC_OK).is_ok()).then_some(words)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn only_a_program_file_with_plain_words_needs_no_shell() {
        let dir = tempfile::tempdir().expect("a folder");
        let (agent, text) = (dir.path().join("agent"), dir.path().join("text"));
        for path in [&agent, &text] {
            fs::write(path, "#!/bin/sh\n").expect("a file");
        }
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let split = |line| words(line, dir.path());
        assert_eq!(split("./agent"), Some(vec!["./agent"]));
        assert_eq!(
            split(" ./agent  --to=a,b x:y "),
            Some(vec!["./agent", "--to=a,b", "x:y"])
        );
        assert_eq!(split("/bin/sh"), Some(vec!["/bin/sh"]));
        for line in [
            "",
            "agent",
            "true",
            "./text",
            "./missing",
            "./",
            "A=./agent",
            "./agent; true",
            "./agent | cat",
            "./agent $HOME",
            "./agent ~",
            "./agent 'a b'",
            "./agent *",
            "./agent > out",
            "./agent\n./agent",
            "./agent # why",
            "! ./agent",
            "./agent {a,b}",
        ] {
            assert_eq!(split(line), None, "{line}");
        }
    }
}
