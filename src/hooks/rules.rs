//! Checks the rules of the stop decision: one job in, one result out.
//!
//! Owns how each kind of rule is checked, and the messages about it. The messages are for the
//! agent: short, exact, and with what to do. Does not decide what follows from them: see
//! [`crate::engine::stop`].
//!
//! # Invariants
//! - Every rule has a result, whatever happens. A rule that cannot be checked has not passed.
//! - No file outside the project is read, and none above its size limit.

mod coverage;

use std::{borrow::Cow, path::Path, time::Instant};

use regex::Regex;
use tokio_util::sync::CancellationToken;

use super::{HookCommandContext, HookCommandError, HookCommandResult, HookProcess, HookWorkspace};
use crate::{
    engine::{
        effect::RuleJob,
        hooks::{template, verdict::RunEnd},
        policy::{FileRequirement, PatternTarget, RuleCheck},
        stop::context::{OFFERED, RuleCheckResult},
        time::TimeSpan,
    },
    process::{
        project_dir::{OpenError, ProjectDir},
        run::{self, ProcessObserver, ProcessSpec},
        secrets,
    },
    text::{first_line, some_names},
};

/// Bytes of a command's output in the message. The agent can read the rest in the file.
const OUTPUT_SHOWN: usize = 4 * 1024;
/// Characters of a name, a command or a line in a message.
const NAME_SHOWN: usize = 120;

/// What passed, or what failed and how to fix it.
type RuleFinding = Result<String, String>;

pub async fn check(
    job: RuleJob,
    place: &HookWorkspace,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RuleCheckResult {
    let started = Instant::now();
    let mut result = if matches!(job.rule.check, RuleCheck::Command { .. }) {
        command(&job, place, watch, cancel).await
    } else {
        look(job, place, cancel).await
    };
    result.took = TimeSpan::from(started.elapsed());
    // A file or a message that it searched can have some.
    secrets::mask_text(&mut result.message);
    result
}

/// Checks a rule that needs no process, on another thread. A slow disk cannot block the session.
async fn look(job: RuleJob, place: &HookWorkspace, cancel: &CancellationToken) -> RuleCheckResult {
    let (root, timeout) = (place.cwd.clone(), job.rule.timeout);
    let too_late = async {
        if timeout.is_zero() {
            std::future::pending::<()>().await;
        } else {
            tokio::time::sleep(timeout.into()).await;
        }
    };
    let looking = tokio::task::spawn_blocking(move || judge(&job, &ProjectDir::new(&root)));
    let finding = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            let cut = RuleCheckResult::not_judged("interrupted before its end".into());
            return RuleCheckResult { end: Some(RunEnd::Cut), ..cut };
        }
        looked = looking => looked.unwrap_or_else(|_| Err("creel itself failed during this check; see its log".into())),
        () = too_late => {
            Err(format!("timed out after {timeout}: give the rule a longer `timeout`"))
        }
    };
    let passed = finding.is_ok();
    let message = finding.unwrap_or_else(|why| why);
    RuleCheckResult {
        passed,
        ..RuleCheckResult::not_judged(message)
    }
}

fn judge(job: &RuleJob, project_dir: &ProjectDir) -> RuleFinding {
    match &job.rule.check {
        RuleCheck::ContentPattern {
            pattern,
            target,
            must_match,
        } => {
            let message = job.facts.agent_output.as_deref().unwrap_or_default();
            judge_pattern(
                pattern,
                &searched_text(target, message, project_dir).map_err(|why| why.to_string())?,
                target,
                *must_match,
            )
        }
        RuleCheck::FileExistence { files, need } => judge_files(files, *need, project_dir),
        RuleCheck::Coverage {
            file,
            format,
            minimum,
        } => coverage::judge(file, *format, *minimum, project_dir),
        RuleCheck::Command { .. } => {
            Err("creel looked at a command instead of running it. This is a bug in creel".into())
        }
    }
}

