//! The table of `creel sessions`, and `--watch`: the table again after each change; without a
//! terminal, a line per change.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
};

use crate::{
    cli::{
        error::{self, CliError, CliResult, put},
        sessions::SessionListArgs,
        target::remote_sessions::NatsServerConnection,
    },
    engine::time::UnixTime,
    nats::presence::SessionHeartbeat,
    present::{
        session_list::{ListedSession, ListedState, SessionGroup, coarse_age, short_path},
        style::{ColourMode, TextRole},
        text::{local_zone, plain, time_with_seconds},
    },
    runtime::now,
    sessions::{
        SessionChange, SessionFeed, SessionKey,
        session_store::{ProjectScope, SessionStore},
    },
};

/// How many ended sessions a watched list shows. All of them would scroll the running ones away.
const ENDED: usize = 10;
/// Moves the cursor to the top and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

pub(super) fn watch(scope: ProjectScope, args: &SessionListArgs) -> CliResult {
    let tokio = error::start_tokio()?;
    let columns = if args.all {
        ListColumns::WithProject
    } else {
        ListColumns::Short
    };
    tokio.block_on(async {
        follow(SessionFeed::start(SessionStore::new(scope)), args, columns).await
    })
}

pub(super) fn watch_fleet(server: &NatsServerConnection, args: &SessionListArgs) -> CliResult {
    server.tokio.block_on(async {
        let feed = SessionFeed::of_fleet(server.client.clone(), server.nats.clone());
        follow(feed, args, ListColumns::WithProject).await
    })
}

async fn follow(mut feed: SessionFeed, args: &SessionListArgs, columns: ListColumns) -> CliResult {
    let mut watched = WatchedList {
        args,
        columns,
        sessions: BTreeMap::new(),
        printed: BTreeMap::new(),
        is_first: true,
    };
    while let Some(changes) = feed.next().await {
        watched.apply(changes);
        let unread = watched.unread();
        if !unread.is_empty() {
            feed.read(unread);
            // The list follows when they are read.
            continue;
        }
        let text = if io::stdout().is_terminal() {
            watched.screen()
        } else {
            watched.news()
        };
        match put(&text) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            Err(error) => return Err(CliError::failed(format!("cannot print: {error}"))),
        }
    }
    Err(CliError::failed(
        "creel cannot follow the sessions any more; see its log",
    ))
}

struct WatchedList<'a> {
    args: &'a SessionListArgs,
    columns: ListColumns,
    sessions: BTreeMap<SessionKey, ListedSession>,
    /// What was last printed about each session.
    printed: BTreeMap<SessionKey, String>,
    is_first: bool,
}

impl WatchedList<'_> {
    fn apply(&mut self, changes: Vec<SessionChange>) {
        for change in changes {
            match change {
                SessionChange::Seen(key, listed) => {
                    self.sessions.insert(key, *listed);
                }
                SessionChange::Removed(key) => {
                    self.sessions.remove(&key);
                }
            }
        }
    }

    /// The sessions to show, in order.
    fn shown(&self) -> Vec<(&SessionKey, &ListedSession)> {
        let is_wanted = |listed: &ListedSession| {
            matches!(listed.state, ListedState::Unread) || self.args.filter.matches(listed)
        };
        let mut shown: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, listed)| is_wanted(listed))
            .collect();
        shown.sort_by(|(_, one), (_, other)| one.order(other));
        let live = shown
            .iter()
            .filter(|(_, listed)| listed.group() != SessionGroup::Ended)
            .count();
        shown.truncate(live + ENDED);
        shown
    }

    /// The sessions to show that have not been read yet.
    fn unread(&self) -> Vec<SessionKey> {
        let unread = self
            .shown()
            .into_iter()
            .filter(|(_, listed)| matches!(listed.state, ListedState::Unread));
        unread.map(|(key, _)| key.clone()).collect()
    }

    fn screen(&self) -> String {
        let listed: Vec<&ListedSession> =
            self.shown().into_iter().map(|(_, listed)| listed).collect();
        format!("{CLEAR}{}", table(&listed, self.columns))
    }

    /// A line for each session that changed. At first, for each that runs.
    fn news(&mut self) -> String {
        let time = time_with_seconds(now(), &local_zone());
        let is_first = std::mem::take(&mut self.is_first);
        let shown: Vec<_> = self
            .shown()
            .into_iter()
            .map(|(key, one)| (key.clone(), one.clone()))
            .collect();
        let mut lines = String::new();
        for (key, one) in shown {
            // At a fixed time, so that a running clock alone is no news.
            let gist = format!(
                "{}/{} {}",
                one.iteration,
                one.max_iterations,
                what(&one, UnixTime(0))
            );
            if self
                .printed
                .insert(key, gist.clone())
                .is_some_and(|before| before == gist)
            {
                continue;
            }
            if is_first && one.group() == SessionGroup::Ended {
                continue;
            }
            let place = match (self.columns, one.host.as_str()) {
                (ListColumns::Short, _) => String::new(),
                (ListColumns::WithProject, "") => format!("  {}", one.project),
                (ListColumns::WithProject, host) => {
                    format!("  {}@{host}  {}", one.user, one.project)
                }
            };
            let iteration = format!("{}/{}", one.iteration, one.max_iterations);
            let line = format!(
                "{time}  {}{place}  {iteration}  {}",
                one.name,
                what(&one, now())
            );
            lines += &(plain(&line).replace('\n', " ") + "\n");
        }
        lines
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListColumns {
    Short,
    WithProject,
}

/// The sessions, one per line, in the given order.
pub(super) fn table(listed: &[&ListedSession], columns: ListColumns) -> String {
    let home = std::env::var("HOME").ok();
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0).max(4);
    let project = |one: &ListedSession| short_path(&one.project, home.as_deref());
    let names = width(&mut listed.iter().map(|one| one.name.len()));
    let projects =
        width(&mut listed.iter().map(|one| project(one).chars().count())).max("PROJECT".len());
    let in_project = |text: &str| match columns {
        ListColumns::Short => String::new(),
        ListColumns::WithProject => format!("{text:projects$}  "),
    };
    let head = format!(
        "{:names$}  {}{:9}  {:>9}  WHAT",
        "NAME",
        in_project("PROJECT"),
        "AGE",
        "ITERATION"
    );
    let at = now();
    let lines = listed.iter().map(|one| {
        let (age, iteration) = (coarse_age(at.since(one.changed)), iteration(one));
        let line = format!(
            "{:names$}  {}{age:9}  {iteration:>9}  {}",
            one.name,
            in_project(&project(one)),
            what(one, at)
        );
        plain(&line).replace('\n', " ") + "\n"
    });
    under_head(&head, lines)
}

