//! The test agent: speaks the Agent Client Protocol as an agent, driven by a script.
//!
//! It does everything right by default, and everything wrong on demand. It uses no library of the
//! protocol, so that it can misbehave in every way. This header is its manual.
//!
//! ```text
//! acp-agent SCRIPT.json [LOG]
//! ```
//!
//! `LOG` gets every line that was received, appended at once. A mistake in the script ends the
//! agent with code 2 and a message on stderr that names the place. To ignore TERM, start it as `sh
//! -c 'trap "" TERM; exec acp-agent SCRIPT'`.
//!
//! # The script
//!
//! All keys are optional; an unknown key is an error.
//!
//! | key | meaning |
//! | --- | --- |
//! | `version` | the `protocolVersion` answered to `initialize`; 1 by default |
//! | `capabilities` | the `agentCapabilities`, as they are: `{"loadSession": true}` |
//! | `auth_methods` | the `authMethods`, as they are; if given, `authenticate` is answered with `{}` |
//! | `agent_info` | the `agentInfo`, as it is |
//! | `on_start` | steps before anything is read |
//! | `on_initialize` | steps when `initialize` arrives, before or instead of its answer |
//! | `on_new_session` | the same for `session/new` |
//! | `on_load_session` | the same for `session/load`: the replay, usually |
//! | `on_resume_session` | the same for `session/resume` |
//! | `on` | the same for any other request: `{"session/set_mode": [steps]}` |
//! | `turns` | what prompts play: lists of steps, or `{"when": "part of the prompt", "do": [steps]}` |
//! | `ignore_cancel` | `true`: no turn is ended by `session/cancel` |
//! | `ignore_eof` | `true`: the agent continues when its stdin is closed |
//! | `state_file` | remembers across processes which turns and `once` were played and which sessions exist |
//!
//! A prompt plays the first turn that was not played yet and whose `when` is in its text; a turn
//! without `when` fits every prompt. When all that fit were played, the last of them is played
//! again. No turn at all is an empty one.
//!
//! # Defaults
//!
//! - `initialize` is answered with what the keys above say; `session/new` with `session-1`,
//!   `session-2`, …; `session/load` with `null` and `session/resume` with `{}` after their steps;
//!   any other scripted request with `{}`.
//! - `session/load` is known if the capabilities have `loadSession: true` or there is
//!   `on_load_session`, and `session/resume` likewise with `sessionCapabilities.resume`. With a
//!   `state_file`, a session that is not in it is answered with -32002. Without one, every session
//!   can be loaded.
//! - `session/list` and `session/fork` are known if `sessionCapabilities` has `list` or `fork`: the
//!   first lists all sessions, the second answers with a new one.
//! - A prompt whose steps do not answer it ends with `end_turn`; one for an unknown session is
//!   answered with -32602.
//! - After `session/cancel` the running prompt is answered with `cancelled` before the next step,
//!   and the rest is not played. Sleeping and waiting for files end at once; questions and calls
//!   wait for the client's answer.
//! - Nothing is handled between a step and a following `hang`, `hang_deaf`, `exit` or
//!   `close_stdout`: a client that reads the text of `[{"say": "a"}, {"exit": 3}]` knows how it
//!   ends, whatever it sends then.
//! - Unknown requests are answered with -32601, at once. Known ones that arrive while another is
//!   played wait for its end.
//! - A line that is no message is answered with -32700. Unknown notifications are ignored.
//! - When stdin is closed, the agent exits with 0, also in the middle of a turn. A closed stdout
//!   does not end it.
//!
//! # Steps
//!
//! A step is an object with one of these keys. In texts, also deep inside raw objects, `{session}`,
//! `{cwd}`, `{prompt}`, `{id}` (of the request that is played, as JSON), `{turn}` (its number, from
//! 1), `{terminal}` (the last one) and `{outcome}` (of the last question that was answered: an
//! option's id, `cancelled` or `error …`) are filled in. The text of shell commands is left alone.
//! Paths that are not absolute begin at the folder of the session; `state_file` begins at the
//! folder of the script.
//!
//! Updates of the session:
//!
//! | step | what happens |
//! | --- | --- |
//! | `{"say": "text"}` | a chunk of the agent's message |
//! | `{"think": "text"}` | a chunk of its thoughts |
//! | `{"user": "text"}` | a chunk of the user's message, for replays |
//! | `{"update": {…}}` | a session update, as it is |
//! | `{"tool": {…}}` | a `tool_call`, otherwise as it is |
//! | `{"tool_update": {…}}` | a `tool_call_update`, otherwise as it is |
//! | `{"flood": {"updates": 1000, "text": "{n} ", "repeat": 1}}` | that many message chunks at once; `{n}` counts from 1; each text is repeated |
//!
//! Asking the client:
//!
//! | step | what happens |
//! | --- | --- |
//! | `{"ask": {"tool": {…}, "options": […], "as": "name", "wait": false}}` | `session/request_permission`; waits for the answer unless `wait` is `false`; each part can be left out |
//! | `{"if_allowed": [steps], "else": [steps], "as": "name"}` | depends on the answer to that question, or to the last one; waits for it |
//! | `{"read": {"path": "…", "line": 1, "limit": 1}}` | `fs/read_text_file`; says the content or the error |
//! | `{"write": {"path": "…", "content": "…"}}` | `fs/write_text_file`; says `written` or the error |
//! | `{"terminal": {"command": "…", "args": […], "env": […], "cwd": "…", "output_byte_limit": 1, "then": "wait"}}` | `terminal/create` and more, see below |
//! | `{"request": {"method": "…", "params": …}}` | any request; says the answer as JSON, or the error |
//! | `{"notify": {"method": "…", "params": …}}` | any notification |
//!
//! The text of an error is `error -32601: Method not found`. After a terminal was made, `then` is
//! one of: `wait` (for its exit, then its output, then its release), `kill` (and then as `wait`),
//! `release` (at once), `leave` (nothing; later steps know it as `{terminal}`). `wait` and `kill`
//! say `exit 0: output`, `signal KILL: output` or `running: output`, with `, truncated` before the
//! colon if it was. A cancelled turn kills the terminal that it waits for.
//!
//! Answering the request that is played:
//!
//! | step | what happens |
//! | --- | --- |
//! | `{"end": "end_turn", "usage": {…}}` | a prompt's answer with this stop reason |
//! | `{"result": …}` | exactly this result; a `sessionId` in it becomes a known session |
//! | `{"error": {"code": -32000, "message": "…", "data": …}}` | exactly this error |
//! | `{"no_answer": true}` | from here on it is not answered |
//! | `{"answer_twice": true}` | from here on each answer to it is sent twice |
//! | `{"answer_wrong_id": true}` | from here on answers to it have an id that the client has not used |
//!
//! Steps after an answer are still played: updates that come late, a second answer.
//!
//! Bytes:
//!
//! | step | what happens |
//! | --- | --- |
//! | `{"raw": "text", "repeat": 1}` | this line on stdout |
//! | `{"raw_unterminated": "text", "repeat": 1}` | the same without a newline |
//! | `{"raw_bytes": [255, 10]}` | these bytes on stdout |
//! | `{"garbage": 3}` | that many lines of a log on stdout |
//! | `{"stderr": "text", "repeat": 1}` | this text on stderr, as it is |
//! | `{"close_stdout": true, "then": "command"}` | the client reads the end of the stream; the agent lives on as a shell, see below |
//!
//! An agent without stdout plays no further steps: the same process continues as a shell that runs
//! `then`, or that writes its stdin to `LOG` until stdin is closed.
//!
//! Waiting:
//!
//! | step | what happens |
//! | --- | --- |
//! | `{"sleep_ms": 100}` | keeps reading |
//! | `{"wait_file": "path"}` | until there is such a file |
//! | `{"wait_cancel": true}` | until `session/cancel` has arrived for this prompt |
//! | `{"ignore_cancel": true}` | from here on this turn is not ended by it |
//! | `{"hang": true}` | answers nothing more, keeps reading |
//! | `{"hang_deaf": true}` | stops reading as well, and does not notice that stdin was closed |
//!
//! Processes and flow:
//!
//! | step | what happens |
//! | --- | --- |
//! | `{"run": "command"}` | runs in a shell to its end; what it prints goes to stderr; `kill -9 $PPID` ends the agent |
//! | `{"spawn": "command", "holds_output": true}` | starts it in the background; with `holds_output` it keeps stdout and stderr open |
//! | `{"spawn_away": "command", "holds_output": true}` | the same in a session of its own (`setsid`) |
//! | `{"write_pid": "path"}` | the agent's own process number and a newline |
//! | `{"exit": 3}` | at once |
//! | `{"once": [steps], "else": [steps]}` | the first list the first time, the other one afterwards; across processes with a `state_file` |
//!
//! # An example
//!
//! ```json
//! {
//!   "state_file": "state.json",
//!   "on_initialize": [{"once": [{"stderr": "no luck\n"}, {"exit": 1}]}],
//!   "turns": [
//!     [{"ask": {}}, {"if_allowed": [{"run": "echo hello > greeting"}, {"say": "Done."}], "else": [{"say": "A pity."}]}],
//!     {"when": "tests failed", "do": [{"say": "Working…"}, {"ignore_cancel": true}, {"wait_cancel": true}, {"end": "cancelled"}]}
//!   ]
//! }
//! ```

