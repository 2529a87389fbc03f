//! The cost of an agent's tools: a call compared with an empty one, and the stop hooks that a call
//! can ask.
//!
//! `cargo bench --bench tools` measures both. `benches/README.md` explains the figures.

#[path = "support/measure.rs"]
mod measure;

use std::{
    cell::RefCell,
    hint::black_box,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use creel::{
    config::Settings,
    engine::{
        self, SessionState,
        event::{ActorKind, Event, SessionStarted, StopEvent, UserPresence},
        input::{Input, SessionCommand as Asks},
        policy::StopPreset,
        stop::{
            agent_loop::{EvaluationRequest, LoopCommand, RuleCheckMode},
            chain::StopHookRegistration,
        },
        tasks::command::{NewTask, TaskCommand},
        time::UnixTime,
    },
};
use measure::{Figure, Finding, Result, Verdict, check, compare, median};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult},
    service::RequestContext,
    transport::{async_rw::AsyncRwTransport, stdio_pipes},
};
use serde_json::{Map, Value, json};

/// Calls per round.
const CALLS: u32 = 200;
/// How many hooks are asked.
const HOOKS: usize = 10;
/// The limit for asking them.
const ASKING: Duration = Duration::from_micros(20);

/// With this argument the program is a server whose only tool does nothing.
const EMPTY: &str = "--empty-server";

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == EMPTY) {
        return match serve_nothing() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    measure::run(&[
        Figure {
            name: "call",
            measure: call,
        },
        Figure {
            name: "stop-hooks",
            measure: stop_hooks,
        },
    ])
}

/// A server made with the same library, with a tool that does nothing: the baseline for a call.
struct Nothing;

impl ServerHandler for Nothing {
    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::structured(json!({})).into())
    }
}

fn serve_nothing() -> Result<()> {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(async {
        let (input, output) = stdio_pipes();
        let running = Nothing
            .serve(AsyncRwTransport::new_server(input, output))
            .await?;
        running.waiting().await?;
        Ok(())
    })
}

/// A tool call, from the client's line to the session and back, compared with a call of a tool that
/// does nothing.
fn call() -> Result<Vec<Finding>> {
    let folder = tempfile::tempdir()?;
    let client = RefCell::new(Client::start(
        Path::new(env!("CARGO_BIN_EXE_creel")),
        "mcp",
        folder.path(),
    )?);
    let idle = RefCell::new(Client::start(
        &std::env::current_exe()?,
        EMPTY,
        folder.path(),
    )?);
    client
        .borrow_mut()
        .tool("task_add", &json!({"goal": "x", "taskId": "t"}))?;
    let times = |client: &RefCell<Client>, each: &dyn Fn(&mut Client) -> Result<()>| {
        let started = Instant::now();
        (0..CALLS).try_for_each(|_| each(&mut client.borrow_mut()))?;
        Ok(started.elapsed())
    };
    let empty = || {
        times(&idle, &|client| {
            client.tool("nothing", &json!({"taskId": "t"}))
        })
    };
    let ping = || times(&client, &|client| client.ask("ping", &json!({})).map(drop));
    let look = || {
        times(&client, &|client| {
            client.tool("task_get", &json!({"taskId": "t"}))
        })
    };
    let change = || {
        times(&client, &|client| {
            client.tool("hook_clear", &json!({"taskId": "t"}))
        })
    };
    let (calls, empties) = (
        format!("{CALLS} calls of task_get"),
        format!("{CALLS} calls of a tool that does nothing"),
    );
    let looked = compare(25, look, empty)?;
    let changed = compare(5, change, empty)?;
    let pinged = compare(5, look, ping)?;
    let told = |text| Finding {
        text,
        verdict: Verdict::Information,
    };
    Ok(vec![
        looked.finding(&calls, &empties, 3.0),
        told(changed.tell("calls that are recorded", &empties)),
        told(pinged.tell(&calls, "pings")),
    ])
}

