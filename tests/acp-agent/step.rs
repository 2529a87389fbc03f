//! The steps of a script.
//!
//! Owns their names and shapes. Does not perform them: see [`crate::play`].
//!
//! # Invariants
//! - Mistakes in steps are reported before the first step is played.

use serde_json::{Map, Value, json};

use crate::fields::{Fields, Wrong};

pub(crate) enum Step {
    Update(Value),
    Flood {
        updates: usize,
        text: String,
    },
    Raw {
        text: String,
        repeat: usize,
    },
    Bytes(Vec<u8>),
    Garbage(usize),
    Stderr {
        text: String,
        repeat: usize,
    },
    CloseStdout {
        then: Option<String>,
    },
    Ask(Ask),
    IfAllowed {
        question: Option<String>,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    Read(Map<String, Value>),
    Write(Map<String, Value>),
    Terminal(Terminal),
    Request {
        method: String,
        params: Value,
    },
    Notify {
        method: String,
        params: Value,
    },
    Sleep {
        milliseconds: usize,
    },
    WaitFile(String),
    WaitCancel,
    IgnoreCancel,
    Hang,
    HangDeaf,
    Run(String),
    Spawn(Spawn),
    WritePid(String),
    Exit(i32),
    Once {
        place: String,
        first: Vec<Step>,
        afterwards: Vec<Step>,
    },
    Result(Value),
    Error(Value),
    Habit(Habit),
}

impl Step {
    /// Whether nothing can follow. The client's answer to the step before must not prevent it.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Step::Hang | Step::HangDeaf | Step::Exit(_) | Step::CloseStdout { .. }
        )
    }
}

pub(crate) struct Ask {
    pub(crate) tool: Value,
    pub(crate) options: Value,
    pub(crate) name: Option<String>,
    pub(crate) wait: bool,
}

/// A terminal to create, and what follows.
pub(crate) struct Terminal {
    pub(crate) params: Map<String, Value>,
    pub(crate) then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Wait,
    Kill,
    Release,
    Leave,
}

pub(crate) struct Spawn {
    pub(crate) command: String,
    pub(crate) home: Home,
    pub(crate) output: Output,
}

/// Which Unix session a process belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Home {
    Same,
    Away,
}

/// Where a background process's output goes.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    Dropped,
    Held,
}

/// How the current request is answered.
#[derive(Clone, Copy)]
pub(crate) enum Habit {
    Once,
    Twice,
    WrongId,
    Never,
}

/// Parses a list of steps.
pub(crate) fn list(value: Value, place: &str) -> Result<Vec<Step>, Wrong> {
    let Value::Array(steps) = value else {
        return Err(format!("{place} must be a list of steps"));
    };
    steps
        .into_iter()
        .enumerate()
        .map(|(number, value)| step(value, &format!("{place}[{number}]")))
        .collect()
}

fn step(value: Value, place: &str) -> Result<Step, Wrong> {
    let written = value.to_string();
    let mut fields = Fields::of(value, place)?;
    for family in [update, bytes, question, call, wait, process, answer] {
        if let Some(step) = family(&mut fields)? {
            fields.done()?;
            return Ok(step);
        }
    }
    Err(format!("{place} is no step: {written}"))
}

fn update(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    for (key, kind) in [
        ("say", "agent_message_chunk"),
        ("think", "agent_thought_chunk"),
        ("user", "user_message_chunk"),
    ] {
        if let Some(text) = fields.text(key)? {
            return Ok(Some(Step::Update(chunk(kind, &text))));
        }
    }
    for (key, kind) in [("tool", "tool_call"), ("tool_update", "tool_call_update")] {
        if let Some(tool) = fields.object(key)? {
            let mut tool = tool.into_rest();
            tool.insert("sessionUpdate".to_owned(), kind.into());
            return Ok(Some(Step::Update(tool.into())));
        }
    }
    match fields.take("update") {
        Some(update) => Ok(Some(Step::Update(update))),
        None => flood(fields),
    }
}

/// A session update that carries text.
pub(crate) fn chunk(kind: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
}

fn flood(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    let Some(mut flood) = fields.object("flood")? else {
        return Ok(None);
    };
    let updates = flood.number("updates")?;
    let updates = flood.needed("updates", updates)?;
    let text = flood
        .text("text")?
        .unwrap_or_else(|| "{n} ".to_owned())
        .repeat(repeat(&mut flood)?);
    flood.done()?;
    Ok(Some(Step::Flood { updates, text }))
}

fn repeat(fields: &mut Fields) -> Result<usize, Wrong> {
    Ok(fields.number("repeat")?.unwrap_or(1))
}

fn bytes(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    if let Some(text) = fields.text("raw")? {
        let line = text.repeat(repeat(fields)?) + "\n";
        return Ok(Some(Step::Raw {
            text: line,
            repeat: 1,
        }));
    }
    if let Some(text) = fields.text("raw_unterminated")? {
        return Ok(Some(Step::Raw {
            text,
            repeat: repeat(fields)?,
        }));
    }
    if let Some(text) = fields.text("stderr")? {
        return Ok(Some(Step::Stderr {
            text,
            repeat: repeat(fields)?,
        }));
    }
    if let Some(bytes) = fields.take("raw_bytes") {
        let bytes = bytes
            .as_array()
            .and_then(|bytes| bytes.iter().map(byte).collect());
        return Ok(Some(Step::Bytes(
            fields.needed("raw_bytes: [0 to 255, …]", bytes)?,
        )));
    }
    if let Some(lines) = fields.number("garbage")? {
        return Ok(Some(Step::Garbage(lines)));
    }
    if fields.yes("close_stdout")? {
        return Ok(Some(Step::CloseStdout {
            then: fields.text("then")?,
        }));
    }
    Ok(None)
}

