//! Every key of the config: its name, its type, its default and a description.
//!
//! Owns the one table. Validation, the JSON schema, the defaults and the test of
//! `config.example.yaml` all read it. Does not know what keys mean together: see
//! [`mod@super::load`].
//!
//! # Invariants
//! - A key that is not in the table is a mistake. A key in the table is validated and documented.

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
mod worktree;

pub use crate::config::shape::permissions::{BUDGET, LIMITS, OUTAGE, PERMISSION};
pub use agents::{AGENT, KNOWN_AGENT, WAY};
pub use automation::{AUTOMATION, AUTOMATION_HOOK};
pub use hooks::{
    BUILTIN_HOOK, COMMAND_CHECK, COMMAND_HOOK, EXEC_CHECK, EXEC_HOOK, GATEKEEPER_HOOK, HOOKS,
    MATCHER_GROUP,
};
pub use nats::{NATS, NATS_TLS};
pub use root::{GATES, RETRY, ROOT, STOP, UI};
pub use rules::{COMMAND_RULE, COVERAGE_RULE, FILES_RULE, PATTERN_RULE};
pub use stop::{STOP_ACTION, STOP_ALL, STOP_ANY, STOP_COMMAND, STOP_PRESET, STOP_WHEN};
pub use submit::{SUBMIT, TASK_TYPE, TYPE_STOP};
pub use workflow::{PART, STEP};
pub use worktree::WORKTREE;

use super::{
    diagnostic::names,
    node::{ConfigNode, NodeKind},
};

#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    Bool,
    /// The range includes both ends.
    Integer(i64, i64),
    /// The range includes both ends.
    Number(f64, f64),
    Duration(ZeroDuration),
    Text,
    /// Text that is not blank.
    SomeText,
    OneOf(&'static [&'static str]),
    /// `true`, `false`, or one of these words.
    BoolOr(&'static [&'static str]),
    List(&'static ValueType),
    /// A map with arbitrary keys and values of one type.
    Map(&'static ValueType),
    /// A map with known keys.
    Object(&'static MapShape),
    /// The first alternative that matches.
    Either(&'static [(AlternativeMatch, ValueType)]),
    /// Not validated.
    Anything,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZeroDuration {
    /// The key's description says what zero means.
    Allowed,
    Refused,
}

/// How to choose an alternative.
#[derive(Debug, Clone, Copy)]
pub enum AlternativeMatch {
    Bool,
    Text,
    Number,
    List,
    /// A map with one of these keys.
    With(&'static [&'static str]),
    /// A map in which a key has this value.
    Where(&'static str, &'static str),
    Map,
}

/// The value of a key that the config omits.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    Absent,
    Required,
    /// An explicit `null`.
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'static str),
    Names(&'static [&'static str]),
    EmptyMap,
    /// The defaults of the keys below it.
    OfItsKeys,
}

#[derive(Debug, Clone, Copy)]
pub struct FieldShape {
    /// In `snake_case`. Other spellings are accepted too.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    pub ty: ValueType,
    pub default: DefaultValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPolicy {
    /// Unknown keys are mistakes.
    Known,
    /// Unknown keys are accepted and stored.
    Free,
}

#[derive(Debug, Clone, Copy)]
pub struct MapShape {
    /// Its name in the JSON schema.
    pub name: &'static str,
    /// The word for one of its keys in messages.
    pub noun: &'static str,
    pub keys: KeyPolicy,
    pub fields: &'static [FieldShape],
}

impl MapShape {
    /// Accepts any spelling.
    pub fn field(&self, written: &str) -> Option<&'static FieldShape> {
        self.fields
            .iter()
            .find(|field| super::node::is_spelling(written, field.name))
    }
}

impl DefaultValue {
    /// The default as if it were written at the start of the source.
    pub fn node(self) -> Option<ConfigNode> {
        let text = |text: &str| NodeKind::Text(text.to_owned());
        let node = |kind| ConfigNode {
            at: super::diagnostic::SourceSpan::default(),
            kind,
        };
        let kind = match self {
            Self::Absent | Self::Required => return None,
            Self::Null => NodeKind::Null,
            Self::Bool(b) => NodeKind::Bool(b),
            Self::Int(n) => NodeKind::Int(n.into()),
            Self::Float(x) => NodeKind::Float(x),
            Self::Text(it) => text(it),
            Self::Names(names) => {
                NodeKind::List(names.iter().map(|name| node(text(name))).collect())
            }
            Self::EmptyMap | Self::OfItsKeys => NodeKind::Map(Vec::new()),
        };
        Some(node(kind))
    }
}

impl AlternativeMatch {
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
    /// For messages, after "must be".
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
            Self::BoolOr(words) => format!("`true`, `false` or {}", names(words)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) | Self::Object(_) => "a map".to_owned(),
            Self::Either(alternatives) => {
                let mut all: Vec<String> =
                    alternatives.iter().map(|(_, ty)| ty.describe()).collect();
                all.dedup();
                all.join(" or ")
            }
            Self::Anything => "anything".to_owned(),
        }
    }
}
