//! The part of the plan that decides whether the session is complete, with the validation rules:
//! conditions for the work to be complete.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{stop::decision::StopResult, time::TimeSpan};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopPlan {
    /// Evaluated in order after each iteration.
    pub hooks: Vec<StopHook>,
    /// Checked after each iteration, before the hooks.
    #[serde(default)]
    pub rules: Vec<RuleSpec>,
    #[serde(default)]
    pub settled: SettledPolicy,
    #[serde(default, skip_serializing_if = "OpenTasksPolicy::is_ignore")]
    pub open_tasks: OpenTasksPolicy,
    /// After how many iterations in a row with failed rules the session escalates. Zero: never.
    pub circuit_breaker: u32,
    /// After how many iterations in a row the session escalates in which a file returns to earlier
    /// content, or is rewritten while the same rule fails with the same message. Zero: never.
    #[serde(default)]
    pub thrashing: u32,
    /// After how many iterations in a row with the same last message the session escalates. Zero:
    /// never.
    #[serde(default)]
    pub no_progress: u32,
}

/// What happens when all checks of an iteration pass and the agent changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettledPolicy {
    Complete,
    Ask,
    /// The loop continues. Sessions that began before this option existed use it.
    #[default]
    Continue,
}

/// What happens when the agent says that it is done while tasks of the session are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenTasksPolicy {
    /// Another iteration with the list of them.
    Continue,
    /// They do not matter. Sessions that began before this option existed use it.
    #[default]
    Ignore,
}

impl OpenTasksPolicy {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    const fn is_ignore(&self) -> bool {
        matches!(self, Self::Ignore)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopHook {
    /// Unique among the stop hooks, including parts of groups.
    pub name: String,
    pub judge: StopHookKind,
    /// The default is always.
    #[serde(default, skip_serializing_if = "StopHookCondition::is_always")]
    pub when: StopHookCondition,
    pub enabled: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopHookKind {
    Preset(StopPreset),
    /// A command that reads the agent's context and answers.
    Command {
        /// For `sh -c`, with the template filled in.
        command: String,
        timeout: TimeSpan,
    },
    /// The same decision each time.
    Fixed(StopResult),
    /// Complete when all of these complete; escalate when one does.
    All(Vec<StopHook>),
    /// Complete when one of these does; otherwise escalate when one does.
    Any(Vec<StopHook>),
}

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

/// When a hook is evaluated: all conditions that are set must be met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopHookCondition {
    /// The first iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// The last iteration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u32>,
    /// Patterns. At least one file that the iteration changed must match one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Whether each of these rules must have passed or failed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, bool>,
    /// Labels. The task must have one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

impl StopHookCondition {
    /// Whether no condition is set.
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

    pub fn named(name: &str) -> Option<Self> {
        [Self::Default, Self::Validation, Self::Promise]
            .into_iter()
            .find(|preset| preset.name() == name)
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

    /// The parts of a group; empty for other hooks.
    pub fn parts(&self) -> &[Self] {
        match &self.judge {
            StopHookKind::All(parts) | StopHookKind::Any(parts) => parts,
            StopHookKind::Preset(_) | StopHookKind::Command { .. } | StopHookKind::Fixed(_) => &[],
        }
    }

    /// The hook of that name: this one, or one of its parts at any depth.
    pub fn find(&self, name: &str) -> Option<&Self> {
        if self.name == name {
            Some(self)
        } else {
            self.parts().iter().find_map(|part| part.find(name))
        }
    }
}

impl StopPlan {
    /// The configured hooks. The default preset alone is not listed.
    pub fn listed(&self) -> &[StopHook] {
        if self.hooks == [StopHook::preset(StopPreset::Default)] {
            &[]
        } else {
            &self.hooks
        }
    }

    /// The hook of that name, including parts of groups.
    pub fn hook(&self, name: &str) -> Option<&StopHook> {
        self.hooks.iter().find_map(|hook| hook.find(name))
    }
}

/// One rule that is checked after each iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleSpec {
    /// Unique among the rules.
    pub name: String,
    pub check: RuleCheck,
    pub timeout: TimeSpan,
    pub enabled: bool,
}

/// Files and folders are relative to the project's folder, and inside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheck {
    /// A command must exit with a certain code.
    Command {
        /// For `sh -c`, with the template filled in.
        command: String,
        expected_exit: i32,
        /// The working directory. None: the project's folder.
        folder: Option<String>,
        /// Additional environment variables.
        env: BTreeMap<String, String>,
    },
    /// A text must match a pattern, or must not.
    ContentPattern {
        /// A regular expression.
        pattern: String,
        target: PatternTarget,
        /// Whether a match passes, or no match does.
        must_match: bool,
    },
    /// Files must exist.
    FileExistence {
        files: Vec<String>,
        need: FileRequirement,
    },
    /// Enough lines must be covered by tests.
    Coverage {
        /// The report.
        file: String,
        format: CoverageFormat,
        /// The lowest line coverage that passes, in percent.
        minimum: f64,
    },
}

impl RuleCheck {
    /// The check in words.
    pub fn describe(&self) -> String {
        match self {
            Self::Command {
                command,
                expected_exit,
                folder,
                ..
            } => {
                let folder = folder
                    .as_ref()
                    .map(|folder| format!(" in {folder}"))
                    .unwrap_or_default();
                format!("{command}{folder} exits with {expected_exit}")
            }
            Self::ContentPattern {
                pattern,
                target,
                must_match,
            } => {
                let place = match target {
                    PatternTarget::AgentOutput => "the agent's last message",
                    PatternTarget::File(file) => file,
                };
                format!(
                    "{place} {} {pattern}",
                    if *must_match {
                        "matches"
                    } else {
                        "does not match"
                    }
                )
            }
            Self::FileExistence { files, need } => {
                let need = match need {
                    FileRequirement::All => "all",
                    FileRequirement::Any => "one",
                };
                format!("{need} of {} must exist", files.join(", "))
            }
            Self::Coverage { file, minimum, .. } => {
                format!("{file} reports at least {minimum} % of lines")
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternTarget {
    /// The agent's last message.
    AgentOutput,
    File(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRequirement {
    #[default]
    All,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageFormat {
    /// The output of `lcov` and `geninfo`.
    Lcov,
    /// The XML of Cobertura.
    Cobertura,
    /// The JSON of istanbul, llvm-cov or coverage.py.
    Json,
}
