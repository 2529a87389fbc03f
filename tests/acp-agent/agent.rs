//! The agent: receives what the client sends, and plays one request after the other.
//!
//! Owns the order of events and the default answers. Does not perform steps: see [`crate::play`].
//!
//! # Invariants
//! - One request is played at a time. Messages that arrive meanwhile are handled between steps and
//!   while the agent waits.

use std::{
    collections::{HashMap, VecDeque},
    env,
    fs::File,
    path::{Path, PathBuf},
    process,
    rc::Rc,
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{self, Receiver, Sender},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    fail,
    memory::Memory,
    scene::{Kind, Scene},
    script::{Script, Steps},
    step::Habit,
    wire::{self, Answer, Incoming, Request},
};

/// The session id in updates when there is no session.
const NO_SESSION: &str = "session-0";

pub(crate) struct Agent {
    pub(crate) script: Rc<Script>,
    pub(crate) memory: Memory,
    pub(crate) scene: Scene,
    /// For threads that report to the agent.
    pub(crate) inbox: Sender<Incoming>,
    arrived: Receiver<Incoming>,
    backlog: VecDeque<Request>,
    /// The client's unread answers, by the id of our request.
    answers: HashMap<u64, Answer>,
    requests_sent: u64,
    pub(crate) commands_ended: u64,
    pub(crate) deaf: Arc<AtomicBool>,
    ears: Ears,
    /// The file for everything that is received.
    pub(crate) log: PathBuf,
}

/// Whether stdin is read already.
enum Ears {
    Shut(File),
    Open,
}

impl Agent {
    pub(crate) fn new(script: Script, memory: Memory, log: PathBuf) -> Self {
        let (inbox, arrived) = mpsc::channel();
        Self {
            script: Rc::new(script),
            memory,
            scene: Scene::new(
                Kind::Start,
                Value::Null,
                NO_SESSION.to_owned(),
                own_folder(),
            ),
            inbox,
            arrived,
            backlog: VecDeque::new(),
            answers: HashMap::new(),
            requests_sent: 0,
            commands_ended: 0,
            deaf: Arc::default(),
            ears: Ears::Shut(open_log(&log)),
            log,
        }
    }

    pub(crate) fn run(mut self) -> ! {
        let steps = Rc::clone(&self.script.on_start);
        let _ = self.play(&steps);
        self.listen();
        loop {
            match self.backlog.pop_front() {
                Some(request) => self.handle(&request),
                None => self.take_next(),
            }
        }
    }

    /// Begins to read stdin, if it is not read yet.
    pub(crate) fn listen(&mut self) {
        if let Ears::Shut(log) = std::mem::replace(&mut self.ears, Ears::Open) {
            wire::listen(log, Arc::clone(&self.deaf), self.inbox.clone());
        }
    }

    /// Waits for the next message.
    pub(crate) fn take_next(&mut self) {
        let incoming = self.next();
        self.take_in(incoming);
    }

    /// Waits for the next message, up to a limit.
    pub(crate) fn take_next_within(&mut self, patience: Duration) {
        if let Ok(incoming) = self.arrived.recv_timeout(patience) {
            self.take_in(incoming);
        }
    }

    /// Handles everything that has arrived.
    pub(crate) fn take_all(&mut self) {
        while let Ok(incoming) = self.arrived.try_recv() {
            self.take_in(incoming);
        }
    }

    /// Reads without answering anything, for ever.
    pub(crate) fn hang(&mut self) -> ! {
        self.listen();
        loop {
            if let Incoming::Closed = self.next() {
                self.on_closed();
            }
        }
    }

    fn next(&self) -> Incoming {
        self.arrived
            .recv()
            .expect("the agent itself holds a sender")
    }

