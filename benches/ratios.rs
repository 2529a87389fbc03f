//! creel's performance figures, each a ratio of two times from the same run.
//!
//! Owns what is measured and what is allowed. Machines differ and are busy, so no time is compared
//! with a fixed number: the two sides take turns, and the median of the rounds' ratios counts.
//! `benches/README.md` explains the figures.
//!
//! `cargo bench` measures all of them, `cargo bench -- fold` one. The exit code is 1 if one is
//! missed.

#[path = "support/measure.rs"]
mod measure;
#[path = "support/memory.rs"]
mod memory;

use std::{
    collections::{BTreeMap, VecDeque},
    error::Error,
    fs::{self, File},
    hint::black_box,
    io::{BufRead as _, BufReader, BufWriter, Write as _},
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use creel::{
    engine::{
        self, SessionState,
        conversation::{
            AgentUpdate, ForbiddenChanges, StopReason, ToolCall, ToolStatus, TurnEnd, TurnFailure,
            TurnUsage,
        },
        effect::{Effect, HookJob},
        event::{Event, SessionEvent, SessionOutcome, SessionStarted, UserPresence},
        hooks::{
            point::HookPoint,
            verdict::{RunEnd, RunResult},
        },
        ids::TurnId,
        input::Input,
        policy::{
            AgentAccess, AgentSpec, Budget, CompletionInstructions, ContextPolicy, EvidencePolicy,
            GatePolicies, HookAction, HookSpec, LimitsPlan, ModelPlan, OpenTasksPolicy, PipeOutput,
            RetryLimitPolicy, SessionPlan, SettledPolicy, StopHook, StopPlan, StopPreset,
        },
        time::{TimeSpan, UnixTime},
    },
    journal::{self, Record, SessionsDir},
    runtime::{RuntimeDirs, SessionRuntime},
};
use measure::{Figure, Finding, Result, Verdict, check, compare};
use memory::{forget_peak, peak_memory_kib};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::mpsc;

/// Processes per round.
const SPAWNS: u32 = 100;
/// In bytes.
const FLOOD: u64 = 1_000_000_000;
/// How much the memory may grow during a flood.
const FLOOD_MEMORY_KIB: u64 = 64 * 1024;
/// Updates of the agent in one turn.
const UPDATES: u32 = 100_000;
/// Records in the journal.
const RECORDS: u64 = 1_000_000;
/// As many pieces of live output as the command line queues for the screen.
const LIVE_BACKLOG: usize = 256;

fn main() -> ExitCode {
    measure::run(&FIGURES)
}

/// The flood comes before the fold, whose journal leaves the memory large.
const FIGURES: [Figure; 5] = [
    Figure {
        name: "hook",
        measure: hook,
    },
    Figure {
        name: "iterations",
        measure: iterations,
    },
    Figure {
        name: "flood",
        measure: flood,
    },
    Figure {
        name: "updates",
        measure: updates,
    },
    Figure {
        name: "fold",
        measure: fold,
    },
];

/// A hook that does nothing, run by a session, compared with a bare shell that does nothing.
///
/// A session without iterations runs its `session_start` hooks and ends, so this is the runtime's
/// whole path: engine, journal, process, capture. The cost of the session itself is spread over its
/// hooks.
fn hook() -> Result<Vec<Finding>> {
    let stage = Stage::new()?;
    // Identical hooks would run only once; `true` ignores its argument.
    let hooks = (0..SPAWNS)
        .map(|n| hook_spec(&format!("nothing {n}"), &format!("true {n}"), false))
        .collect();
    let with_hooks = plan(
        0,
        "true",
        BTreeMap::from([(HookPoint::SessionStart, hooks)]),
    );
    let without_hooks = plan(0, "true", BTreeMap::new());
    let ours = || {
        let (took, ended) = stage.session(with_hooks.clone())?;
        check(
            ended.hooks.last_run.0 == u64::from(SPAWNS),
            "not all hooks ran",
        )?;
        Ok(took)
    };
    let bare = format!("{SPAWNS} bare `sh -c true`");
    let compared = compare(25, ours, bare_spawns)?;
    let empty = compare(
        5,
        || Ok(stage.session(without_hooks.clone())?.0),
        bare_spawns,
    )?;
    Ok(vec![
        compared.finding(&format!("{SPAWNS} hooks `true`"), &bare, 1.3),
        information(&empty.tell("of this, the session without any hook", &bare)),
    ])
}

/// Iterations of an agent that exits immediately, compared with as many bare shells.
fn iterations() -> Result<Vec<Finding>> {
    let stage = Stage::new()?;
    let plan = plan(SPAWNS, "true", BTreeMap::new());
    let ours = || {
        let (took, ended) = stage.session(plan.clone())?;
        check(
            ended.turns.last == TurnId(u64::from(SPAWNS)),
            "not all turns took place",
        )?;
        check(ended.retry.errors == 0, "the agent failed")?;
        Ok(took)
    };
    let compared = compare(25, ours, bare_spawns)?;
    Ok(vec![compared.finding(
        &format!("{SPAWNS} iterations"),
        &format!("{SPAWNS} bare `sh -c true`"),
        2.0,
    )])
}

/// The cost of a shell that does nothing, for any program. Its streams are `/dev/null`, which is
/// the cheapest.
fn bare_spawns() -> Result<Duration> {
    let started = Instant::now();
    for _ in 0..SPAWNS {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        check(command.status()?.success(), "`sh -c true` failed")?;
    }
    Ok(started.elapsed())
}

/// A hook that floods, compared with a `cat` at the other end of the same pipe.
///
/// The source is a sparse file, read with `cat`, so that neither side waits for a disk or for
/// numbers to be generated. Both read through a pipe, like the output of any process.
fn flood() -> Result<Vec<Finding>> {
    let stage = Stage::new()?;
    let source = stage.folder.path().join("source");
    File::create(&source)?.set_len(FLOOD)?;
    let source = source.to_string_lossy().into_owned();
    let hooks = vec![hook_spec("flood", &format!("cat '{source}'"), true)];
    let plan = plan(
        0,
        "true",
        BTreeMap::from([(HookPoint::SessionStart, hooks)]),
    );
    let ours = || {
        let (took, ended) = stage.session(plan.clone())?;
        let held = ended
            .pending
            .items()
            .first()
            .map_or("", |item| item.text.as_str());
        check(
            held.contains("bytes left out"),
            "the flood did not come through",
        )?;
        Ok(took)
    };
    let by_cat = shell(format!("cat '{source}' | cat > /dev/null"));
    forget_peak();
    let before = peak_memory_kib()?;
    let compared = compare(7, ours, by_cat)?;
    let grown = peak_memory_kib()?.saturating_sub(before);
    let without_pipe = compare(3, ours, shell(format!("cat '{source}' > /dev/null")))?;
    Ok(vec![
        compared.finding("a hook printing 1 GB", "`cat FILE | cat > /dev/null`", 2.0),
        information(&without_pipe.tell(
            "a hook printing 1 GB",
            "`cat FILE > /dev/null`, without any pipe",
        )),
        Finding {
            text: format!("memory grew by {grown} KiB at most, allowed {FLOOD_MEMORY_KIB} KiB"),
            verdict: if grown <= FLOOD_MEMORY_KIB {
                Verdict::Ok
            } else {
                Verdict::Missed
            },
        },
    ])
}

/// Updates of an agent that speaks the protocol, from its output to the records, compared with
/// parsing the same lines.
///
/// The agent is a shell that prints a file, so it costs as little as an agent can. Every twentieth
/// update is a tool call; the others are text.
fn updates() -> Result<Vec<Finding>> {
    let stage = Stage::new()?;
    let lines = stage.folder.path().join("updates.jsonl");
    let mut file = BufWriter::new(File::create(&lines)?);
    for n in 0..UPDATES {
        writeln!(file, "{}", update_line(n))?;
    }
    file.flush()?;
    let plan = SessionPlan {
        agent_spec: AgentSpec::acp(CAT_AGENT),
        ..plan(1, "true", BTreeMap::new())
    };
    let ours = || {
        let (took, ended) = stage.session(plan.clone())?;
        check(
            ended
                .turns
                .agent_text
                .ends_with(&format!("word {} of many. ", UPDATES - 1)),
            "the text did not come through",
        )?;
        Ok(took)
    };
    let compared = compare(9, ours, || {
        parse(&lines, |line| serde_json::from_str::<Value>(line).map(drop))
    })?;
    Ok(vec![compared.finding(
        &format!("{UPDATES} updates to records"),
        "serde_json to `Value`",
        2.0,
    )])
}

/// An agent that answers every prompt with the same updates.
const CAT_AGENT: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
  case $line in
    *'"initialize"'*) result='{"protocolVersion":1}' ;;
    *'"session/new"'*) result='{"sessionId":"s"}' ;;
    *'"session/prompt"'*) cat updates.jsonl; result='{"stopReason":"end_turn"}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

