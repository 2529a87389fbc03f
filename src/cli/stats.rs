//! `creel stats`: how sessions ended, what they cost, and which checks fail.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{CliError, CliResult, json, print, say},
        target::{self, remote_sessions::NatsServerConnection},
    },
    config::duration_of,
    engine::time::{TimeSpan, UnixTime},
    journal::{SessionDir, SessionsDir},
    present::{
        tables::columns,
        text::{brief_span, counted, local_zone, plain_line},
        usage,
    },
    queue::{ProjectTasks, task_bucket::FleetTasks},
    report::{
        Report,
        stats::{CheckFigures, SessionFigures, SessionStats, StatsGroup, StatsKey, stats},
    },
    runtime::now,
    sessions::stored_session,
};

/// The longest name in a row, in characters.
const NAME: usize = 60;
/// How many checks the table has.
const CHECKS: usize = 10;

/// Which sums.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// By what to put sessions together.
    #[arg(long, value_enum, default_value = "agent")]
    pub by: StatsKeyArg,
    /// Only sessions that started in this time: `30d`, `12h`.
    #[arg(long, value_name = "TIME", value_parser = duration_of)]
    pub since: Option<TimeSpan>,
    /// The sessions of all projects in which you have run creel.
    #[arg(long, conflicts_with = "url")]
    pub all: bool,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Print JSON; see `creel schema stats`.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsKeyArg {
    Agent,
    Model,
    /// The task type.
    Type,
    Project,
    User,
    /// The week in which the session started.
    Week,
}

impl StatsKeyArg {
    const fn key(self) -> (StatsKey, &'static str) {
        match self {
            Self::Agent => (StatsKey::Agent, "AGENT"),
            Self::Model => (StatsKey::Model, "MODEL"),
            Self::Type => (StatsKey::Type, "TYPE"),
            Self::Project => (StatsKey::Project, "PROJECT"),
            Self::User => (StatsKey::User, "USER"),
            Self::Week => (StatsKey::Week, "WEEK"),
        }
    }
}

pub(super) fn print_stats(args: &StatsArgs) -> CliResult {
    let read = match NatsServerConnection::named(&args.nats, &args.config)? {
        Some(server) => elsewhere(&server)?,
        None => here(args)?,
    };
    let unreadable = read.iter().filter(|figures| figures.is_none()).count();
    let first = args.since.map(|since| {
        let span = i64::try_from(since.0).unwrap_or(i64::MAX);
        UnixTime(now().0.saturating_sub(span))
    });
    let has_any = read.iter().any(Option::is_some);
    let figures: Vec<SessionFigures> = read
        .into_iter()
        .flatten()
        .filter(|figures| first.is_none_or(|first| figures.started >= first))
        .collect();
    let (key, heading) = args.by.key();
    let sums = SessionStats {
        unreadable,
        ..stats(&figures, key, &local_zone())
    };
    if args.json {
        return json(&sums);
    }
    if unreadable > 0 {
        let journals = counted(unreadable, "journal");
        say(&format!(
            "creel: cannot read {journals}; `creel sessions` lists them"
        ));
    }
    if figures.is_empty() {
        say(if has_any {
            "creel: no session started in that time"
        } else {
            "creel: no sessions to count; start one with `creel run`"
        });
        return Ok(0);
    }
    print(&tables(&sums, heading))
}

/// What each session of this project, or of all projects, says. None if it cannot be read.
fn here(args: &StatsArgs) -> CliResult<Vec<Option<SessionFigures>>> {
    let projects = target::projects_of(&args.config, args.all)?;
    let sessions = sessions(&projects, args.all)?;
    let merged: BTreeMap<&Path, BTreeSet<String>> = projects
        .iter()
        .map(|project| (project.as_path(), merged_by_queue(project)))
        .collect();
    Ok(stored_session::for_each(&sessions, |session| {
        let project = session.project();
        let by_queue = merged.get(project);
        let is_merged = by_queue.is_some_and(|merged| merged.contains(&session.name));
        figures(session, &project.display().to_string(), is_merged)
    }))
}

/// What each session that a server lists says.
fn elsewhere(server: &NatsServerConnection) -> CliResult<Vec<Option<SessionFigures>>> {
    let tasks = server.wait(FleetTasks::all(&server.jetstream(), &server.nats));
    let tasks = tasks.unwrap_or_else(|error| {
        say_uncounted(&error);
        Vec::new()
    });
    let merged: BTreeSet<_> = tasks
        .iter()
        .filter_map(|(_, task)| task.merged_session())
        .collect();
    let listed = server.heartbeats()?;
    let each = listed.iter().map(|heartbeat| {
        let status = &heartbeat.status;
        let is_merged = merged.contains(&(status.session.as_str(), heartbeat.host.as_str()));
        let copy = server.copy_of(heartbeat).ok()?;
        figures(copy.folder(), &status.cwd, is_merged)
    });
    Ok(each.collect())
}

