//! Finds the programs that a shell command needs and that are missing.
//!
//! Owns a cautious parser for command lines: creel warns about a missing program before anything
//! runs, and a false alarm is worse than no warning. Does not run anything.
//!
//! # Invariants
//! - A program is reported only if the command fails without it. Everything that the parser does
//!   not understand (compound commands, functions, substitutions, a changed `PATH`) is skipped.

mod shell_tokens;

use std::{
    env,
    ffi::OsStr,
    fmt, fs,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

pub(crate) use crate::process::programs::shell_tokens::unclosed_quote;
use crate::process::programs::shell_tokens::{ShellOperator, ShellToken, ShellWord, tokens};

/// Commands that a shell runs itself. None of them changes which programs are found later.
const BUILTINS: &[&str] = &[
    ":", "bg", "cd", "echo", "export", "false", "fg", "getopts", "jobs", "kill", "let", "local",
    "printf", "pushd", "popd", "pwd", "read", "readonly", "set", "shift", "shopt", "times", "trap",
    "true", "ulimit", "umask", "unset", "wait", "declare", "typeset",
];
/// Commands that test a condition: a program after their `&&` might not be needed.
const CONDITIONS: &[&str] = &["[", "[[", "test", "command", "type", "which", "hash"];
/// Words after which the parser does not understand the rest of a command.
const UNCLEAR: &[&str] = &[
    ".", "source", "eval", "alias", "unalias", "enable", "if", "then", "else", "elif", "fi", "for",
    "while", "until", "do", "done", "case", "esac", "select", "function", "!", "{", "}", "coproc",
    "builtin",
];
/// Commands after which nothing else of the command runs.
const ENDS: &[&str] = &["exit", "return", "break", "continue"];
/// Bytes of a script that are read to find its interpreter.
const FIRST_LINE: u64 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingProgram {
    NotOnPath(String),
    NoFile(String),
    NotExecutable(String),
    NoInterpreter { script: String, interpreter: String },
}

impl fmt::Display for MissingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnPath(program) => write!(f, "`{program}` is not on PATH"),
            Self::NoFile(file) => write!(f, "`{file}` does not exist"),
            Self::NotExecutable(file) => {
                write!(f, "`{file}` is not executable (`chmod +x {file}`)")
            }
            Self::NoInterpreter {
                script,
                interpreter,
            } => {
                write!(
                    f,
                    "`{script}` needs `{interpreter}`, which is not installed"
                )
            }
        }
    }
}

/// The programs that a command needs and that cannot run from `folder`.
pub fn missing(command: &str, folder: &Path, path: &OsStr) -> Vec<MissingProgram> {
    let mut missing: Vec<MissingProgram> = needed(command)
        .iter()
        .filter_map(|program| problem(program, folder, path))
        .collect();
    missing.dedup();
    missing
}

/// The first program of a command, if it is a bare name that is not on `PATH`. Later programs can
/// appear until they are needed, and so can scripts of the project.
pub fn first_not_on_path(command: &str, folder: &Path, path: &OsStr) -> Option<String> {
    let first = needed(command).into_iter().next()?;
    (!first.contains('/') && on_path(&first, folder, path).is_none()).then_some(first)
}

pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn problem(program: &str, folder: &Path, path: &OsStr) -> Option<MissingProgram> {
    let file = if program.contains('/') {
        let file = folder.join(program);
        match file.metadata() {
            Err(_) => return Some(MissingProgram::NoFile(program.to_owned())),
            Ok(_) if !is_executable(&file) => {
                return Some(MissingProgram::NotExecutable(program.to_owned()));
            }
            Ok(_) => file,
        }
    } else {
        match on_path(program, folder, path) {
            Some(file) => file,
            None => return Some(MissingProgram::NotOnPath(program.to_owned())),
        }
    };
    let interpreter = interpreter(&file)?;
    let found = if interpreter.contains('/') {
        is_executable(Path::new(&interpreter))
    } else {
        on_path(&interpreter, folder, path).is_some()
    };
    (!found).then(|| MissingProgram::NoInterpreter {
        script: program.to_owned(),
        interpreter,
    })
}