fn update_line(n: u32) -> Value {
    let update = if n % 20 == 10 {
        let (call, status) = (
            format!("call-{}", n / 40),
            if n % 40 == 10 {
                "in_progress"
            } else {
                "completed"
            },
        );
        serde_json::json!({
            "sessionUpdate": "tool_call_update", "toolCallId": call, "title": format!("Edit file {n}"), "kind": "edit",
            "status": status, "locations": [{"path": format!("src/file_{n}.rs")}],
        })
    } else {
        let content = serde_json::json!({"type": "text", "text": format!("word {n} of many. ")});
        serde_json::json!({"sessionUpdate": "agent_message_chunk", "messageId": "message-1", "content": content})
    };
    let params = serde_json::json!({"sessionId": "s", "update": update});
    serde_json::json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

fn shell(command: String) -> impl Fn() -> Result<Duration> {
    move || {
        let started = Instant::now();
        check(
            Command::new("sh")
                .arg("-c")
                .arg(&command)
                .status()?
                .success(),
            "the comparison failed",
        )?;
        Ok(started.elapsed())
    }
}

/// Restoring a session from its journal, compared with parsing the journal's lines.
fn fold() -> Result<Vec<Finding>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal.jsonl");
    write_journal(&path)?;
    let megabytes = fs::metadata(&path)?.len() / 1_000_000;
    let ours = || {
        let started = Instant::now();
        black_box(journal::fold(&path)?);
        Ok(started.elapsed())
    };
    let what = format!("fold of {RECORDS} records, {megabytes} MB");
    let values = compare(5, ours, || {
        parse(&path, |line| serde_json::from_str::<Value>(line).map(drop))
    })?;
    let ignored = compare(3, ours, || {
        parse(&path, |line| {
            serde_json::from_str::<IgnoredAny>(line).map(drop)
        })
    })?;
    Ok(vec![
        values.finding(&what, "serde_json to `Value`", 3.0),
        information(&ignored.tell(&what, "serde_json to `IgnoredAny`")),
    ])
}

