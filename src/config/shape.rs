//! Every key of the config: its name, its type, its default and one sentence about it.
//!
//! Owns the one table. Validation, the JSON schema, the defaults and the test of `config.example.yaml` all read it.
//! Does not know what keys mean together: see [`mod@super::load`].
//!
//! # Invariants
//! - A key that is not in the table is a mistake; a key that is in it is checked, described and has a default or none.

mod agents;
mod automation;
mod hooks;
mod nats;
mod permissions;
mod root;
mod rules;
mod stop;
mod submit;
mod workflow;

pub use crate::config::shape::permissions::{BUDGET, LIMITS, PERMISSION};
pub use agents::{AGENT, KNOWN_AGENT, WAY};
pub use automation::{AUTOMATION, AUTOMATION_HOOK};
pub use hooks::{BUILTIN_HOOK, COMMAND_HOOK, GATEKEEPER_HOOK, HOOKS, MATCHER_GROUP};
pub use nats::{NATS, NATS_TLS};
pub use root::{GATES, RETRY, ROOT, STOP, UI};
pub use rules::{COMMAND_RULE, COVERAGE_RULE, FILES_RULE, PATTERN_RULE};
pub use stop::{STOP_ACTION, STOP_ALL, STOP_ANY, STOP_COMMAND, STOP_PRESET, STOP_WHEN};
pub use submit::{SUBMIT, TASK_TYPE, TYPE_STOP};
pub use workflow::{PART, STEP};

use super::{
    diagnostic::names,
    node::{ConfigNode, NodeKind},
};

/// What a value may be.
#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    /// `true` or `false`.
    Bool,
    /// A whole number, both ends included.
    Integer(i64, i64),
    /// A number, both ends included.
    Number(f64, f64),
    /// A length of time.
    Duration(ZeroDuration),
    /// Text.
    Text,
    /// Text that is not blank.
    SomeText,
    /// One of some names.
    OneOf(&'static [&'static str]),
    /// A list of values of one type.
    List(&'static ValueType),
    /// Names of one's own, each with a value of one type.
    Map(&'static ValueType),
    /// Known keys.
    Object(&'static MapShape),
    /// The first whose condition holds.
    Either(&'static [(AlternativeMatch, ValueType)]),
    /// Whatever it is, it is kept for later.
    Anything,
}

/// Whether a length of time may be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroDuration {
    /// It may, and its description says what that means.
    Allowed,
    /// It makes no sense.
    Refused,
}

/// How to tell which alternative is meant.
#[derive(Debug, Clone, Copy)]
pub enum AlternativeMatch {
    /// It is `true` or `false`.
    Bool,
    /// It is text.
    Text,
    /// It is a number.
    Number,
    /// It is a list.
    List,
    /// It is a map with one of these keys.
    With(&'static [&'static str]),
    /// It is a map in which a key has this value.
    Where(&'static str, &'static str),
    /// It is a map.
    Map,
}

/// What a key is worth when it is not given.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// Nothing.
    Absent,
    /// It must be given.
    Required,
    /// `null`, which says so aloud.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any number.
    Float(f64),
    /// Text.
    Text(&'static str),
    /// A list of names.
    Names(&'static [&'static str]),
    /// A map without keys.
    EmptyMap,
    /// What the keys below it are worth.
    OfItsKeys,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct FieldShape {
    /// In `snake_case`; other spellings are accepted.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// What it may be.
    pub ty: ValueType,
    /// What it is worth when it is not given.
    pub default: DefaultValue,
}

/// Whether keys that are not in the table are mistakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPolicy {
    /// They are.
    Known,
    /// They are kept for later.
    Free,
}

/// The keys of a map.
#[derive(Debug, Clone, Copy)]
pub struct MapShape {
    /// Its name in the JSON schema.
    pub name: &'static str,
    /// What one of its keys is called in a message.
    pub noun: &'static str,
    /// Whether there may be others.
    pub keys: KeyPolicy,
    /// The keys.
    pub fields: &'static [FieldShape],
}

impl MapShape {
    /// The key of that name, in any spelling.
    pub fn field(&self, written: &str) -> Option<&'static FieldShape> {
        self.fields.iter().find(|field| super::node::is_spelling(written, field.name))
    }
}

impl DefaultValue {
    /// The default as if it had been written, at the start of the source.
    pub fn node(self) -> Option<ConfigNode> {
        let text = |text: &str| NodeKind::Text(text.to_owned());
        let node = |kind| ConfigNode { at: super::diagnostic::SourceSpan::default(), kind };
        let kind = match self {
            Self::Absent | Self::Required => return None,
            Self::Null => NodeKind::Null,
            Self::Bool(b) => NodeKind::Bool(b),
            Self::Int(n) => NodeKind::Int(n.into()),
            Self::Float(x) => NodeKind::Float(x),
            Self::Text(it) => text(it),
            Self::Names(names) => NodeKind::List(names.iter().map(|name| node(text(name))).collect()),
            Self::EmptyMap | Self::OfItsKeys => NodeKind::Map(Vec::new()),
        };
        Some(node(kind))
    }
}

impl AlternativeMatch {
    /// Whether the condition holds.
    pub fn holds(self, node: &ConfigNode) -> bool {
        match self {
            Self::Bool => matches!(node.kind, NodeKind::Bool(_)),
            Self::Text => matches!(node.kind, NodeKind::Text(_)),
            Self::Number => matches!(node.kind, NodeKind::Int(_) | NodeKind::Float(_)),
            Self::List => matches!(node.kind, NodeKind::List(_)),
            Self::Map => matches!(node.kind, NodeKind::Map(_)),
            Self::With(keys) => keys.iter().any(|key| node.get(key).is_some()),
            Self::Where(key, value) => node.get(key).and_then(ConfigNode::text) == Some(value),
        }
    }
}

impl ValueType {
    /// What a person calls it, after "must be".
    pub fn describe(&self) -> String {
        match self {
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Integer(min, i64::MAX) => format!("a whole number from {min}"),
            Self::Integer(i64::MIN, _) => "a whole number".to_owned(),
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Number(min, max) => format!("a number from {min} to {max}"),
            Self::Duration(_) => "a length of time, such as `30` (seconds) or `2m`".to_owned(),
            Self::Text | Self::SomeText => "text".to_owned(),
            Self::OneOf(known) => format!("one of {}", names(known)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) | Self::Object(_) => "a map".to_owned(),
            Self::Either(alternatives) => {
                let mut all: Vec<String> = alternatives.iter().map(|(_, ty)| ty.describe()).collect();
                all.dedup();
                all.join(" or ")
            }
            Self::Anything => "anything".to_owned(),
        }
    }
}
