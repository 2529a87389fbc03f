//! The script: its answers, and which steps are played when.
//!
//! Owns its keys and the choice of a turn. Does not know what steps mean: see [`crate::step`].

use std::{collections::HashMap, rc::Rc};

use serde_json::{Value, json};

use crate::{
    fields::{Fields, Wrong},
    step::{self, Step},
};

/// Shared, so that they can be played while the agent changes.
pub(crate) type Steps = Rc<[Step]>;

/// The keys for the steps of a request.
const REQUESTS: [(&str, &str); 4] = [
    ("on_initialize", "initialize"),
    ("on_new_session", "session/new"),
    ("on_load_session", "session/load"),
    ("on_resume_session", "session/resume"),
];

pub(crate) struct Script {
    pub(crate) version: Value,
    pub(crate) capabilities: Value,
    pub(crate) auth_methods: Option<Value>,
    pub(crate) agent_info: Value,
    pub(crate) on_start: Steps,
    /// Steps by the request's method.
    pub(crate) on: HashMap<String, Steps>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) ignore_cancel: bool,
    pub(crate) ignore_eof: bool,
    pub(crate) state_file: Option<String>,
}

pub(crate) struct Turn {
    when: Option<String>,
    pub(crate) steps: Steps,
}

impl Turn {
    fn fits(&self, prompt: &str) -> bool {
        self.when
            .as_deref()
            .is_none_or(|part| prompt.contains(part))
    }
}

impl Script {
    pub(crate) fn parse(value: Value) -> Result<Self, Wrong> {
        let mut fields = Fields::of(value, "")?;
        let script = Self {
            version: fields.take("version").unwrap_or(json!(1)),
            capabilities: fields.take("capabilities").unwrap_or(json!({})),
            auth_methods: fields.take("auth_methods"),
            agent_info: fields
                .take("agent_info")
                .unwrap_or(json!({"name": "acp-agent", "version": "1"})),
            on_start: fields.steps("on_start")?.unwrap_or_default().into(),
            on: requests(&mut fields)?,
            turns: turns(fields.take("turns"))?,
            ignore_cancel: fields.yes("ignore_cancel")?,
            ignore_eof: fields.yes("ignore_eof")?,
            state_file: fields.text("state_file")?,
        };
        fields
            .done()
            .map_err(|wrong| format!("the script{wrong}"))?;
        Ok(script)
    }

    /// The turn for a prompt: the first fitting one that was not played yet, or else the last
    /// fitting one.
    pub(crate) fn turn_for(
        &self,
        prompt: &str,
        was_played: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut fitting = (0..self.turns.len()).filter(|turn| self.turns[*turn].fits(prompt));
        fitting
            .clone()
            .find(|turn| !was_played(*turn))
            .or_else(|| fitting.next_back())
    }

    fn session_can(&self, what: &str) -> bool {
        self.capabilities["sessionCapabilities"].get(what).is_some()
    }

    /// Whether this agent answers a request with something else than "method not found".
    pub(crate) fn knows(&self, method: &str) -> bool {
        self.on.contains_key(method)
            || match method {
                "initialize" | "session/new" | "session/prompt" => true,
                "authenticate" => self.auth_methods.is_some(),
                "session/load" => self.capabilities["loadSession"] == true,
                "session/resume" => self.session_can("resume"),
                "session/list" => self.session_can("list"),
                "session/fork" => self.session_can("fork"),
                _ => false,
            }
    }
}

fn requests(fields: &mut Fields) -> Result<HashMap<String, Steps>, Wrong> {
    let mut on = HashMap::new();
    for (key, method) in REQUESTS {
        if let Some(steps) = fields.steps(key)? {
            on.insert(method.to_owned(), steps.into());
        }
    }
    if let Some(others) = fields.object("on")? {
        for (method, steps) in others.into_rest() {
            let place = format!("on.{method}");
            if method == "session/prompt" {
                return Err(format!("{place}: prompts play `turns`"));
            }
            let steps = step::list(steps, &place)?.into();
            if on.insert(method, steps).is_some() {
                return Err(format!("{place} is told twice"));
            }
        }
    }
    Ok(on)
}

fn turns(value: Option<Value>) -> Result<Vec<Turn>, Wrong> {
    let turns = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(turns)) => turns,
        Some(_) => return Err("turns must be a list".to_owned()),
    };
    turns
        .into_iter()
        .enumerate()
        .map(|(number, value)| turn(value, &format!("turns[{number}]")))
        .collect()
}

fn turn(value: Value, place: &str) -> Result<Turn, Wrong> {
    if value.is_array() {
        return Ok(Turn {
            when: None,
            steps: step::list(value, place)?.into(),
        });
    }
    let mut fields = Fields::of(value, place)?;
    let when = fields.text("when")?;
    let steps = fields.steps("do")?;
    let steps = fields.needed("do", steps)?.into();
    fields.done()?;
    Ok(Turn { when, steps })
}
