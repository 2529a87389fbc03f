//! Reads and writes lines.
//!
//! Owns stdin and stdout. Does not know what messages mean.
//!
//! # Invariants
//! - Only the thread that plays writes to stdout, and each line is written in one piece.
//! - The agent continues if stdout is closed: the script decides when it stops.

use std::{
    fs::File,
    io::{self, BufRead as _, BufWriter, Write as _},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Sender,
    },
    thread,
};

use serde_json::{Value, json};

pub(crate) type Answer = Result<Value, Value>;

/// A message to the thread that plays.
pub(crate) enum Incoming {
    Request(Request),
    Notification { method: String, params: Value },
    Answer { id: Value, answer: Answer },
    Nonsense,
    Closed,
    CommandEnded,
}

pub(crate) struct Request {
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: Value,
    /// A prompt can be cancelled before it is played.
    pub(crate) cancelled: bool,
}

/// Reads lines in a separate thread, until stdin ends or `deaf` is set.
pub(crate) fn listen(mut log: File, deaf: Arc<AtomicBool>, inbox: Sender<Incoming>) {
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut line = Vec::new();
        while stdin
            .read_until(b'\n', &mut line)
            .is_ok_and(|bytes| bytes > 0)
        {
            // A read that was under way when the agent went deaf cannot be undone, so its line is
            // dropped.
            if deaf.load(Ordering::Acquire) {
                sleep_forever();
            }
            record(&mut log, &line);
            if !line.trim_ascii().is_empty() {
                let _ = inbox.send(understood(&line));
            }
            line.clear();
        }
        let _ = inbox.send(Incoming::Closed);
    });
}

pub(crate) fn sleep_forever() -> ! {
    loop {
        thread::park();
    }
}

fn record(log: &mut File, line: &[u8]) {
    let end: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n" };
    let _ = log.write_all(&[line, end].concat());
}

fn understood(line: &[u8]) -> Incoming {
    let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else {
        return Incoming::Nonsense;
    };
    let id = message.remove("id");
    let params = message.remove("params").unwrap_or_default();
    match (
        id,
        message.remove("method"),
        message.remove("result"),
        message.remove("error"),
    ) {
        (Some(id), Some(Value::String(method)), None, None) => Incoming::Request(Request {
            id,
            method,
            params,
            cancelled: false,
        }),
        (None, Some(Value::String(method)), None, None) => {
            Incoming::Notification { method, params }
        }
        (Some(id), None, Some(result), None) => Incoming::Answer {
            id,
            answer: Ok(result),
        },
        (Some(id), None, None, Some(error)) => Incoming::Answer {
            id,
            answer: Err(error),
        },
        _ => Incoming::Nonsense,
    }
}

pub(crate) fn send_request(id: u64, method: &str, params: &Value) {
    send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
}

pub(crate) fn send_notification(method: &str, params: &Value) {
    send(&notification(method, params));
}

pub(crate) fn send_answer(id: &Value, answer: &Answer) {
    send(&match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    });
}

pub(crate) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn send(message: &Value) {
    send_bytes(format!("{message}\n").as_bytes());
}

pub(crate) fn send_bytes(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes many messages as fast as the client reads them.
pub(crate) fn send_many(messages: impl Iterator<Item = Value>) {
    let _ = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .and_then(|stdout| {
            let mut writer = BufWriter::with_capacity(1 << 16, File::from(stdout));
            for message in messages {
                serde_json::to_writer(&mut writer, &message)?;
                writer.write_all(b"\n")?;
            }
            writer.flush()
        });
}