fn iteration(listed: &ListedSession) -> String {
    if listed.max_iterations == 0 {
        "-".into()
    } else {
        format!("{}/{}", listed.iteration, listed.max_iterations)
    }
}

fn under_head(head: &str, lines: impl Iterator<Item = String>) -> String {
    let paint = ColourMode::for_stream(&std::io::stdout());
    let lines: String = lines.collect();
    format!("{}\n{lines}", paint.paint(TextRole::Faint, head))
}

/// What a session does, or how it ended. Without the headings of the home screen, the line itself
/// says that you are asked.
pub(super) fn what(listed: &ListedSession, at: UnixTime) -> String {
    let words = listed.words(at, &local_zone());
    match listed.group() {
        SessionGroup::NeedsYou => format!("{} Needs you: {}", words.sign, words.text),
        SessionGroup::Running | SessionGroup::Ended => {
            format!("{} {}", words.sign, words.text)
        }
    }
}

/// Sessions on other machines, one per line, in the given order.
pub(super) fn fleet_table(heartbeats: &[&(ListedSession, SessionHeartbeat)]) -> String {
    let width = |text: fn(&ListedSession) -> &str| {
        heartbeats
            .iter()
            .map(|(one, _)| text(one).len())
            .max()
            .unwrap_or(0)
    };
    let name = width(|one| &one.name).max(4);
    let (user, host) = (width(|one| &one.user).max(4), width(|one| &one.host).max(4));
    let project = width(|one| &one.project).max("PROJECT".len());
    let branch = width(|one| &one.branch);
    // Only if a session has one.
    let in_branch = |text: &str| {
        if branch == 0 {
            String::new()
        } else {
            format!("{text:0$}  ", branch.max(6))
        }
    };
    let head = format!(
        "{:name$}  {:user$}  {:host$}  {:project$}  {}{:9}  {:>9}  WHAT",
        "NAME",
        "USER",
        "HOST",
        "PROJECT",
        in_branch("BRANCH"),
        "SEEN",
        "ITERATION"
    );
    let lines = heartbeats.iter().map(|(one, heartbeat)| {
        let (seen, iteration) = (coarse_age(now().since(heartbeat.seen_at())), iteration(one));
        let line = format!(
            "{:name$}  {:user$}  {:host$}  {:project$}  {}{seen:9}  {iteration:>9}  {}",
            one.name,
            one.user,
            one.host,
            one.project,
            in_branch(&one.branch),
            fleet_what(one, heartbeat)
        );
        plain(&line).replace('\n', " ") + "\n"
    });
    under_head(&head, lines)
}

/// What a session on another machine does. The number of a gate is what `creel gate answer` needs.
fn fleet_what(listed: &ListedSession, heartbeat: &SessionHeartbeat) -> String {
    let status = &heartbeat.status;
    match &status.gate {
        _ if listed.state_name() == "lost" => format!("lost: {}", status.doing),
        Some(gate) => format!("waiting at gate {}: {}", gate.gate, gate.reason),
        None if status.state == status.doing => status.state.clone(),
        None => format!("{}: {}", status.state, status.doing),
    }
}