/// Asks ten registered hooks of a task, and decides.
fn stop_hooks() -> Result<Vec<Finding>> {
    let state = judging()?;
    let once = || {
        let started = Instant::now();
        let step = engine::decide(black_box(&state), UnixTime(2), Input::Proceed);
        let took = started.elapsed();
        let decided = step
            .events
            .iter()
            .any(|event| matches!(event, Event::Stop(StopEvent::Decided(_))));
        check(decided, "nothing was decided").map(|()| took)
    };
    let all = (0..2_000).map(|_| once()).collect::<Result<Vec<_>>>()?;
    let took = median(all.into_iter(), Duration::cmp);
    let text = format!(
        "{HOOKS} stop hooks asked: {:.1} us, allowed {} us",
        took.as_secs_f64() * 1e6,
        ASKING.as_micros()
    );
    Ok(vec![Finding {
        text,
        verdict: if took <= ASKING {
            Verdict::Ok
        } else {
            Verdict::Missed
        },
    }])
}

/// A session with a loop of that many hooks, ready to be judged.
fn judging() -> Result<SessionState> {
    let plan = Settings::default().plan_outside(None);
    let began = SessionStarted {
        agent: plan.agent.clone(),
        cwd: "/".into(),
        prompt: String::new(),
        max_iterations: plan.max_iterations,
        id: "bench".into(),
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
    };
    let mut state = SessionState::new("s", began, UnixTime(1));
    settle(&mut state);
    let task = NewTask {
        id: Some("t".into()),
        goal: "Write the parser".into(),
        ..NewTask::default()
    };
    ask(
        &mut state,
        Asks::Task {
            task: TaskCommand::Add(task),
        },
    )?;
    for n in 0..HOOKS {
        // Each of them looks for a promise in vain, so that all are asked.
        let preset = if n % 2 == 0 {
            StopPreset::Default
        } else {
            StopPreset::Promise
        };
        ask(
            &mut state,
            Asks::RegisterStopHook(StopHookRegistration {
                task: "t".into(),
                preset,
                metadata: Map::new(),
            }),
        )?;
    }
    let start = LoopCommand::Start {
        task: "t".into(),
        max_iterations: 10,
        promises: Vec::new(),
    };
    ask(&mut state, Asks::Loop { about: start })?;
    settle(&mut state);
    let id = state.stop.loops.first().ok_or("no loop")?.id.clone();
    let said = "I wrote the parser and its tests. One of them is red.".to_owned();
    let files = vec!["src/parser.rs".to_owned()];
    let asked = EvaluationRequest {
        id,
        agent_text: said,
        files,
        draft: None,
        checkpoint: None,
        rules: RuleCheckMode::Check,
    };
    ask(
        &mut state,
        Asks::Loop {
            about: LoopCommand::Judge(Box::new(asked)),
        },
    )?;
    Ok(state)
}

fn ask(state: &mut SessionState, command: Asks) -> Result<()> {
    let step = engine::decide(
        state,
        UnixTime(1),
        Input::Command {
            by: ActorKind::Mcp.into(),
            command,
        },
    );
    check(!step.events.is_empty(), "it was refused")?;
    step.events
        .iter()
        .for_each(|event| state.apply(UnixTime(1), event));
    Ok(())
}

/// Runs until nothing is due.
fn settle(state: &mut SessionState) {
    loop {
        let step = engine::decide(state, UnixTime(1), Input::Proceed);
        if step.events.is_empty() {
            return;
        }
        step.events
            .iter()
            .for_each(|event| state.apply(UnixTime(1), event));
    }
}

/// A client of a server; a client of `creel mcp` has its own session.
struct Client {
    server: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    fn start(program: &Path, argument: &str, home: &Path) -> Result<Self> {
        let mut server = Command::new(program)
            .arg(argument)
            .current_dir(home)
            .env("HOME", home)
            .env("XDG_STATE_HOME", home.join("state"))
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("CREEL_SESSION")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = server.stdin.take().ok_or("no stdin")?;
        let stdout = BufReader::new(server.stdout.take().ok_or("no stdout")?);
        let mut client = Self {
            server,
            stdin,
            stdout,
        };
        let info = json!({"name": "bench", "version": "0"});
        client.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}),
        )?;
        Ok(client)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            .to_string()
            + "\n";
        self.stdin.write_all(line.as_bytes())?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> Result<()> {
        let answer = self.ask("tools/call", &json!({"name": name, "arguments": arguments}))?;
        check(
            answer["result"]["structuredContent"].is_object(),
            &answer.to_string(),
        )
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