async fn command(
    job: &RuleJob,
    place: &HookWorkspace,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RuleCheckResult {
    let RuleCheck::Command {
        command,
        expected_exit,
        ..
    } = &job.rule.check
    else {
        return RuleCheckResult::not_judged(
            "the rule has no command. This is a bug in creel".into(),
        );
    };
    let spec = match spec(job, place) {
        Ok(spec) => spec,
        Err(error) => {
            let why = error.to_string();
            let message = format!("{}: {why}", shown(command));
            return RuleCheckResult {
                end: Some(RunEnd::SpawnFailed(why)),
                ..RuleCheckResult::not_judged(message)
            };
        }
    };
    let limit = job.output_limit.min(OUTPUT_SHOWN);
    let HookCommandResult {
        end,
        captured,
        file,
    } = super::run(
        HookProcess::Shell(spec),
        job.run,
        limit,
        place,
        (watch, cancel),
    )
    .await;
    let passed = end == RunEnd::Exit(*expected_exit);
    let mut message = format!(
        "{}: {}",
        shown(command),
        ended(&end, *expected_exit, job.rule.timeout)
    );
    if !passed {
        for text in [captured.stdout.trim_end(), captured.stderr.trim_end()] {
            if !text.is_empty() {
                message = message + "\n" + text;
            }
        }
    }
    RuleCheckResult {
        passed,
        end: Some(end),
        file,
        ..RuleCheckResult::not_judged(message)
    }
}

/// Compares a command's exit with the expected one.
fn ended(end: &RunEnd, expected: i32, timeout: TimeSpan) -> String {
    match end {
        RunEnd::Exit(code) if *code == expected => format!("exit {code}"),
        RunEnd::Exit(127) => {
            format!(
                "exit 127, expected {expected}: the command was not found; install it or correct the rule"
            )
        }
        RunEnd::Exit(126) => {
            format!(
                "exit 126, expected {expected}: the command cannot be run; make it executable or correct the rule"
            )
        }
        RunEnd::Exit(code) => format!("exit {code}, expected {expected}"),
        RunEnd::Signal(signal) => format!("ended by signal {signal}, expected exit {expected}"),
        RunEnd::TimedOut => format!(
            "timed out after {timeout}: make it faster, or give the rule a longer `timeout`"
        ),
        RunEnd::SpawnFailed(why) => format!("could not start: {why}"),
        RunEnd::Cut => "interrupted before its end".into(),
    }
}

fn spec(job: &RuleJob, place: &HookWorkspace) -> Result<ProcessSpec, HookCommandError> {
    let RuleCheck::Command {
        command,
        folder,
        env,
        ..
    } = &job.rule.check
    else {
        return Err(HookCommandError::NoRuleCommand);
    };
    let cwd = match folder {
        None => place.cwd.clone(),
        Some(folder) => ProjectDir::new(&place.cwd)
            .folder(Some(Path::new(folder)))
            .map_err(|why| {
                HookCommandError::NoFolder(unreadable(folder, &why, "make the folder"))
            })?,
    };
    let about = HookCommandContext {
        point: "rule",
        tool_event: None,
        hook: &job.rule.name,
        offered: OFFERED,
        facts: &job.facts,
        claude: None,
        run: job.run,
    };
    // The session's variables come last, so that configured ones cannot replace them.
    let env = env
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(about.environment(place))
        .collect();
    Ok(ProcessSpec {
        command: template::expand(command)?,
        cwd,
        env,
        stdin: about.standard_input(place),
        timeout: (!job.rule.timeout.is_zero()).then(|| job.rule.timeout.into()),
        grace: run::GRACE,
        unset: Vec::new(),
        mark: format!("{}/run-{}", place.mark, job.run),
    })
}

/// Why a file cannot be read, and what to do if it is missing.
fn unreadable(path: &str, why: &OpenError, if_missing: &str) -> String {
    let path = shown(path);
    match why {
        OpenError::Outside => {
            format!("{path} leads out of the project folder; a rule reads only files in it")
        }
        OpenError::Missing => format!("{path} is missing: {if_missing}, or correct the rule"),
        OpenError::NotAFile => format!("{path} is not a file: correct the rule"),
        OpenError::TooLarge(size) => {
            format!("{path} is too large to read ({size} B): make it smaller")
        }
        OpenError::Io(error) => format!("{path} cannot be read: {error}"),
    }
}

/// The first line of a text, shortened for a message.
fn shown(text: &str) -> String {
    first_line(text, NAME_SHOWN).replace(char::is_control, "\u{fffd}")
}

/// How many names to list.
const NAMED: usize = 20;

/// Whether enough of the files exist. A folder counts too.
fn judge_files(files: &[String], need: FileRequirement, project_dir: &ProjectDir) -> RuleFinding {
    let missing: Vec<String> = files
        .iter()
        .filter_map(|file| absence(file, project_dir))
        .collect();
    let there = files.len() - missing.len();
    let all = format!("{there} of {} exist", files.len());
    match need {
        FileRequirement::All if missing.is_empty() => Ok(all),
        FileRequirement::All => Err(format!("missing: {} ({all})", some_names(&missing, NAMED))),
        FileRequirement::Any if there > 0 => Ok(all),
        FileRequirement::Any => Err(format!(
            "one of these files must exist: {}",
            some_names(&missing, NAMED)
        )),
    }
}

/// The name of a missing file, with the reason if it is not obvious.
fn absence(file: &str, project_dir: &ProjectDir) -> Option<String> {
    let name = shown(file);
    match project_dir.inside(Path::new(file)) {
        Ok(place) if place.exists() => None,
        Ok(_) | Err(OpenError::Missing) => Some(name),
        Err(OpenError::Outside) => Some(format!("{name} (leads out of the project folder)")),
        Err(OpenError::Io(error)) => Some(format!("{name} ({error})")),
        Err(OpenError::NotAFile | OpenError::TooLarge(_)) => None,
    }
}

/// Larger files are not searched.
const READ_MAX: u64 = 8 << 20;

/// Why the file of a rule cannot be searched, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UnreadableFile(String);

/// The text to search: `message`, or the content of a file.
fn searched_text<'a>(
    target: &PatternTarget,
    message: &'a str,
    project_dir: &ProjectDir,
) -> Result<Cow<'a, str>, UnreadableFile> {
    match target {
        PatternTarget::AgentOutput => Ok(Cow::Borrowed(message)),
        PatternTarget::File(file) => {
            let bytes = project_dir
                .read(Path::new(file), READ_MAX)
                .map_err(|why| UnreadableFile(unreadable(file, &why, "write it")))?;
            Ok(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
        }
    }
}

