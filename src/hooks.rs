//! Runs hooks: one job in, one result out.
//!
//! Owns the input of a hook (environment, standard input, the expanded command) and the parsing of
//! its output. Does not decide when a hook runs or what its result means: see [`crate::engine`].
//!
//! # Invariants
//! - Whatever a hook does, there is a result, never an error.
//! - A hook receives only the values that its point offers, and none from an outer session.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    time::Instant,
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{
        effect::{GateFacts, HookFacts, HookJob},
        hooks::{
            claude::ClaudeHandler,
            point::{DecisionMode, HookPoint},
            template,
            tool_matcher::ClaudeToolEvent,
            verdict::{HookReply, RunEnd, RunResult},
        },
        ids::RunId,
        policy::HookAction,
        time::TimeSpan,
    },
    process::{
        self, for_variable,
        output::CapturedOutput,
        programs,
        run::{ProcessEnd, ProcessObserver, ProcessSpec, ProgramSpec},
        secrets,
        trace_context::{self, TracedWork},
    },
    text::{TestCountReader, TestCounts},
};

pub mod builtin;
mod claude;
pub mod reply;
pub mod rules;
pub mod test_suites;
mod workspace;

use builtin::BuiltinJob;
use workspace::OutputTee;

pub use workspace::HookWorkspace;

