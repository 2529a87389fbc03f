//! What decides whether the session is complete: the hooks that are asked, and when.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rules::RuleSpec;
use crate::engine::{stop::StopResult, time::TimeSpan};

/// What decides whether the session is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopPlan {
    /// Asked in order after each iteration.
    pub hooks: Vec<StopHook>,
    /// What is checked after each iteration, before the hooks are asked.
    #[serde(default)]
    pub rules: Vec<RuleSpec>,
    /// What follows when all checks pass and the agent changed nothing.
    #[serde(default)]
    pub settled: SettledPolicy,
    /// How many iterations in a row with failed rules escalate; 0: never.
    pub circuit_breaker: u32,
    /// How many iterations in a row escalate in which a file returns to earlier content, or is rewritten while the same
    /// rule fails with the same message; 0: never.
    #[serde(default)]
    pub thrashing: u32,
    /// How many iterations in a row with the same last message escalate; 0: never.
    #[serde(default)]
    pub no_progress: u32,
}

/// What follows when all checks of an iteration pass and the agent changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettledPolicy {
    /// The session is complete.
    Complete,
    /// The user is asked.
    Ask,
    /// The loop continues. Sessions that began before there was a choice go on like this.
    #[default]
    Continue,
}

/// One stop decision hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopHook {
    /// What it is called; unique among the stop hooks, parts of groups included.
    pub name: String,
    /// Who decides.
    pub judge: StopHookKind,
    /// When it is asked; always, if unsaid.
    #[serde(default, skip_serializing_if = "StopHookCondition::is_always")]
    pub when: StopHookCondition,
    /// Whether it is asked at all.
    pub enabled: bool,
}

/// Who decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopHookKind {
    /// Something that creel brings along.
    Preset(StopPreset),
    /// A command that reads the agent's context and answers.
    Command {
        /// For `sh -c`, with the template filled in.
        command: String,
        /// How long it may take.
        timeout: TimeSpan,
    },
    /// The same decision each time it is asked.
    Fixed(StopResult),
    /// Complete when all of these say so; escalate when one does.
    All(Vec<StopHook>),
    /// Complete when one of these says so; otherwise escalate when one does.
    Any(Vec<StopHook>),
}

/// What creel brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopPreset {
    /// Promises, then rules.
    Default,
    /// Rules only.
    Validation,
    /// Promises only.
    Promise,
}

/// When a hook is asked: all that is said must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopHookCondition {
    /// The first iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// The last iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Patterns, one of which a file must fit that was changed in the iteration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What rules must have said: whether each passed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, bool>,
    /// Labels, one of which the task must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl StopHookCondition {
    /// Whether nothing is said.
    pub fn is_always(&self) -> bool {
        *self == Self::default()
    }
}

impl StopPreset {
    /// The name in the config and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Validation => "validation",
            Self::Promise => "promise",
        }
    }

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Default, Self::Validation, Self::Promise].into_iter().find(|preset| preset.name() == name)
    }
}

impl StopHook {
    /// A preset under its own name.
    pub fn preset(preset: StopPreset) -> Self {
        Self {
            name: preset.name().into(),
            judge: StopHookKind::Preset(preset),
            when: StopHookCondition::default(),
            enabled: true,
        }
    }

    /// The parts, if it is a group.
    pub fn parts(&self) -> &[Self] {
        match &self.judge {
            StopHookKind::All(parts) | StopHookKind::Any(parts) => parts,
            StopHookKind::Preset(_) | StopHookKind::Command { .. } | StopHookKind::Fixed(_) => &[],
        }
    }

    /// The hook of that name: itself, or one of its parts, however deep.
    pub fn find(&self, name: &str) -> Option<&Self> {
        if self.name == name { Some(self) } else { self.parts().iter().find_map(|part| part.find(name)) }
    }
}

impl StopPlan {
    /// The hooks that somebody chose: where nobody did, the preset that is always there is not worth a word.
    pub fn said(&self) -> &[StopHook] {
        if self.hooks == [StopHook::preset(StopPreset::Default)] { &[] } else { &self.hooks }
    }

    /// The hook of that name, parts of groups included.
    pub fn hook(&self, name: &str) -> Option<&StopHook> {
        self.hooks.iter().find_map(|hook| hook.find(name))
    }
}
