//! What must hold for the work to be complete.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::time::TimeSpan;

/// One rule that is checked after each iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleSpec {
    /// What it is called; unique among the rules.
    pub name: String,
    /// What is checked.
    pub check: RuleCheck,
    /// How long that may take.
    pub timeout: TimeSpan,
    /// Whether it is checked at all.
    pub enabled: bool,
}

/// What a rule checks. Files and folders are relative to the project's folder, and lie in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleCheck {
    /// That a command exits with a certain code.
    Command {
        /// For `sh -c`, with the template filled in.
        command: String,
        /// The code that passes.
        expected_exit: i32,
        /// Where it runs; the project's folder, if unsaid.
        folder: Option<String>,
        /// What is set in its environment besides.
        env: BTreeMap<String, String>,
    },
    /// That a text holds something, or does not.
    ContentPattern {
        /// A regular expression.
        pattern: String,
        /// What is searched.
        target: PatternTarget,
        /// Whether finding it passes, or not finding it.
        must_match: bool,
    },
    /// That files are there.
    FileExistence {
        /// Which.
        files: Vec<String>,
        /// How many of them.
        need: FileRequirement,
    },
    /// That the tests reach enough lines.
    Coverage {
        /// The report.
        file: String,
        /// What it looks like.
        format: CoverageFormat,
        /// The least share of lines that passes, in percent.
        minimum: f64,
    },
}

impl RuleCheck {
    /// As a person says it.
    pub fn describe(&self) -> String {
        match self {
            Self::Command { command, expected_exit, folder, .. } => {
                let folder = folder.as_ref().map(|folder| format!(" in {folder}")).unwrap_or_default();
                format!("{command}{folder} exits with {expected_exit}")
            }
            Self::ContentPattern { pattern, target, must_match } => {
                let place = match target {
                    PatternTarget::AgentOutput => "the agent's last message",
                    PatternTarget::File(file) => file,
                };
                format!("{place} {} {pattern}", if *must_match { "matches" } else { "does not match" })
            }
            Self::FileExistence { files, need } => {
                let need = match need {
                    FileRequirement::All => "all",
                    FileRequirement::Any => "one",
                };
                format!("{need} of {} there", files.join(", "))
            }
            Self::Coverage { file, minimum, .. } => format!("{file} tells at least {minimum} % of lines"),
        }
    }
}

/// What a pattern is looked for in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternTarget {
    /// The agent's last message.
    AgentOutput,
    /// A file.
    File(String),
}

/// How many of some files must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRequirement {
    /// All of them.
    #[default]
    All,
    /// One is enough.
    Any,
}

/// What a coverage report looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageFormat {
    /// Lines of `lcov` and `geninfo`.
    Lcov,
    /// The XML of Cobertura.
    Cobertura,
    /// The JSON of istanbul, llvm-cov or coverage.py.
    Json,
}
