//! Plays steps.
//!
//! Owns what each step does, except for questions ([`crate::ask`]), calls of the client
//! ([`crate::call`]) and processes ([`crate::command`]).

use std::{
    fs,
    io::{self, Write as _},
    ops::ControlFlow::{self, Break, Continue},
    path::PathBuf,
    process,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    agent::Agent,
    fail,
    step::{Step, chunk},
    wire,
};

/// How often to look for a file.
const GLANCE: Duration = Duration::from_millis(5);

/// Whether to play the remaining steps.
pub(crate) type Flow = ControlFlow<()>;

impl Agent {
    /// Plays steps until they are done or the turn was cancelled.
    pub(crate) fn play(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            if !step.is_final() {
                self.take_all();
            }
            self.end_if_cancelled()?;
            self.play_step(step)?;
        }
        self.take_all();
        self.end_if_cancelled()
    }

    fn end_if_cancelled(&mut self) -> Flow {
        if !self.scene.is_cut() {
            return Continue(());
        }
        self.answer(&Ok(json!({"stopReason": "cancelled"})));
        Break(())
    }

    fn play_step(&mut self, step: &Step) -> Flow {
        match step {
            Step::Update(update) => self.update(&self.scene.fill_value(update)),
            Step::Flood { updates, text } => self.flood(*updates, text),
            Step::Raw { text, repeat } => {
                wire::send_bytes(self.scene.fill(text).repeat(*repeat).as_bytes());
            }
            Step::Bytes(bytes) => wire::send_bytes(bytes),
            Step::Garbage(lines) => garbage(*lines),
            Step::Stderr { text, repeat } => to_stderr(&self.scene.fill(text).repeat(*repeat)),
            Step::CloseStdout { then } => self.close_stdout(then.as_deref()),
            Step::Ask(ask) => self.ask(ask),
            Step::IfAllowed {
                question,
                then,
                otherwise,
            } => {
                let allowed = self.is_allowed(question.as_deref());
                return self.play(if allowed { then } else { otherwise });
            }
            Step::Read(params) => self.read(params),
            Step::Write(params) => self.write(params),
            Step::Terminal(terminal) => self.terminal(terminal),
            Step::Request { method, params } => self.call_and_say(method, params),
            Step::Notify { method, params } => {
                wire::send_notification(method, &self.scene.fill_value(params));
            }
            Step::Sleep { milliseconds } => self.sleep(*milliseconds),
            Step::WaitFile(path) => self.wait_file(path),
            Step::WaitCancel => self.wait_cancel(),
            Step::IgnoreCancel => self.scene.ignores_cancel = true,
            Step::Hang => self.hang(),
            Step::HangDeaf => self.hang_deaf(),
            Step::Run(command) => self.run_command(command),
            Step::Spawn(spawn) => self.spawn(spawn),
            Step::WritePid(path) => self.write_pid(path),
            Step::Exit(code) => process::exit(*code),
            Step::Once {
                place,
                first,
                afterwards,
            } => {
                let is_first = self.memory.is_first_time(place);
                return self.play(if is_first { first } else { afterwards });
            }
            Step::Result(result) => self.answer_with_result(result),
            Step::Error(error) => self.answer(&Err(self.scene.fill_value(error))),
            Step::Habit(habit) => self.scene.habit = *habit,
        }
        Continue(())
    }

    fn update(&self, update: &Value) {
        wire::send_notification(
            "session/update",
            &json!({"sessionId": self.scene.session, "update": update}),
        );
    }

    /// Says something that is not in the script.
    pub(crate) fn say(&self, text: &str) {
        self.update(&chunk("agent_message_chunk", text));
    }

    fn flood(&self, updates: usize, text: &str) {
        let text = self.scene.fill(text);
        wire::send_many((1..=updates).map(|number| {
            let update = chunk(
                "agent_message_chunk",
                &text.replace("{n}", &number.to_string()),
            );
            wire::notification(
                "session/update",
                &json!({"sessionId": self.scene.session, "update": update}),
            )
        }));
    }

    fn sleep(&mut self, milliseconds: usize) {
        let end = Instant::now() + Duration::from_millis(milliseconds as u64);
        while !self.scene.is_cut() && Instant::now() < end {
            self.take_next_within(end.saturating_duration_since(Instant::now()));
        }
    }

    fn wait_file(&mut self, path: &str) {
        let path = self.path(path);
        while !self.scene.is_cut() && !path.exists() {
            self.take_next_within(GLANCE);
        }
    }

    fn wait_cancel(&mut self) {
        while !self.scene.cancelled {
            self.take_next();
        }
    }

    fn hang_deaf(&self) -> ! {
        self.deaf.store(true, Ordering::Release);
        wire::sleep_forever()
    }

    fn write_pid(&self, path: &str) {
        let path = self.path(path);
        let written = fs::write(&path, format!("{}\n", process::id()));
        written.unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())));
    }

    fn answer_with_result(&mut self, result: &Value) {
        let result = self.scene.fill_value(result);
        if let Some(session) = result["sessionId"].as_str() {
            self.memory.remember_session(session, &self.scene.cwd);
        }
        self.answer(&Ok(result));
    }

    /// A path of the script, relative to the session's folder.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.scene.cwd.join(self.scene.fill(path))
    }
}

fn garbage(lines: usize) {
    for number in 1..=lines {
        wire::send_bytes(format!("[INFO] step {number}: this line is no message {{\n").as_bytes());
    }
}

fn to_stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}