/// Where a shell in `folder` finds a program.
pub(crate) fn on_path(program: &str, folder: &Path, path: &OsStr) -> Option<PathBuf> {
    env::split_paths(path)
        .map(|entry| folder.join(entry).join(program))
        .find(|file| is_executable(file))
}

/// The interpreter in a script's first line, or the program that `env` has to find.
fn interpreter(file: &Path) -> Option<String> {
    let mut first = Vec::new();
    fs::File::open(file)
        .ok()?
        .take(FIRST_LINE)
        .read_to_end(&mut first)
        .ok()?;
    let line = first
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_whitespace();
    let program = words.next()?;
    let is_env = Path::new(program)
        .file_name()
        .is_some_and(|name| name == "env");
    match words.next() {
        Some(wanted) if is_env && is_executable(Path::new(program)) => {
            // Options and variables of `env` are rare and not supported here.
            (!wanted.starts_with('-') && !wanted.contains('=')).then(|| wanted.to_owned())
        }
        Some(_) | None => Some(program.to_owned()),
    }
}

/// Whether this is a single command, so that options can be added at its end.
pub fn is_one_command(command: &str) -> bool {
    let is_argument =
        |token: &ShellToken| matches!(token, ShellToken::Word(word) if word.text != "--");
    let tokens = tokens(command);
    !tokens.is_empty() && !command.contains('#') && tokens.iter().all(is_argument)
}

/// The program whose exit code is the command's, if that is certain.
pub(crate) fn deciding_program(command: &str) -> Option<String> {
    let tokens = tokens(command);
    let is_clear = |token: &ShellToken| match token {
        ShellToken::Word(_) | ShellToken::Operator(ShellOperator::And | ShellOperator::Next) => {
            true
        }
        ShellToken::Operator(ShellOperator::Or | ShellOperator::Pipe) | ShellToken::Unclear => {
            false
        }
    };
    if !tokens.iter().all(is_clear) {
        return None;
    }
    let list = tokens
        .rsplit(|token| *token == ShellToken::Operator(ShellOperator::Next))
        .find(|list| !list.is_empty());
    let mut scan = CommandScan::default();
    for part in list?.split(|token| *token == ShellToken::Operator(ShellOperator::And)) {
        match scan.command(part) {
            ScanControl::Continue => {}
            ScanControl::SkipList | ScanControl::Stop => return None,
        }
    }
    scan.found.pop()
}