/// Reads the file like the journal is read, so that only the work per line differs.
fn parse(path: &Path, each: impl Fn(&str) -> serde_json::Result<()>) -> Result<Duration> {
    let started = Instant::now();
    let mut reader = BufReader::with_capacity(256 << 10, File::open(path)?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        each(black_box(str::from_utf8(&line)?))?;
        line.clear();
    }
    Ok(started.elapsed())
}

/// A figure without a limit.
fn information(text: &str) -> Finding {
    Finding {
        text: text.to_owned(),
        verdict: Verdict::Information,
    }
}

/// Runs sessions as the command line does, without printing.
struct Stage {
    folder: tempfile::TempDir,
    tokio: tokio::runtime::Runtime,
    next: AtomicU32,
}

impl Stage {
    fn new() -> Result<Self> {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        Ok(Self {
            folder: tempfile::tempdir()?,
            tokio,
            next: AtomicU32::new(1),
        })
    }

    /// Runs a session from its first record to its last, and returns how long that took.
    fn session(&self, plan: SessionPlan) -> Result<(Duration, SessionState)> {
        let name = format!("s{}", self.next.fetch_add(1, Ordering::Relaxed));
        let project = self.folder.path();
        let began = began(
            plan,
            format!("bench-{}-{name}", std::process::id()),
            project,
        );
        let folder = SessionsDir::of(project).folder(&name);
        let scene = RuntimeDirs {
            cwd: project.to_owned(),
            rescue: project.join("rescued"),
            prices: None,
        };
        let started = Instant::now();
        let left = self.tokio.block_on(async {
            let mut runtime = SessionRuntime::begin(began, &folder, scene)?;
            let (live, mut shown) = mpsc::channel(LIVE_BACKLOG);
            runtime.show_live(live);
            tokio::spawn(async move { while shown.recv().await.is_some() {} });
            Ok::<_, Box<dyn Error>>(runtime.run().await?)
        })?;
        let took = started.elapsed();
        check(
            left.state.phase.outcome() == Some(SessionOutcome::Limit),
            "the session did not end as it should",
        )?;
        fs::remove_dir_all(&folder.path)?;
        Ok((took, left.state))
    }
}

