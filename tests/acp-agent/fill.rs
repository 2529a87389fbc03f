//! Fills in what a script cannot know: `{session}`, `{cwd}`, `{prompt}` and so on.
//!
//! # Invariants
//! - Filled-in text is not expanded again: `{cwd}` in a prompt stays as it is.

use serde_json::Value;

use crate::scene::Scene;

impl Scene {
    fn values(&self) -> [(&'static str, String); 7] {
        [
            ("{session}", self.session.clone()),
            ("{cwd}", self.cwd.to_string_lossy().into_owned()),
            ("{prompt}", self.prompt.clone()),
            ("{id}", self.id.to_string()),
            ("{turn}", self.turn.to_string()),
            ("{terminal}", self.terminal.clone()),
            ("{outcome}", self.outcome.clone()),
        ]
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        let values = self.values();
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            let known = values.iter().find(|(name, _)| rest.starts_with(name));
            let (name, value) = known.map_or(("{", "{"), |(name, value)| (name, value));
            filled.push_str(value);
            rest = &rest[name.len()..];
        }
        filled + rest
    }

    /// Fills in all strings of a value.
    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(entries) => entries
                .iter()
                .map(|(key, value)| (key.clone(), self.fill_value(value)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}