pub async fn run_hook(
    job: &HookJob,
    place: &HookWorkspace,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RunResult {
    match &job.clean {
        Some(clean) => builtin::run_clean(job, clean, place, watch, cancel).await,
        None => run_here(job, place, watch, cancel).await,
    }
}

/// Runs a hook in the folder of this place.
async fn run_here(
    job: &HookJob,
    place: &HookWorkspace,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RunResult {
    let started = Instant::now();
    if let Some(submission) = &job.facts.submission
        && submission.opens_request
        && !job.hook.opens_request()
        && let Some(why) = builtin::nothing_to_submit(place, submission).await
    {
        return RunResult::nothing_to_do(why);
    }
    let built_in = match &job.hook.action {
        HookAction::Command(_) | HookAction::Exec(_) => None,
        HookAction::Builtin(call) => Some(call.name.as_str()),
        // The reviews themselves are turns of agents: see `crate::engine::submit::review`.
        HookAction::Gatekeeper(_) => Some(builtin::CHANGE),
    };
    if let Some(name) = built_in {
        return builtin::run(
            name,
            BuiltinJob {
                job,
                place,
                env: &[],
            },
            watch,
            cancel,
        )
        .await;
    }
    let with_work;
    let job = match &job.facts.submission {
        Some(submission) => {
            let mut job = job.clone();
            job.facts
                .values
                .extend(builtin::facts_of_the_work(place, submission).await);
            with_work = job;
            &with_work
        }
        None => job,
    };
    let process = match hook_process(job, place) {
        Ok(process) => process,
        Err(error) => return RunResult::not_started(error.to_string()),
    };
    let HookCommandResult {
        end,
        mut captured,
        file,
    } = run(process, job.run, job.output_limit, place, (watch, cancel)).await;
    let end = if job.point == HookPoint::Stop {
        check_end(end, &job.hook.action, &place.cwd, &mut captured)
    } else {
        end
    };
    let answers = matches!(job.point, HookPoint::Automation | HookPoint::StopDecision);
    // A hook that denies a call does so whatever its exit code is.
    let decides = job.point.rules().decides == DecisionMode::TheStrictest;
    let is_read = end == RunEnd::Exit(0) || (decides && matches!(end, RunEnd::Exit(_)));
    let reply = match &job.hook.claude {
        Some(handler) => claude::reply(handler.event, &end, &captured),
        None if answers || !is_read => None,
        None => reply::parse(&captured.answer),
    };
    let whole = file
        .as_ref()
        .map(|_| format!("all of it: {}", place.output_file_from_project(job.run)));
    // JSON can spell a secret in another way.
    let limited = |mut text: String| {
        secrets::mask_text(&mut text);
        process::output::limited(text, job.output_limit, whole.as_deref())
    };
    let reply = reply.map(|reply| HookReply {
        reason: reply.reason.map(limited),
        additional_context: reply.additional_context.map(limited),
        system_message: reply.system_message.map(limited),
        initial_message: reply.initial_message.map(limited),
        ..reply
    });
    let tests = tests_of(job, place, &captured, file.is_some()).await;
    let answer = captured.answer.whole().filter(|_| answers);
    let answer = answer.map(|text| {
        let value = serde_json::from_str(&text).ok();
        let masked = value.and_then(|mut value| {
            let has_secrets = secrets::mask_value(&mut value);
            has_secrets.then(|| value.to_string())
        });
        masked.unwrap_or(text)
    });
    RunResult {
        end,
        took: TimeSpan::from(started.elapsed()),
        stdout: captured.stdout,
        stderr: captured.stderr,
        omitted_bytes: captured.omitted_bytes,
        file,
        reply,
        answer,
        outcome: None,
        tests,
        changed_tests: None,
    }
}

/// The tests that a check ran, from all of its output. None if it does not say how many, or if no
/// file has what the record leaves out.
async fn tests_of(
    job: &HookJob,
    place: &HookWorkspace,
    captured: &CapturedOutput,
    has_file: bool,
) -> Option<TestCounts> {
    if job.point != HookPoint::Stop {
        return None;
    }
    if captured.omitted_bytes == 0 {
        let outputs = [&captured.stdout, &captured.stderr];
        return TestCounts::read(&outputs.map(String::as_str).join("\n"));
    }
    let is_whole = has_file && captured.file_note.is_none();
    let file = is_whole.then(|| place.output_file(job.run))?;
    let reading = tokio::task::spawn_blocking(move || {
        let mut lines = BufReader::new(File::open(file).ok()?);
        let (mut reader, mut line) = (TestCountReader::default(), Vec::new());
        while lines.read_until(b'\n', &mut line).ok()? > 0 {
            reader.line(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
        reader.finish()
    });
    reading.await.ok().flatten()
}

/// How a check ended. If its program is a bare name that is not on `PATH`, it could not start: only
/// you can mend that. A missing script of the project is an ordinary failure, because the agent may
/// be the one to write it.
fn check_end(
    end: RunEnd,
    action: &HookAction,
    cwd: &Path,
    captured: &mut CapturedOutput,
) -> RunEnd {
    match (end, action) {
        (RunEnd::Exit(NOT_FOUND), HookAction::Command(_)) => match missing_program(action, cwd) {
            // A program can end with this code, too; a shell says what it did not find.
            Some(program) if captured.stderr.contains(&format!("{program}: ")) => {
                RunEnd::SpawnFailed(not_on_path(&program))
            }
            Some(_) | None => RunEnd::Exit(NOT_FOUND),
        },
        (RunEnd::SpawnFailed(why), HookAction::Exec(arguments))
            if arguments.iter().take(1).any(|it| it.contains('/')) =>
        {
            captured.stderr = why;
            RunEnd::Exit(NOT_FOUND)
        }
        (end, _) => end,
    }
}

/// The exit code of a shell that did not find a command.
const NOT_FOUND: i32 = 127;

/// The program without which a check cannot start: a bare name that is not on `PATH`.
pub(crate) fn missing_program(action: &HookAction, cwd: &Path) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match action {
        HookAction::Command(command) => programs::first_not_on_path(command, cwd, &path),
        // Its arguments are no commands, whatever they say.
        HookAction::Exec(arguments) => {
            let program = arguments.first().filter(|program| !program.contains('/'))?;
            programs::on_path(program, cwd, &path)
                .is_none()
                .then(|| program.clone())
        }
        HookAction::Builtin(call) => {
            programs::first_not_on_path(call.options.command.as_deref()?, cwd, &path)
        }
        HookAction::Gatekeeper(_) => None,
    }
}

pub(crate) fn not_on_path(program: &str) -> String {
    format!("`{program}` is not on PATH")
}

struct HookCommandResult {
    end: RunEnd,
    captured: CapturedOutput,
    /// The file with all of the output, relative to the session's folder.
    file: Option<String>,
}

/// How a hook is started.
enum HookProcess {
    Shell(ProcessSpec),
    Program(ProgramSpec),
}

/// Runs a command, stores its output, and forwards it.
async fn run(
    process: HookProcess,
    run: RunId,
    limit: usize,
    place: &HookWorkspace,
    (watch, cancel): (&mut dyn ProcessObserver, &CancellationToken),
) -> HookCommandResult {
    let mut both = OutputTee::new(run, limit, place, watch);
    let end = match process {
        HookProcess::Shell(spec) => process::run::run(spec, &mut both, cancel).await,
        HookProcess::Program(spec) => process::run::run_program(spec, &mut both, cancel).await,
    };
    let end = match end {
        ProcessEnd::Exit(code) => RunEnd::Exit(code),
        ProcessEnd::Signal(signal) => RunEnd::Signal(signal),
        ProcessEnd::TimedOut => RunEnd::TimedOut,
        ProcessEnd::Cancelled => RunEnd::Cut,
        ProcessEnd::SpawnFailed(why) => RunEnd::SpawnFailed(why),
    };
    let (captured, file) = both.finish(run);
    HookCommandResult {
        end,
        captured,
        file,
    }
}

/// Why a hook or a rule has no command to run.
#[derive(Debug, thiserror::Error)]
enum HookCommandError {
    #[error("it is not a command")]
    NoCommand,
    #[error("the hook has no command. This is a bug in creel")]
    NoRuleCommand,
    #[error("`exec` names no program")]
    NoProgram,
    /// The folder of a rule's command, with what to do about it.
    #[error("{0}")]
    NoFolder(String),
    #[error(transparent)]
    Template(#[from] template::TemplateError),
}

fn hook_process(job: &HookJob, place: &HookWorkspace) -> Result<HookProcess, HookCommandError> {
    let (point, offered) = (job.point.name(), template::offered(job.point));
    let about = HookCommandContext {
        point,
        hook: &job.hook.name,
        tool_event: job.hook.matcher.as_ref().and_then(|matcher| matcher.claude),
        offered,
        facts: &job.facts,
        claude: job.hook.claude.as_deref(),
        run: job.run,
    };
    let (cwd, env, stdin) = (
        place.cwd.clone(),
        about.environment(place),
        about.standard_input(place),
    );
    let timeout = (!job.hook.timeout.is_zero()).then(|| job.hook.timeout.into());
    let mark = format!("{}/run-{}", place.mark, job.run);
    match &job.hook.action {
        HookAction::Command(command) => {
            let command = if about.is_verbatim() {
                command.clone()
            } else {
                template::expand(command)?
            };
            let grace = process::run::GRACE;
            Ok(HookProcess::Shell(ProcessSpec {
                command,
                cwd,
                env,
                stdin,
                timeout,
                grace,
                unset: Vec::new(),
                mark,
            }))
        }
        HookAction::Exec(arguments) => {
            if !about.is_verbatim() {
                template::check_arguments(arguments).map_err(|(_, error)| error)?;
            }
            let mut filled = arguments
                .iter()
                .map(|argument| about.argument(argument, place));
            let program = filled.next().ok_or(HookCommandError::NoProgram)?;
            let (args, unset) = (filled.collect(), &[][..]);
            Ok(HookProcess::Program(ProgramSpec {
                program,
                args,
                cwd,
                env,
                unset,
                stdin,
                timeout,
                mark,
            }))
        }
        HookAction::Builtin(_) | HookAction::Gatekeeper(_) => Err(HookCommandError::NoCommand),
    }
}

/// The facts about the session for a command.
struct HookCommandContext<'a> {
    point: &'a str,
    hook: &'a str,
    /// The event of Claude Code that it is written for.
    tool_event: Option<ClaudeToolEvent>,
    /// The names that it can use.
    offered: &'a [&'a str],
    facts: &'a HookFacts,
    claude: Option<&'a ClaudeHandler>,
    run: RunId,
}

impl HookCommandContext<'_> {
    /// Whether the command runs as it is written: another tool's settings have no placeholders of
    /// creel's.
    fn is_verbatim(&self) -> bool {
        self.claude.is_some_and(|handler| handler.file.is_some())
    }

    /// An argument of a program without a shell.
    fn argument(&self, argument: &str, place: &HookWorkspace) -> String {
        let argument = match self.claude {
            Some(_) => claude::expanded(argument, place),
            None => argument.to_owned(),
        };
        if self.is_verbatim() {
            return argument;
        }
        template::fill(&argument, |name| Some(self.value(name)))
    }

    /// The value of a name as an argument. Like a variable that is not set, a name without a value
    /// is empty text.
    fn value(&self, name: &str) -> String {
        let known = || {
            if self.offered.contains(&name) {
                value(self.facts, name)
            } else {
                None
            }
        };
        let value = self
            .facts
            .values
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.clone());
        for_variable(&value.or_else(known).unwrap_or_default())
    }

    fn environment(&self, place: &HookWorkspace) -> Vec<(String, String)> {
        let facts = self
            .offered
            .iter()
            .filter_map(|name| Some((template::variable(name), value(self.facts, name)?)));
        let about = [
            ("CREEL_HOOK".to_owned(), self.hook.to_owned()),
            ("CREEL_POINT".to_owned(), self.point.to_owned()),
        ];
        let values = self
            .facts
            .values
            .iter()
            .map(|(name, value)| (template::variable(name), value.clone()));
        let fields = facts
            .chain(values)
            .chain(about)
            .map(|(name, value)| (name, for_variable(&value)));
        let is_claudes = self.claude.is_some() || self.tool_event.is_some();
        let own = is_claudes.then(|| claude::environment(place));
        fields
            .chain(place.project())
            .chain(trace_context::variable(TracedWork::Run(self.run.0)))
            .chain(own.into_iter().flatten())
            .collect()
    }

    /// One JSON object on one line, so that `read` in a shell can read it.
    fn standard_input(&self, place: &HookWorkspace) -> Vec<u8> {
        let facts = self.facts;
        let attempt = facts.attempt.unwrap_or(0);
        let mut fields = json!({
            "session": facts.session,
            "session_id": place.session_id,
            "hook_event_name": self.point,
            "hook": self.hook,
            "cwd": shown(&place.cwd),
            "iteration": facts.iteration,
            "attempt": attempt,
            "stop_hook_active": attempt > 0,
            "transcript_path": shown(&place.journal),
        });
        let prompt = facts.prompt.as_deref();
        let by_point = [
            (
                "task",
                facts
                    .task
                    .as_ref()
                    .map(|t| json!({ "id": t.id, "content": t.content })),
            ),
            ("error", facts.error.clone().map(Value::String)),
            ("prompt", prompt.map(|prompt| json!(prompt.text))),
            ("prompt_reason", prompt.map(|prompt| json!(prompt.reason))),
            (
                "agent_output",
                facts.agent_output.clone().map(Value::String),
            ),
            (
                "files_modified",
                facts.files_modified.as_ref().map(|files| json!(files)),
            ),
            ("validation_results", facts.validation_results.clone()),
            ("event", facts.event.clone()),
            ("graph", facts.graph.clone()),
        ];
        let by_point = by_point
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let about_work = facts.submission.iter().flat_map(|_| {
            let offered = self
                .facts
                .values
                .iter()
                .filter(|(name, _)| self.offered.contains(&&**name));
            offered.map(|(name, value)| (&**name, json!(value)))
        });
        let about_gate = facts.gate.iter().flat_map(|gate| gate_fields(gate));
        let about_tool = facts.tool.iter().flat_map(|call| match self.tool_event {
            Some(event) => claude::claude_fields(event, call, &shown(&place.cwd)),
            None => claude::call_fields(call),
        });
        let about_question = facts
            .question
            .iter()
            .flat_map(|it| claude::question_fields(it));
        for (key, value) in by_point
            .chain(about_work)
            .chain(about_gate)
            .chain(about_tool)
            .chain(about_question)
        {
            fields[key] = value;
        }
        if let (Value::Object(fields), Some(Value::Object(context))) = (&mut fields, &facts.context)
        {
            fields.extend(context.clone());
        }
        if let (Some(handler), Value::Object(fields)) = (self.claude, &mut fields) {
            fields.extend(claude::fields(handler.event, facts));
        }
        format!("{fields}\n").into_bytes()
    }
}