/// The programs that a command certainly starts, in order.
pub fn needed(command: &str) -> Vec<String> {
    let mut reading = CommandScan::default();
    let tokens = tokens(command);
    for list in tokens.split(|token| *token == ShellToken::Operator(ShellOperator::Next)) {
        if reading.list(list) == ScanControl::Stop {
            break;
        }
    }
    reading.found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanControl {
    Continue,
    /// The rest of this list might not run.
    SkipList,
    Stop,
}

#[derive(Debug, Default)]
struct CommandScan {
    found: Vec<String>,
    /// Whether the command changed its folder, so that relative paths cannot be checked.
    moved: bool,
}

impl CommandScan {
    /// Reads commands that are joined with `&&`, `||` and `|`.
    fn list(&mut self, list: &[ShellToken]) -> ScanControl {
        let clear = !list.contains(&ShellToken::Unclear);
        if has_alternative(list) {
            return if clear {
                ScanControl::Continue
            } else {
                ScanControl::Stop
            };
        }
        let joined = |token: &ShellToken| matches!(token, ShellToken::Operator(_));
        for command in list.split(joined) {
            match self.command(command) {
                ScanControl::Continue => {}
                ScanControl::SkipList => break,
                ScanControl::Stop => return ScanControl::Stop,
            }
        }
        if clear {
            ScanControl::Continue
        } else {
            ScanControl::Stop
        }
    }

    fn command(&mut self, command: &[ShellToken]) -> ScanControl {
        if command.contains(&ShellToken::Unclear) {
            return ScanControl::Stop;
        }
        let mut words = command.iter().filter_map(|token| match token {
            ShellToken::Word(word) => Some(word),
            ShellToken::Operator(_) | ShellToken::Unclear => None,
        });
        let mut word = words.next();
        while let Some(assignment) = word.filter(|word| word.assigns.is_some()) {
            if assignment.assigns.as_deref() == Some("PATH") {
                return ScanControl::Stop;
            }
            word = words.next();
        }
        let Some(first) = word else {
            return ScanControl::Continue;
        };
        self.program(first, words)
    }

    fn program<'a>(
        &mut self,
        first: &ShellWord,
        mut rest: impl Iterator<Item = &'a ShellWord>,
    ) -> ScanControl {
        // An expansion can be any program, so it is not checked.
        let Some(name) = first.literal() else {
            return ScanControl::Continue;
        };
        if !first.quoted && UNCLEAR.contains(&name) {
            return ScanControl::Stop;
        }
        if matches!(name, "exec" | "time") {
            let inner = rest.find(|word| word.assigns.is_none());
            return match inner {
                Some(inner) if !inner.text.starts_with('-') => self.program(inner, rest),
                Some(_) | None => ScanControl::Continue,
            };
        }
        if matches!(name, "export" | "declare" | "typeset" | "readonly") {
            let sets_path = rest.any(|word| word.assigns.as_deref() == Some("PATH"));
            return if sets_path {
                ScanControl::Stop
            } else {
                ScanControl::Continue
            };
        }
        if ENDS.contains(&name) {
            return ScanControl::Stop;
        }
        if CONDITIONS.contains(&name) {
            return ScanControl::SkipList;
        }
        if matches!(name, "cd" | "pushd" | "popd") {
            self.moved = true;
        }
        let elsewhere = self.moved && name.contains('/') && !name.starts_with('/');
        if !elsewhere && !BUILTINS.contains(&name) {
            self.found.push(name.to_owned());
        }
        ScanControl::Continue
    }
}