mod agent;
mod ask;
mod call;
mod command;
mod fields;
mod fill;
mod memory;
mod play;
mod scene;
mod script;
mod step;
mod wire;

use std::{
    env,
    ffi::OsString,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process,
};

use crate::{agent::Agent, memory::Memory, script::Script};

fn main() {
    let mut arguments = env::args_os().skip(1);
    let (Some(script), log, None) = (arguments.next(), arguments.next(), arguments.next()) else {
        fail("usage: acp-agent SCRIPT.json [LOG]");
    };
    let path = PathBuf::from(script);
    let script =
        read(&path).unwrap_or_else(|problem| fail(&format!("{}: {problem}", path.display())));
    let folder = path.parent().unwrap_or(Path::new(""));
    let memory = Memory::open(script.state_file.as_ref().map(|file| folder.join(file)));
    Agent::new(
        script,
        memory,
        log.map_or_else(|| "/dev/null".into(), in_own_folder),
    )
    .run();
}

fn read(path: &Path) -> Result<Script, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    Script::parse(serde_json::from_slice(&text).map_err(|error| error.to_string())?)
}

/// An absolute path, valid in every folder.
fn in_own_folder(path: OsString) -> PathBuf {
    env::current_dir().unwrap_or_default().join(path)
}

/// Ends the agent because of a mistake in its script. This must not look like scripted
/// misbehaviour.
fn fail(problem: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "acp-agent: {problem}");
    process::exit(2)
}
