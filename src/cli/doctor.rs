//! `creel doctor`: tries everything that creel depends on, and says what to do about what does not work.
//!
//! # Invariants
//! - No probe delays the report for longer than its limit: each has its own thread.
//! - creel runs nothing that a config names, and sends no agent a prompt.
//! - What creel could not find out in time counts as broken.

mod probes;

use std::{
    io::IsTerminal as _,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;

use crate::{
    cli::{
        VERSION,
        arguments::{ConfigArgs, NatsArgs},
        error::{self, CliResult, print, say},
        target::{self, Project},
        verb_outcome::VerbOutcome,
    },
    present::{
        style::{ColourMode, SignSet, TextRole},
        tables::padded,
        text::{counted, plain},
    },
};

/// How long the probes may take that only look at this machine.
const QUICK: Duration = Duration::from_secs(10);
/// How long those may take that start agents or reach a server.
const SLOW: Duration = Duration::from_secs(45);
/// The width of the first column.
const AREA: usize = "notifications".len();

/// What to try.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Which server to try, too.
    #[command(flatten)]
    pub nats: NatsArgs,
}

/// What the probes know.
struct ProbeSubject {
    args: DoctorArgs,
    /// The project, or what is wrong with its config.
    project: Result<Project, String>,
}

/// What a probe found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    area: &'static str,
    state: FindingState,
    text: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FindingState {
    Works,
    /// creel runs without it, but does less.
    Limited,
    /// creel cannot run sessions here.
    Broken,
}

impl Finding {
    fn works(area: &'static str, text: impl Into<String>) -> Self {
        Self {
            area,
            state: FindingState::Works,
            text: text.into(),
            advice: None,
        }
    }

    fn limited(area: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            area,
            state: FindingState::Limited,
            text: text.into(),
            advice: Some(advice.into()),
        }
    }

    fn broken(area: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            state: FindingState::Broken,
            ..Self::limited(area, text, advice)
        }
    }

    /// An error message of creel. Its advice is indented; `otherwise` is for messages without.
    fn of_error(area: &'static str, message: &str, otherwise: &str) -> Self {
        let (text, advice) = message.split_once("\n  ").unwrap_or((message, otherwise));
        Self::broken(area, text, advice.replace("\n  ", "\n"))
    }
}

type Probe = fn(&ProbeSubject) -> Vec<Finding>;

/// All probes, in the order of the report.
const PROBES: [(&str, Duration, Probe); 7] = [
    ("git", QUICK, probes::git),
    ("config", SLOW, probes::config),
    ("agents", SLOW, probes::agents),
    ("terminal", QUICK, probes::terminal),
    ("nats", SLOW, probes::nats),
    ("system", QUICK, probes::system),
    ("storage", QUICK, probes::storage),
];

/// What the probes found. The screen adds what it knows about the terminal.
pub(crate) struct DoctorReport {
    is_json: bool,
    findings: Vec<Finding>,
    /// Whether the config wants notifications.
    notifies: bool,
}

pub(super) fn doctor(args: DoctorArgs) -> CliResult<VerbOutcome> {
    let is_json = args.json;
    target::here()?;
    let project = Project::load(&args.config).map_err(error::CliError::into_message);
    let notifies = project
        .as_ref()
        .is_ok_and(|project| project.settings.ui.notify);
    let findings = probe_all(&Arc::new(ProbeSubject { args, project }));
    Ok(VerbOutcome::PrintDoctor(Box::new(DoctorReport {
        is_json,
        findings,
        notifies,
    })))
}

/// Runs all probes at the same time.
fn probe_all(subject: &Arc<ProbeSubject>) -> Vec<Finding> {
    let began = Instant::now();
    let started = PROBES.map(|(area, limit, probe)| {
        let (sender, found) = mpsc::channel();
        let subject = Arc::clone(subject);
        // A probe that is too late finds no receiver.
        thread::spawn(move || sender.send(probe(&subject)));
        (area, limit, found)
    });
    let findings = started.into_iter().flat_map(|(area, limit, found)| {
        let left = limit.saturating_sub(began.elapsed());
        found.recv_timeout(left).unwrap_or_else(|error| {
            let text = match error {
                mpsc::RecvTimeoutError::Timeout => {
                    format!("no result within {} s", limit.as_secs())
                }
                mpsc::RecvTimeoutError::Disconnected => "creel could not try it".to_owned(),
            };
            let advice =
                "try again; if it stays like this, the machine is overloaded or a program hangs";
            vec![Finding::broken(area, text, advice)]
        })
    });
    findings.collect()
}

impl DoctorReport {
    /// Prints the report, and returns the exit code. `notification` describes what the terminal
    /// shows when a session needs the user.
    pub(crate) fn print(mut self, notification: &str, keymap_mistakes: &[String]) -> CliResult {
        let is_terminal = std::io::stdout().is_terminal();
        self.findings.push(if !self.notifies {
            let advice = "`ui: { notify: true }` in the config turns them on";
            Finding::limited("notifications", "off in the config", advice)
        } else if is_terminal {
            Finding::works("notifications", notification)
        } else {
            Finding::works(
                "notifications",
                "hooks at `on_gate` only: this is not a terminal",
            )
        });
        let keymap = keymap_mistakes.iter().map(|mistake| {
            Finding::limited(
                "terminal",
                format!("keymap: {mistake}"),
                "correct the keymap file",
            )
        });
        self.findings.extend(keymap);
        let broken = self.count(FindingState::Broken);
        if self.is_json {
            error::json(&serde_json::json!({
                "version": VERSION,
                "ok": broken == 0,
                "findings": self.findings,
            }))?;
            return Ok(u8::from(broken > 0));
        }
        print(&self.text())?;
        let limited = self.count(FindingState::Limited);
        say(&match (broken, limited) {
            (0, 0) => "creel: everything works".to_owned(),
            (0, limited) => format!(
                "creel: everything that sessions need works; {} limited",
                counted(limited, "thing") + if limited == 1 { " is" } else { " are" }
            ),
            (broken, _) => format!("creel: {} to solve first", counted(broken, "problem")),
        });
        Ok(u8::from(broken > 0))
    }

    fn count(&self, state: FindingState) -> usize {
        self.findings
            .iter()
            .filter(|found| found.state == state)
            .count()
    }

    fn text(&self) -> String {
        let paint = ColourMode::for_stream(&std::io::stdout());
        let signs = SignSet::of_locale(|name| std::env::var(name).ok());
        let mut text = format!(
            "{}\n",
            paint.paint(TextRole::Heading, format!("creel {VERSION}"))
        );
        for found in &self.findings {
            let (sign, role) = match found.state {
                FindingState::Works => ("✓", TextRole::Good),
                FindingState::Limited => ("⚠", TextRole::Warning),
                FindingState::Broken => ("✗", TextRole::Bad),
            };
            let sign = paint.paint(role, signs.shown(sign));
            let gap = " ".repeat(AREA + 4);
            let lines = plain(&found.text)
                .trim_end()
                .replace('\n', &format!("\n{gap}"));
            text += &format!("{sign} {}  {lines}\n", padded(found.area, AREA));
            if let Some(advice) = &found.advice {
                let advice = plain(advice).replace('\n', &format!("\n{gap}"));
                text += &format!("{gap}{}\n", paint.paint(TextRole::Faint, advice));
            }
        }
        text
    }
}