/// Whether a command takes over when another one fails: `rg x || grep x` works without `rg`.
fn has_alternative(list: &[ShellToken]) -> bool {
    let mut parts = list.split(|token| *token == ShellToken::Operator(ShellOperator::Or));
    let gives_up = |part: &[ShellToken]| match part.first() {
        Some(ShellToken::Word(word)) => word
            .literal()
            .is_some_and(|name| ENDS.contains(&name) || name == "false"),
        Some(ShellToken::Operator(_) | ShellToken::Unclear) | None => false,
    };
    parts.next();
    parts.any(|part| !gives_up(part))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_programs_of_ordinary_commands_are_found() {
        for (command, programs) in [
            ("cargo test", &["cargo"][..]),
            ("cargo test || exit 2", &["cargo"]),
            (
                "RUST_LOG=debug CI='a b' cargo test 2>&1 | tail -n 20",
                &["cargo", "tail"],
            ),
            ("cd web && npm test", &["npm"]),
            ("set -e; cargo fmt --check; cargo test", &["cargo", "cargo"]),
            ("exec ./check.sh \"$1\"", &["./check.sh"]),
            ("time make check", &["make"]),
            ("'/opt/my tools/lint' .", &["/opt/my tools/lint"]),
            (
                "pytest -q > out.txt 2>/dev/null\ngit diff --quiet",
                &["pytest", "git"],
            ),
            ("jq -e '.a | .b' <<<x", &[]),
            ("# only a note\nmake", &["make"]),
            ("ruff check . & mypy .", &["ruff", "mypy"]),
        ] {
            assert_eq!(needed(command), programs, "{command}");
        }
    }

    #[test]
    fn words_that_need_no_program_are_not_reported() {
        for command in [
            "",
            "echo \"done\" >> log; exit 0; gone",
            "test -f x && gone",
            "[ -n \"$A\" ] && gone",
            "command -v gone >/dev/null && gone --check",
            "which gone && gone",
            "gone || true",
            "gone || other",
            "if gone; then gone; fi",
            "for x in a b; do gone; done",
            "! gone",
            "{ gone; }",
            "(cd x && gone)",
            "f() { gone; }; f",
            "$TOOL --check",
            "\"$HOME\"/bin/tool",
            "${TOOL:-gone} x",
            "~/bin/tool",
            "PATH=$PWD/bin:$PATH; gone",
            "PATH=bin gone",
            "export PATH=bin && gone",
            ". ./env && gone",
            "eval gone",
            "cat <<END\ngone\nEND",
            "echo `gone`",
            "echo $(gone) && gone",
            "{{prompt}} x",
            "case x in x) gone;; esac",
            "cd web && ./gone",
            "alias x=gone; x",
        ] {
            let found = needed(command);
            assert!(
                found
                    .iter()
                    .all(|name| !name.contains("gone") && !name.contains("tool")),
                "{command}: {found:?}"
            );
        }
    }

    #[test]
    fn the_deciding_program_is_the_last_one_if_nothing_else_can_decide() {
        for (command, program) in [
            ("cargo test 2>&1", Some("cargo")),
            ("cd web && CI=1 npm test\n", Some("npm")),
            ("./prepare.sh; time pytest -q", Some("pytest")),
            ("cargo test && echo fine", Some("cargo")),
            ("cargo test; echo done", None),
            ("command -v prettier && prettier -c .", None),
            ("cargo test | tail -n 5", None),
            ("cargo test || exit 2", None),
            ("cargo test && exit 1", None),
            ("if cargo test; then echo; fi", None),
            ("(cargo test)", None),
            ("$CARGO test", None),
            ("", None),
        ] {
            assert_eq!(deciding_program(command).as_deref(), program, "{command}");
        }
    }

    #[test]
    fn options_can_be_added_to_a_single_command_only() {
        for command in [
            "claude -p",
            "A=1 codex exec -",
            "kimi -p {{prompt}} 2>/dev/null",
            "claude --x 'a | b'",
        ] {
            assert!(is_one_command(command), "{command}");
        }
        for command in [
            "",
            "claude -p | tee log",
            "cd x && claude -p",
            "claude -p # fast",
            "x -- {{prompt}}",
            "(claude)",
            "a\nb",
        ] {
            assert!(!is_one_command(command), "{command}");
        }
    }

    #[test]
    fn a_missing_program_is_reported_with_what_is_wrong() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str, mode| {
            let path = dir.path().join(name);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
        };
        file("good", "#!/bin/sh\n", 0o755);
        file("plain.sh", "#!/bin/sh\n", 0o644);
        file("old", "#!/usr/bin/no-such-interpreter -x\n", 0o755);
        file("env", "#!/usr/bin/env no-such-interpreter\n", 0o755);
        file("binary", "\u{7f}ELF", 0o755);
        let path = dir.path().as_os_str();
        let complaint = |command: &str| {
            missing(command, dir.path(), path)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(complaint("good && ./good && binary"), "");
        assert_eq!(complaint("gone | good"), "`gone` is not on PATH");
        assert_eq!(complaint("./gone.sh"), "`./gone.sh` does not exist");
        assert_eq!(
            complaint("./plain.sh"),
            "`./plain.sh` is not executable (`chmod +x ./plain.sh`)"
        );
        assert_eq!(
            complaint("./old"),
            "`./old` needs `/usr/bin/no-such-interpreter`, which is not installed"
        );
        assert_eq!(
            complaint("env"),
            "`env` needs `no-such-interpreter`, which is not installed"
        );
    }
}