/// Whether the text contains the pattern if `must_match`, or does not contain it otherwise.
fn judge_pattern(
    pattern: &str,
    text: &str,
    target: &PatternTarget,
    must_match: bool,
) -> RuleFinding {
    let regex = Regex::new(pattern).map_err(|_| {
        format!(
            "{} is not a regular expression: correct the rule",
            shown(pattern)
        )
    })?;
    let place = match target {
        PatternTarget::AgentOutput => "the last message".to_owned(),
        PatternTarget::File(file) => shown(file),
    };
    let wanted = shown(pattern);
    match (regex.find(text), must_match) {
        (Some(found), true) => Ok(format!(
            "{place}, line {}: matches {wanted}",
            line_of(text, found.start())
        )),
        (None, true) => Err(format!("{place}: nothing matches {wanted}")),
        (None, false) => Ok(format!("{place}: nothing matches {wanted}, as required")),
        (Some(found), false) => {
            let (line, what) = (line_of(text, found.start()), around(text, found.start()));
            Err(format!(
                "{place}, line {line}: matches {wanted}, which must not match: {what}"
            ))
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The line of a match, shortened.
fn around(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    // In a very long line, as in minified files, start at the match.
    let start = if at - start > NAME_SHOWN / 2 {
        at
    } else {
        start
    };
    shown(text[start..].lines().next().unwrap_or_default())
}