    fn take_in(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Request(request) if self.script.knows(&request.method) => {
                self.backlog.push_back(request);
            }
            Incoming::Request(request) => {
                wire::send_answer(&request.id, &Err(error(-32601, "Method not found")));
            }
            Incoming::Notification { method, params } if method == "session/cancel" => {
                self.on_cancel(&params["sessionId"]);
            }
            Incoming::Notification { .. } => {}
            Incoming::Answer { id, answer } => {
                self.answers.extend(id.as_u64().map(|id| (id, answer)));
            }
            Incoming::Nonsense => {
                wire::send_answer(&Value::Null, &Err(error(-32700, "Parse error")));
            }
            Incoming::Closed => self.on_closed(),
            Incoming::CommandEnded => self.commands_ended += 1,
        }
    }

    fn on_cancel(&mut self, session: &Value) {
        self.scene.cancelled |= self.scene.is_prompt_of(session);
        let waiting = self
            .backlog
            .iter_mut()
            .filter(|request| request.params["sessionId"] == *session);
        waiting.for_each(|request| request.cancelled = true);
    }

    fn on_closed(&self) {
        if !self.script.ignore_eof {
            process::exit(0);
        }
    }

    fn handle(&mut self, request: &Request) {
        match request.method.as_str() {
            "initialize" => {
                let script = Rc::clone(&self.script);
                let result = json!({
                    "protocolVersion": script.version,
                    "agentCapabilities": script.capabilities,
                    "agentInfo": script.agent_info,
                    "authMethods": script.auth_methods.clone().unwrap_or(json!([])),
                });
                self.perform(request, NO_SESSION, &Ok(result));
            }
            "session/new" => {
                let session = self.memory.fresh_session();
                self.memory
                    .remember_session(&session, &folder_in(&request.params));
                self.perform(request, &session, &Ok(json!({"sessionId": session})));
            }
            "session/load" => self.on_load(request, Value::Null),
            "session/resume" => self.on_load(request, json!({})),
            "session/prompt" => self.on_prompt(request),
            "session/list" => {
                let sessions = self.memory.sessions().map(|(session, cwd)| {
                    json!({"sessionId": session, "cwd": cwd, "title": format!("About {session}"), "updatedAt": "2026-11-15T01:58:17Z"})
                });
                let result = json!({"sessions": sessions.collect::<Vec<_>>()});
                self.perform(request, NO_SESSION, &Ok(result));
            }
            "session/fork" => self.on_fork(request),
            _ => self.perform(request, &session_in(request), &Ok(json!({}))),
        }
    }

    fn on_load(&mut self, request: &Request, result: Value) {
        let session = session_in(request);
        let known = self.memory.folder_of(&session).is_some() || !self.memory.lasts();
        if known {
            self.memory
                .remember_session(&session, &folder_in(&request.params));
        }
        let answer = if known {
            Ok(result)
        } else {
            Err(error(-32002, "Resource not found"))
        };
        self.perform(request, &session, &answer);
    }

    fn on_fork(&mut self, request: &Request) {
        if self.memory.folder_of(&session_in(request)).is_none() && self.memory.lasts() {
            let unknown = Err(error(-32002, "Resource not found"));
            return self.perform(request, NO_SESSION, &unknown);
        }
        let session = self.memory.fresh_session();
        self.memory
            .remember_session(&session, &folder_in(&request.params));
        self.perform(request, &session, &Ok(json!({"sessionId": session})));
    }

    /// Plays the steps of a request that is not a prompt, then answers it unless they did.
    fn perform(&mut self, request: &Request, session: &str, answer: &Answer) {
        let cwd = self.memory.folder_of(session).unwrap_or_else(own_folder);
        let kind = if request.method == "session/new" {
            Kind::NewSession
        } else {
            Kind::Other
        };
        self.scene = Scene::new(kind, request.id.clone(), session.to_owned(), cwd);
        let steps = self
            .script
            .on
            .get(&request.method)
            .map(Rc::clone)
            .unwrap_or_default();
        self.play_and_answer(&steps, answer);
    }

    fn on_prompt(&mut self, request: &Request) {
        let session = session_in(request);
        let Some(cwd) = self.memory.folder_of(&session) else {
            return wire::send_answer(
                &request.id,
                &Err(error(-32602, "Invalid params: unknown session")),
            );
        };
        let prompt = text_of(&request.params["prompt"]);
        let turn = self
            .script
            .turn_for(&prompt, |turn| self.memory.was_played(turn));
        self.scene = Scene::new(Kind::Prompt, request.id.clone(), session, cwd);
        self.scene.prompt = prompt;
        self.scene.turn = self.memory.remember_prompt(turn);
        self.scene.cancelled = request.cancelled;
        self.scene.ignores_cancel = self.script.ignore_cancel;
        let steps = turn
            .map(|turn| Rc::clone(&self.script.turns[turn].steps))
            .unwrap_or_default();
        self.play_and_answer(&steps, &Ok(json!({"stopReason": "end_turn"})));
    }

    fn play_and_answer(&mut self, steps: &Steps, answer: &Answer) {
        if self.play(steps).is_continue() && !self.scene.answered {
            self.answer(answer);
        }
    }

    /// Answers the current request, in the way that the script asked for.
    pub(crate) fn answer(&mut self, answer: &Answer) {
        self.scene.answered = true;
        if self.scene.kind == Kind::NewSession && answer.is_err() {
            self.memory.forget_session(&self.scene.session);
        }
        match (self.scene.kind, self.scene.habit) {
            (Kind::Start, _) | (_, Habit::Never) => {}
            (_, Habit::Once) => wire::send_answer(&self.scene.id, answer),
            (_, Habit::Twice) => (0..2).for_each(|_| wire::send_answer(&self.scene.id, answer)),
            (_, Habit::WrongId) => wire::send_answer(&wrong(&self.scene.id), answer),
        }
    }

    /// Sends a request of ours, and says which one it is.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.requests_sent;
        self.requests_sent += 1;
        wire::send_request(id, method, params);
        id
    }

    /// Waits for the answer to one of our requests.
    pub(crate) fn answer_to(&mut self, id: u64) -> Answer {
        loop {
            match self.answers.remove(&id) {
                Some(answer) => return answer,
                None => self.take_next(),
            }
        }
    }

    pub(crate) fn has_answer_to(&self, id: u64) -> bool {
        self.answers.contains_key(&id)
    }
}

fn open_log(path: &Path) -> File {
    let opened = File::options().create(true).append(true).open(path);
    opened.unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())))
}

fn error(code: i32, message: &str) -> Value {
    json!({"code": code, "message": message})
}

/// An id that the client has not used.
fn wrong(id: &Value) -> Value {
    id.as_u64()
        .map_or_else(|| json!(format!("not {id}")), |id| json!(id + 1000))
}

fn session_in(request: &Request) -> String {
    request.params["sessionId"]
        .as_str()
        .unwrap_or(NO_SESSION)
        .to_owned()
}

fn folder_in(params: &Value) -> PathBuf {
    params["cwd"]
        .as_str()
        .map_or_else(own_folder, PathBuf::from)
}

fn own_folder() -> PathBuf {
    env::current_dir().unwrap_or_default()
}

/// The text of a prompt's blocks.
fn text_of(blocks: &Value) -> String {
    let blocks = blocks.as_array().into_iter().flatten();
    blocks
        .filter_map(|block| block["text"].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}