fn byte(value: &Value) -> Option<u8> {
    value.as_u64().and_then(|number| u8::try_from(number).ok())
}

fn question(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    if let Some(mut ask) = fields.object("ask")? {
        let step = Step::Ask(Ask {
            tool: ask.take("tool").unwrap_or_else(usual_tool),
            options: ask.take("options").unwrap_or_else(usual_options),
            name: ask.text("as")?,
            wait: ask.yes_or_no("wait")?.unwrap_or(true),
        });
        ask.done()?;
        return Ok(Some(step));
    }
    let Some(then) = fields.steps("if_allowed")? else {
        return Ok(None);
    };
    let otherwise = fields.steps("else")?.unwrap_or_default();
    Ok(Some(Step::IfAllowed {
        question: fields.text("as")?,
        then,
        otherwise,
    }))
}

fn usual_tool() -> Value {
    json!({"toolCallId": "call-1", "title": "Run a command", "kind": "execute", "status": "pending"})
}

fn usual_options() -> Value {
    json!([
        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
        {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
    ])
}

fn call(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    if let Some(read) = fields.object("read")? {
        return Ok(Some(Step::Read(read.into_rest())));
    }
    if let Some(write) = fields.object("write")? {
        return Ok(Some(Step::Write(write.into_rest())));
    }
    if let Some(terminal) = fields.object("terminal")? {
        return Ok(Some(Step::Terminal(new_terminal(terminal)?)));
    }
    if let Some((method, params)) = message(fields, "request")? {
        return Ok(Some(Step::Request { method, params }));
    }
    Ok(message(fields, "notify")?.map(|(method, params)| Step::Notify { method, params }))
}

fn new_terminal(mut fields: Fields) -> Result<Terminal, Wrong> {
    let then = match fields.text("then")?.as_deref() {
        None | Some("wait") => Then::Wait,
        Some("kill") => Then::Kill,
        Some("release") => Then::Release,
        Some("leave") => Then::Leave,
        Some(other) => {
            return Err(format!(
                "{}.then: `{other}` is none of wait, kill, release, leave",
                fields.place
            ));
        }
    };
    let limit = fields.take("output_byte_limit");
    let mut params = fields.into_rest();
    params.extend(limit.map(|limit| ("outputByteLimit".to_owned(), limit)));
    Ok(Terminal { params, then })
}

fn message(fields: &mut Fields, key: &str) -> Result<Option<(String, Value)>, Wrong> {
    let Some(mut message) = fields.object(key)? else {
        return Ok(None);
    };
    let method = message.text("method")?;
    let method = message.needed("method", method)?;
    let params = message.take("params").unwrap_or_else(|| json!({}));
    message.done()?;
    Ok(Some((method, params)))
}

fn wait(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    if let Some(milliseconds) = fields.number("sleep_ms")? {
        return Ok(Some(Step::Sleep { milliseconds }));
    }
    if let Some(path) = fields.text("wait_file")? {
        return Ok(Some(Step::WaitFile(path)));
    }
    for (key, step) in [
        ("wait_cancel", Step::WaitCancel),
        ("ignore_cancel", Step::IgnoreCancel),
        ("hang", Step::Hang),
        ("hang_deaf", Step::HangDeaf),
    ] {
        if fields.yes(key)? {
            return Ok(Some(step));
        }
    }
    Ok(None)
}

fn process(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    if let Some(command) = fields.text("run")? {
        return Ok(Some(Step::Run(command)));
    }
    for (key, home) in [("spawn", Home::Same), ("spawn_away", Home::Away)] {
        if let Some(command) = fields.text(key)? {
            let output = if fields.yes("holds_output")? {
                Output::Held
            } else {
                Output::Dropped
            };
            return Ok(Some(Step::Spawn(Spawn {
                command,
                home,
                output,
            })));
        }
    }
    if let Some(path) = fields.text("write_pid")? {
        return Ok(Some(Step::WritePid(path)));
    }
    if let Some(code) = fields.number("exit")? {
        let code = i32::try_from(code).ok().filter(|code| *code < 256);
        return Ok(Some(Step::Exit(fields.needed("exit: 0 to 255", code)?)));
    }
    let Some(first) = fields.steps("once")? else {
        return Ok(None);
    };
    let afterwards = fields.steps("else")?.unwrap_or_default();
    Ok(Some(Step::Once {
        place: fields.place.clone(),
        first,
        afterwards,
    }))
}

fn answer(fields: &mut Fields) -> Result<Option<Step>, Wrong> {
    if let Some(reason) = fields.take("end") {
        let mut result = json!({"stopReason": reason});
        if let Some(usage) = fields.take("usage") {
            result["usage"] = usage;
        }
        return Ok(Some(Step::Result(result)));
    }
    if let Some(result) = fields.take("result") {
        return Ok(Some(Step::Result(result)));
    }
    if let Some(error) = fields.take("error") {
        return Ok(Some(Step::Error(error)));
    }
    for (key, habit) in [
        ("no_answer", Habit::Never),
        ("answer_twice", Habit::Twice),
        ("answer_wrong_id", Habit::WrongId),
    ] {
        if fields.yes(key)? {
            return Ok(Some(Step::Habit(habit)));
        }
    }
    Ok(None)
}
