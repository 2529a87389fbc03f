//! `creel report`: what a session did, for people and programs that did not watch it.

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, session_name},
        error::{CliError, CliResult, print, say},
        target::{self, remote_sessions::RecordedSession},
    },
    journal::running,
    report::{MARKDOWN_LIMIT, MarkdownPart, Report, changes, html, markdown},
};

/// Which report.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The session. Default: `CREEL_SESSION`, or the one that changed last.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// The form: Markdown for pull requests, one HTML page for people, JSON for programs.
    #[arg(long, value_enum, default_value = "md")]
    pub format: ReportFormat,
    /// Print JSON.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write the report to a file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Markdown, below the size limit of forges.
    Md,
    /// One page that needs no network.
    Html,
    /// All of it, for programs: see `creel schema report`.
    Json,
}

pub(super) fn report(args: &ReportArgs) -> CliResult {
    let recorded = RecordedSession::find(args.session.as_deref(), &args.config, &args.nats)?;
    let folder = recorded.folder();
    let mut report = Report::read(&folder.journal())?;
    // A copy of a session elsewhere has no repository; this folder may be a clone of it.
    let project = if args.nats.url.is_some() {
        target::here()?
    } else {
        folder.project().to_owned()
    };
    changes::read(&mut report, &project);
    let has_ended = report.outcome.outcome.is_some();
    if !has_ended && args.nats.url.is_none() && running(folder).is_none() {
        let name = &folder.name;
        report.outcome.cautions.push(format!(
            "The session is stopped: no creel runs it. `creel resume {name}` continues it."
        ));
    }
    let format = if args.json {
        ReportFormat::Json
    } else {
        args.format
    };
    let text = match format {
        ReportFormat::Md => markdown(&report, MarkdownPart::Whole, MARKDOWN_LIMIT),
        ReportFormat::Html => html(&report),
        ReportFormat::Json => report.json(),
    };
    let Some(file) = &args.output else {
        return print(&text);
    };
    fs::write(file, text).map_err(|error| {
        CliError::failed(format!(
            "cannot write {}: {error}\n  name another file with --output",
            file.display()
        ))
    })?;
    say(&format!("creel: wrote {}", file.display()));
    Ok(0)
}
