//! Validation rules: conditions for the work to be complete.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::time::TimeSpan;

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