fn figures(session: &SessionDir, project: &str, is_merged: bool) -> Option<SessionFigures> {
    let report = Report::read(&session.journal()).ok()?;
    let figures = SessionFigures::of(&report, project);
    Some(if is_merged {
        figures.merged_by_queue()
    } else {
        figures
    })
}

fn say_uncounted(error: &impl std::fmt::Display) {
    say(&format!(
        "creel: {error}\n  the changes that the merge queue merged are not counted"
    ));
}

/// The sessions whose changes the merge queue of this project merged.
fn merged_by_queue(project: &Path) -> BTreeSet<String> {
    let tasks = ProjectTasks::of(project).now().unwrap_or_else(|error| {
        say_uncounted(&error);
        Vec::new()
    });
    let merged = tasks.iter().filter_map(|task| task.merged_session());
    merged.map(|(session, _)| session.to_owned()).collect()
}

/// All sessions of these projects. Of several, one that cannot be read hides no other.
fn sessions(projects: &[PathBuf], all: bool) -> CliResult<Vec<SessionDir>> {
    let mut found = Vec::new();
    for project in projects {
        match SessionsDir::of(project).list() {
            Ok(sessions) => found.extend(sessions),
            Err(error) => {
                let why = format!("cannot list the sessions of {}: {error}", project.display());
                if !all {
                    return Err(CliError::failed(why));
                }
                say(&format!("creel: {why}"));
            }
        }
    }
    Ok(found)
}

fn tables(sums: &SessionStats, heading: &str) -> String {
    let heads = [
        heading,
        "SESSIONS",
        "VERIFIED",
        "MERGED",
        "RETRIES",
        "COST",
        "PER VERIFIED",
        "PER MERGED",
        "OUTCOMES",
    ];
    let mut rows: Vec<[String; 9]> = sums.groups.iter().map(|group| row(group, None)).collect();
    if sums.groups.len() > 1 {
        rows.push(row(&sums.total, Some("all")));
    }
    let mut text = columns(heads, rows.into_iter());
    let unknown = sums.total.cost_unknown;
    let mut notes = Vec::new();
    if unknown > 0 {
        let of = counted(unknown, "session");
        notes.push(format!(
            "The cost of {of} is not known, or only in part: `?`, or `≥` in a sum.\n"
        ));
    }
    if sums.total.cost_estimated.is_some() {
        notes.push(
            "`≈`: creel estimated a part of it from tokens and a table of prices.\n".to_owned(),
        );
    }
    if !notes.is_empty() {
        text += &format!("\n{}", notes.concat());
    }
    let failing: Vec<&CheckFigures> = sums.checks.iter().filter(|check| check.runs > 0).collect();
    if !failing.is_empty() {
        let heads = ["CHECK", "RUNS", "FAILED", "TIME", "TIME OF FAILED RUNS"];
        let shown = failing.iter().take(CHECKS).map(|check| check_row(check));
        text += &format!("\n{}", columns(heads, shown));
    }
    text
}

fn row(group: &StatsGroup, name: Option<&str>) -> [String; 9] {
    let name = name.or(group.name.as_deref());
    let cost = |cost: Option<f64>| match cost {
        None if group.cost.is_none() => "?".to_owned(),
        None => "-".to_owned(),
        Some(cost) => {
            let estimated = group.cost_estimated.unwrap_or(0.0);
            usage::amount(cost, estimated, group.cost_unknown > 0)
        }
    };
    let outcomes = group.outcomes.iter();
    let outcomes: Vec<String> = outcomes
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let retries = group.retries_per_completion;
    [
        name.map_or_else(|| "not recorded".to_owned(), |name| plain_line(name, NAME)),
        group.sessions.to_string(),
        group.verified.to_string(),
        group.merged.to_string(),
        retries.map_or_else(|| "-".to_owned(), |retries| format!("{retries:.1}")),
        cost(group.cost),
        cost(group.cost_per_verified),
        cost(group.cost_per_merged),
        outcomes.join(", "),
    ]
}

fn check_row(check: &CheckFigures) -> [String; 5] {
    [
        plain_line(&check.name, NAME),
        check.runs.to_string(),
        check.failed.to_string(),
        brief_span(check.took_ms),
        brief_span(check.failed_ms),
    ]
}