fn began(plan: SessionPlan, id: String, cwd: &Path) -> SessionStarted {
    SessionStarted {
        agent: plan.agent.clone(),
        cwd: cwd.to_string_lossy().into_owned(),
        prompt: "Make the tests pass, then say that you are done.".into(),
        max_iterations: plan.max_iterations,
        id,
        seed: 7,
        presence: UserPresence::Unattended,
        plan,
        only_pipeline: None,
        order: None,
        worktree: None,
        from: None,
        fork: None,
        creel: String::new(),
        user: None,
        trace: None,
    }
}

fn plan(
    max_iterations: u32,
    agent: &str,
    hooks: BTreeMap<HookPoint, Vec<HookSpec>>,
) -> SessionPlan {
    SessionPlan {
        instructions: CompletionInstructions::None,
        limits: LimitsPlan::default(),
        max_iterations,
        context: ContextPolicy::Fresh,
        max_hook_retries: 5,
        on_limit: RetryLimitPolicy::Complete,
        max_consecutive_errors: 3,
        turn_timeout: TimeSpan::secs(60),
        output_limit: 16 << 10,
        backoff: None,
        gates: GatePolicies {
            // Keep the flood as a pending item until the end, so that it can be inspected.
            final_delivery: Some(engine::policy::FinalDeliveryPolicy::Skip),
            ..GatePolicies::default()
        },
        hooks,
        automation: Vec::new(),
        workflows: BTreeMap::new(),
        stop: StopPlan {
            hooks: vec![StopHook::preset(StopPreset::Default)],
            rules: Vec::new(),
            settled: SettledPolicy::Continue,
            open_tasks: OpenTasksPolicy::Ignore,
            circuit_breaker: 3,
            thrashing: 0,
            no_progress: 0,
        },
        agent: "bench".into(),
        access: AgentAccess::default(),
        budget: Budget::default(),
        evidence: EvidencePolicy::None,
        models: ModelPlan::default(),
        agent_spec: AgentSpec::command(agent),
        task_type: None,
        task_types: BTreeMap::new(),
        submit: engine::policy::SubmitPlan::default(),
        worktree: None,
        proposal: None,
        gatekeepers: BTreeMap::new(),
    }
}

fn hook_spec(name: &str, command: &str, pipe_output: bool) -> HookSpec {
    HookSpec {
        pipe_output: if pipe_output {
            PipeOutput::Always
        } else {
            PipeOutput::Never
        },
        ..HookSpec::new(name, HookAction::Command(command.into()))
    }
}

/// Writes a long journal with the engine itself, so that every record is where a real one would be.
fn write_journal(path: &Path) -> Result<()> {
    let hooks = BTreeMap::from([
        (
            HookPoint::PreIteration,
            vec![hook_spec("git status", "git status --short", true)],
        ),
        (
            HookPoint::Stop,
            vec![hook_spec("lint", "cargo clippy", false)],
        ),
        (
            HookPoint::PostIteration,
            vec![hook_spec("tests", "cargo test", true)],
        ),
    ]);
    let began = began(
        plan(u32::MAX, "agent", hooks),
        "story".into(),
        Path::new("/project"),
    );
    let mut story = Story {
        file: BufWriter::new(File::create(path)?),
        state: SessionState::new("story", began.clone(), UnixTime(0)),
        seq: 0,
        inbox: VecDeque::new(),
    };
    story.tell(Event::Session(SessionEvent::Started(Box::new(began))))?;
    while story.seq < RECORDS {
        let input = story.inbox.pop_front().unwrap_or(Input::Proceed);
        let step = engine::decide(&story.state, story.now(), input);
        check(!step.is_empty(), "the story came to a halt")?;
        for event in step.events {
            story.tell(event)?;
        }
        for effect in step.effects {
            story.perform(effect);
        }
    }
    Ok(story.file.flush()?)
}

/// A session with simulated hooks and agent.
struct Story {
    file: BufWriter<File>,
    state: SessionState,
    seq: u64,
    inbox: VecDeque<Input>,
}

impl Story {
    /// One record every 40 ms.
    fn now(&self) -> UnixTime {
        UnixTime(1_794_735_000_123).after(TimeSpan(self.seq * 40))
    }

