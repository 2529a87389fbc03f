//! Asks programs for their version, all at the same time.
//!
//! # Invariants
//! - Asking is limited in time and in the bytes of an answer that are kept.
//! - A program runs in the root folder, so the files of a project have no effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use regex::Regex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{
        error::{CliError, CliResult},
        tokio_runtime,
    },
    present::text::{first_line, plain},
    process::{
        run::{self, OutputStream, ProcessEnd, ProcessGroup, ProcessObserver, ProcessSpec},
        signals::ShutdownSignals,
    },
};

/// How long a listing waits for one program.
pub(in crate::cli) const LISTING: Duration = Duration::from_secs(5);
/// How long a check waits for the agent: some take several seconds to start on a busy machine.
pub(in crate::cli) const CHECKING: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_millis(300);
/// How many bytes of an answer are kept.
const KEPT: usize = 8 * 1024;
/// How many characters of a program's own message are shown.
const SHOWN: usize = 200;
/// The longest version, in characters.
const LONGEST: usize = 24;

/// A program, and the arguments that make it print its version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct VersionQuery {
    pub(in crate::cli) program: PathBuf,
    pub(in crate::cli) arguments: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum VersionAnswer {
    Told(String),
    /// It does not start, or ends with an error: how it ended, and the last line that it printed.
    Failed(String),
    /// It did not answer within this time: it hangs, or the machine is busy.
    NoAnswer(Duration),
}

impl VersionAnswer {
    pub(in crate::cli) fn version(&self) -> Option<&str> {
        match self {
            Self::Told(version) => Some(version),
            Self::Failed(_) | Self::NoAnswer(_) => None,
        }
    }

    pub(in crate::cli) fn problem(&self) -> Option<String> {
        match self {
            Self::Told(_) => None,
            Self::Failed(how) => Some(how.clone()),
            Self::NoAnswer(patience) => Some(format!("no answer within {} s", patience.as_secs())),
        }
    }
}

/// Asks all programs. Leaves out those whose output contains no version. `None` if a signal arrived
/// first.
pub(in crate::cli) fn ask_all(
    questions: BTreeSet<VersionQuery>,
    patience: Duration,
) -> CliResult<Option<BTreeMap<VersionQuery, VersionAnswer>>> {
    if questions.is_empty() {
        return Ok(Some(BTreeMap::new()));
    }
    let tokio = tokio_runtime::start()?;
    let answers = tokio.block_on(async {
        let mut signals = ShutdownSignals::listen()?;
        let cancel = CancellationToken::new();
        let mut asking: JoinSet<_> = questions
            .into_iter()
            .map(|question| ask(question, patience, cancel.clone()))
            .collect();
        let mut answers = BTreeMap::new();
        loop {
            tokio::select! {
                answer = asking.join_next() => match answer {
                    Some(answer) => answers.extend(answer.ok().flatten()),
                    None => return Ok(Some(answers)),
                },
                _ = signals.next() => {
                    cancel.cancel();
                    asking.join_all().await;
                    return Ok(None);
                }
            }
        }
    });
    // A task that still reads from a pipe must not delay the exit.
    tokio.shutdown_background();
    answers.map_err(|error: std::io::Error| {
        CliError::failed(format!("cannot listen for signals: {error}"))
    })
}

async fn ask(
    question: VersionQuery,
    patience: Duration,
    cancel: CancellationToken,
) -> Option<(VersionQuery, VersionAnswer)> {
    let spec = ProcessSpec {
        command: format!("exec \"$CREEL_PROGRAM\" {}", question.arguments),
        cwd: PathBuf::from("/"),
        env: vec![(
            "CREEL_PROGRAM".to_owned(),
            question.program.to_str()?.to_owned(),
        )],
        stdin: Vec::new(),
        timeout: Some(patience),
        grace: GRACE,
        mark: format!(
            "agents-{}/{}",
            std::process::id(),
            question.program.display()
        ),
    };
    let mut answer = VersionOutput::default();
    let end = run::run(spec, &mut answer, &cancel).await;
    let said = [answer.out, answer.err].map(|bytes| plain(&String::from_utf8_lossy(&bytes)));
    let how = match end {
        ProcessEnd::Exit(0) => {
            let version = said.iter().find_map(|text| version_in(text))?;
            return Some((question, VersionAnswer::Told(version)));
        }
        ProcessEnd::TimedOut => return Some((question, VersionAnswer::NoAnswer(patience))),
        ProcessEnd::Cancelled => return None,
        ProcessEnd::Exit(code) => format!("exit code {code}"),
        ProcessEnd::Signal(signal) => format!("signal {signal}"),
        ProcessEnd::SpawnFailed(why) => why,
    };
    let last = said
        .iter()
        .rev()
        .find_map(|text| text.lines().rfind(|line| !line.trim().is_empty()));
    let last = last
        .map(|line| format!(": {}", first_line(line.trim(), SHOWN)))
        .unwrap_or_default();
    Some((question, VersionAnswer::Failed(format!("{how}{last}"))))
}

#[derive(Default)]
struct VersionOutput {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl ProcessObserver for VersionOutput {
    fn started(&mut self, _group: ProcessGroup) {}

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let kept = match stream {
            OutputStream::Stdout => &mut self.out,
            OutputStream::Stderr => &mut self.err,
        };
        kept.extend(bytes.iter().take(KEPT - kept.len()));
    }
}

fn version_in(text: &str) -> Option<String> {
    let version = Regex::new(r"(?:^|[^0-9A-Za-z.])v?([0-9]+(?:\.[0-9]+)+[0-9A-Za-z.+-]*)").ok()?;
    let found = text.lines().find_map(|line| version.captures(line))?;
    let version: String = found[1]
        .trim_end_matches(['.', '+', '-'])
        .chars()
        .take(LONGEST)
        .collect();
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_say() {
        let said = [
            "2.1.0 (Claude Code)",
            "codex-cli 0.166.0",
            "GitHub Copilot CLI 1.0.102.\nRun 'copilot update'",
            "WARNING: proceeding, even though /lib/python3.11/x is gone\naider 0.86.2",
            "goose v1.34.0-rc.1+build",
            " 1.34.0",
            "@scope/codex-acp 2.6.0",
        ];
        let expected = [
            "2.1.0",
            "0.166.0",
            "1.0.102",
            "0.86.2",
            "1.34.0-rc.1+build",
            "1.34.0",
            "2.6.0",
        ];
        assert_eq!(
            said.map(|said| version_in(said).expect("a version")),
            expected
        );
        assert_eq!(version_in("usage: agent [OPTIONS]\nsee 42"), None);
    }
}