/// The gate's fields in the standard input of an `on_gate` hook.
fn gate_fields(gate: &GateFacts) -> [(&'static str, Value); 9] {
    [
        ("gate", json!(gate.gate)),
        ("about", json!(gate.about)),
        ("reason", json!(gate.reason)),
        ("choices", json!(gate.choices)),
        ("answer_command", json!(gate.answer_command)),
        ("state", json!(gate.state.name())),
        ("waits_for_user", json!(gate.waits_for_user)),
        ("choice", json!(gate.answer.map(|(choice, _)| choice))),
        ("by", json!(gate.answer.map(|(_, by)| by))),
    ]
}

fn value(facts: &HookFacts, name: &str) -> Option<String> {
    match name {
        "session" => Some(facts.session.clone()),
        "iteration" => facts.iteration.map(|n| n.to_string()),
        "attempt" => facts.attempt.map(|n| n.to_string()),
        "task_id" => facts.task.as_ref().map(|t| t.id.clone()),
        "task_content" => facts.task.as_ref().map(|t| t.content.clone()),
        "error" => facts.error.clone(),
        _ => match (&facts.tool, &facts.gate) {
            (Some(call), _) => claude::call_value(call, name),
            (None, Some(gate)) => gate_value(gate, name),
            (None, None) => None,
        },
    }
}

fn gate_value(gate: &GateFacts, name: &str) -> Option<String> {
    match name {
        "gate" => Some(gate.gate.to_string()),
        "about" => Some(gate.about.name().to_owned()),
        "reason" => Some(gate.reason.clone()),
        "choices" => Some(
            gate.choices
                .iter()
                .map(|choice| choice.name())
                .collect::<Vec<_>>()
                .join(", "),
        ),
        "answer_command" => Some(gate.answer_command.clone()),
        "state" => Some(gate.state.name().to_owned()),
        "waits_for_user" => Some(gate.waits_for_user.to_string()),
        "choice" => gate.answer.map(|(choice, _)| choice.name().to_owned()),
        "by" => gate.answer.map(|(_, by)| by.name().to_owned()),
        _ => None,
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