    fn tell(&mut self, event: Event) -> Result<()> {
        self.seq += 1;
        let record = Record {
            v: 1,
            seq: self.seq,
            at: self.now(),
            session: "story".into(),
            event,
            chain: None,
        };
        self.file.write_all(record.to_line().as_bytes())?;
        self.state.apply(record.at, &record.event);
        Ok(())
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::RunHook(job) => self.run_hook(&job),
            Effect::SendPrompt { turn, .. } => self.answer(turn),
            Effect::MeasureWork { by, .. } => {
                self.inbox
                    .push_back(Input::WorkMeasured(engine::verify::WorkMeasurement {
                        by,
                        changes: Some(engine::verify::MeasuredChanges::default()),
                        missing: Vec::new(),
                        tests: Some(engine::verify::test_guard::TestComparison::default()),
                    }));
            }
            Effect::CheckRule(_)
            | Effect::CancelHook(_)
            | Effect::CancelTurn(_)
            | Effect::AnswerPermission { .. }
            | Effect::ReadForge(_)
            | Effect::AnswerNews(_)
            | Effect::Leave(_) => {}
        }
    }

    /// Every third stop is blocked, and two of five test runs fail.
    fn run_hook(&mut self, job: &HookJob) {
        let run = job.run;
        self.process_started(run.0);
        let (code, stdout, stderr) = if job.point == HookPoint::Stop {
            let code = if run.0.is_multiple_of(3) { 2 } else { 0 };
            (
                code,
                String::new(),
                lines("warning: unused variable: `line`", 6),
            )
        } else if job.point == HookPoint::PostIteration && run.0 % 5 < 2 {
            (
                101,
                lines("test parser::reads_a_list ... FAILED", 20),
                String::new(),
            )
        } else {
            (
                0,
                lines("test parser::reads_a_list ... ok", 8),
                String::new(),
            )
        };
        let result = RunResult {
            end: RunEnd::Exit(code),
            took: TimeSpan(1_234),
            stdout,
            stderr,
            omitted_bytes: 0,
            file: Some(format!("outputs/run-{run}.log")),
            reply: None,
            answer: None,
            outcome: None,
            tests: None,
            changed_tests: None,
        };
        self.inbox.push_back(Input::HookFinished {
            run,
            result: Box::new(result),
        });
    }

    /// A dozen pieces of text and two tool calls; every fiftieth turn fails.
    fn answer(&mut self, turn: TurnId) {
        self.process_started(turn.0);
        let said =
            "I will look at the parser first: it reads \"a list\" as one word · that is wrong.\n";
        for piece in 0..12 {
            self.update(turn, AgentUpdate::Message(said.repeat(1 + piece % 3)));
        }
        for call in 0..2 {
            let call = format!("{turn}-{call}");
            let title = "cargo test --lib parser".to_owned();
            let began = ToolCall {
                call,
                title,
                status: ToolStatus::InProgress,
                ..ToolCall::default()
            };
            let output = Some(lines("test parser::reads_a_word ... ok", 8));
            let ended = ToolCall {
                status: ToolStatus::Completed,
                output,
                ..began.clone()
            };
            self.update(turn, AgentUpdate::ToolCalled(began));
            self.update(turn, AgentUpdate::ToolUpdated(ended));
        }
        self.inbox.push_back(if turn.0.is_multiple_of(50) {
            Input::TurnFailed {
                turn,
                failure: TurnFailure::new("connection reset"),
            }
        } else {
            Input::TurnEnded {
                turn,
                end: TurnEnd {
                    stop_reason: StopReason::EndTurn,
                    spent: TurnUsage {
                        tokens: Some(1_500),
                        ..TurnUsage::UNKNOWN
                    },
                    work: None,
                    forbidden: ForbiddenChanges::default(),
                },
            }
        });
    }

    fn update(&mut self, turn: TurnId, update: AgentUpdate) {
        self.inbox.push_back(Input::Agent { turn, update });
    }

    fn process_started(&mut self, number: u64) {
        let pid = i32::try_from(number % 32_768).unwrap_or(0);
        self.inbox.push_back(Input::ProcessStarted {
            pid,
            started: number * 100,
        });
    }
}

fn lines(line: &str, times: usize) -> String {
    format!("{line}\n").repeat(times)
}
