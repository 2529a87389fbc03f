//! Whether a process belongs to a session: its agent, one of its hooks, or a process that these
//! started.
//!
//! Owns the reading of marks and of the chain of parents.
//!
//! A process belongs to a session if it or one of its ancestors has the mark of a session that
//! still runs, of any project, or if it descends from a creel. The exception is an editor that the
//! user opened, with its children: creel started it under a mark for editors.
//!
//! On systems without a list of processes, creel only knows the mark that a caller has or sends.
//!
//! Also identifies a caller: the user, the session's own agent or hook, or another program. Owns
//! what a client says about itself, and how much of that a session believes. Does not decide what a
//! caller is allowed to do: see [`crate::engine::actor`].
//!
//! # Invariants
//! - An agent or a hook, of any session, is recognised whatever it says about itself, if the system
//!   reports whose process it is.
//! - On the control socket the user is the owner of the session. A name that the caller sends
//!   counts only over NATS.

use std::{collections::VecDeque, path::PathBuf, sync::OnceLock};

use serde::{Deserialize, Serialize};

use crate::{
    engine::actor::{Actor, ActorKind},
    present::text::plain,
    process::{
        children,
        process_table::{ProcessStat, ProcessTable},
        sweep,
    },
};

/// The kind of process that a mark of this session stands for: `SESSION/run-7` is a hook, anything
/// else the agent.
pub fn of_marks(marks: &str, session: &str) -> Option<ActorKind> {
    let mut own = marks
        .split(' ')
        .filter_map(|mark| mark.strip_prefix(session)?.strip_prefix('/'));
    own.next_back().map(kind)
}

fn kind(mark: &str) -> ActorKind {
    if mark.split('/').any(|part| part.starts_with("run-")) {
        ActorKind::Hook
    } else {
        ActorKind::Agent
    }
}

/// The marks of sessions, without those of editors.
fn of_sessions(marks: &str) -> impl DoubleEndedIterator<Item = &str> {
    marks
        .split(' ')
        .filter(|mark| !mark.is_empty() && !sweep::is_below(mark.as_bytes(), sweep::EDITOR))
}

/// The mark of a session among these that still runs.
fn living(table: ProcessTable, marks: &str) -> Option<&str> {
    of_sessions(marks).rfind(|mark| sweep::is_of_living_session(table, mark))
}

/// What a process of another session is, by the marks that it sent. It may be on another machine,
/// so only it can tell whether that session still runs: see [`of_this_process`].
pub fn of_any_marks(marks: &str) -> Option<ActorKind> {
    of_sessions(marks)
        .next_back()
        .map(|_| ActorKind::OtherSession)
}

/// The marks of the session that this process belongs to, of any project. None if a person started
/// it.
pub fn of_this_process() -> Option<String> {
    let table = ProcessTable::of_system();
    let own = std::env::var(sweep::MARK)
        .ok()
        .filter(|marks| living(table, marks).is_some());
    own.or_else(|| supervised(table, sweep::own_pid()))
}

/// What this process is if an agent or a hook started it, and the files that the process of its
/// session has open.
pub fn supervisor_of_this_process() -> Option<(ActorKind, Vec<PathBuf>)> {
    let (table, marks) = (ProcessTable::of_system(), of_this_process()?);
    let mark = of_sessions(&marks).next_back().unwrap_or_default();
    let above = std::iter::successors(table.stat(sweep::own_pid()), |process| {
        table.stat(process.parent)
    });
    // Its parents say more than its mark, which it can change.
    let runner = above
        .skip(1)
        .map(|process| process.pid)
        .find(|pid| table.runs_session(*pid));
    let runner = runner.or_else(|| Some(sweep::process_of_mark(mark)?.0));
    Some((
        kind(mark),
        runner.map(|pid| table.open_files(pid)).unwrap_or_default(),
    ))
}

/// The marks of the session that a process belongs to, as its ancestors show.
fn supervised(table: ProcessTable, pid: i32) -> Option<String> {
    let (mut child, mut next) = (None, table.stat(pid));
    while let Some(current) = next.filter(|current| current.pid > 1) {
        let marks = marks_of(table, current.pid).unwrap_or_default();
        if living(table, &marks).is_some() {
            return Some(marks);
        }
        // An agent can remove the mark from its own environment, but not its parent.
        if child.is_some_and(|child| !is_editor(table, child, current))
            && table.runs_session(current.pid)
        {
            return Some(format!("creel/{}.{}", current.pid, current.start));
        }
        child = Some(current);
        next = table.stat(current.parent);
    }
    None
}

/// Whether a child of a creel is the editor that it opened for the user: only an editor shares its
/// terminal.
fn is_editor(table: ProcessTable, child: ProcessStat, creel: ProcessStat) -> bool {
    let shares_terminal =
        child.terminal != 0 && (child.session, child.terminal) == (creel.session, creel.terminal);
    let marks = marks_of(table, child.pid).unwrap_or_default();
    shares_terminal
        && marks
            .split(' ')
            .any(|mark| sweep::is_below(mark.as_bytes(), sweep::EDITOR))
}

/// The relation of a process to the session that this process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessOrigin {
    /// It is an agent or a hook, of this session or of another one.
    Session(ActorKind),
    /// It does not belong to a session, as far as the system reports.
    Stranger,
    /// It has ended, so nothing is known about it.
    Gone,
}

fn of_process(pid: i32, session: &str) -> ProcessOrigin {
    of_process_in(ProcessTable::of_system(), pid, session)
}

fn of_process_in(table: ProcessTable, pid: i32, session: &str) -> ProcessOrigin {
    match table.stat(pid) {
        _ if table == ProcessTable::Absent || pid == sweep::own_pid() => ProcessOrigin::Stranger,
        Some(stat) => {
            let of_another = || supervised(table, pid).map(|_| ActorKind::OtherSession);
            let by = own_process(table, stat, session).or_else(of_another);
            by.map_or(ProcessOrigin::Stranger, ProcessOrigin::Session)
        }
        None => ProcessOrigin::Gone,
    }
}

fn own_process(table: ProcessTable, process: ProcessStat, session: &str) -> Option<ActorKind> {
    let us = sweep::own_pid();
    let (mut child, mut next) = (None, Some(process));
    while let Some(current) = next.filter(|current| current.pid > 1) {
        if current.pid == us {
            return by_child(child?, session);
        }
        if let Some(by) = marks_of(table, current.pid).and_then(|marks| of_marks(&marks, session)) {
            return Some(by);
        }
        child = Some(current);
        next = table.stat(current.parent);
    }
    None
}

/// What a direct child of creel belongs to. Orphans of the session cannot pretend to be an editor:
/// creel has not started them.
fn by_child(child: ProcessStat, session: &str) -> Option<ActorKind> {
    match children::mark_of(&child) {
        Some(mark) if sweep::is_below(mark.as_bytes(), sweep::EDITOR) => None,
        Some(mark) => Some(of_marks(&mark, session).unwrap_or(ActorKind::Agent)),
        None => Some(ActorKind::Agent),
    }
}

fn marks_of(table: ProcessTable, pid: i32) -> Option<String> {
    let environ = table.environ(pid)?;
    let mut variables = environ.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| {
        variable
            .strip_prefix(sweep::MARK.as_bytes())?
            .strip_prefix(b"=")
    })?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Whether a process descends from this one through the session's agent. Unlike a mark, a process
/// cannot choose its ancestors.
fn descends_from_agent(table: ProcessTable, pid: i32, session: &str) -> bool {
    let us = sweep::own_pid();
    let (mut child, mut next) = (None, table.stat(pid));
    while let Some(current) = next.filter(|current| current.pid > 1) {
        if current.pid == us {
            return child.and_then(|child| by_child(child, session)) == Some(ActorKind::Agent);
        }
        child = Some(current);
        next = table.stat(current.parent);
    }
    false
}

/// What the system reports about the process of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerProcess {
    /// The agent or hook, of this session or of another one, that the process belongs to.
    pub by: Option<ActorKind>,
    /// Whether it was started by the session's own agent. None if the system does not say.
    below_agent: Option<bool>,
}

impl PeerProcess {
    /// Whether it can be the hook that creel added to the session's own agent. A process that is gone
    /// is not, and a mark counts only where the system has no list of processes.
    pub fn may_be_agent_hook(self, caller: &CallerInfo, session: &str) -> bool {
        let by_mark = || {
            let marks = caller.mark.as_deref();
            marks.and_then(|marks| of_marks(marks, session)) == Some(ActorKind::Agent)
        };
        match self.below_agent {
            Some(is_below) => is_below && self.by == Some(ActorKind::Agent),
            None => by_mark(),
        }
    }
}

/// How many processes to remember.
const MOST_REMEMBERED: usize = 256;

/// The processes that have connected to the control socket, the latest last.
///
/// A process that has exited before creel looks cannot be identified, and an agent could exit that
/// fast on purpose. So creel treats it as the agent, unless the same process has connected before:
/// a screen may exit before the session has read its last key.
#[derive(Debug, Default)]
pub struct PeerProcesses {
    seen: VecDeque<(i32, Option<ActorKind>)>,
}

impl PeerProcesses {
    /// The session's own agent or hook, if the process belongs to one. Call this as soon as it
    /// connects.
    pub fn of_process(&mut self, pid: Option<i32>, session: &str) -> PeerProcess {
        let table = ProcessTable::of_system();
        let pid = pid.filter(|pid| *pid > 0);
        let below = pid.is_some_and(|pid| descends_from_agent(table, pid, session));
        PeerProcess {
            by: pid.and_then(|pid| self.remember(pid, of_process(pid, session))),
            below_agent: (table != ProcessTable::Absent).then_some(below),
        }
    }

    fn remember(&mut self, pid: i32, origin: ProcessOrigin) -> Option<ActorKind> {
        let by = match origin {
            ProcessOrigin::Session(by) => Some(by),
            ProcessOrigin::Stranger => None,
            ProcessOrigin::Gone => {
                let before = self.seen.iter().find(|(seen, _)| *seen == pid);
                return before.map_or(Some(ActorKind::Agent), |(_, by)| *by);
            }
        };
        self.seen.retain(|(seen, _)| *seen != pid);
        self.seen.push_back((pid, by));
        if self.seen.len() > MOST_REMEMBERED {
            self.seen.pop_front();
        }
        by
    }
}

/// The longest name, in characters.
const LONGEST_NAME: usize = 64;

/// The kind of a client. No client can act as the config or as a timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientKind {
    /// A command line, or a program of the user.
    #[default]
    Cli,
    Tui,
    Mcp,
}

impl From<ClientKind> for ActorKind {
    fn from(asker: ClientKind) -> Self {
        match asker {
            ClientKind::Cli => Self::Cli,
            ClientKind::Tui => Self::Tui,
            ClientKind::Mcp => Self::Mcp,
        }
    }
}

/// What a client says about itself in every request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallerInfo {
    pub by: ClientKind,
    /// The marks of the sessions whose child it is, of any project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The user's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The user's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl CallerInfo {
    pub fn here(by: ClientKind) -> Self {
        let mark = of_this_process();
        Self {
            by,
            mark,
            user: user(),
            host: Some(host()),
        }
    }

    /// The caller on the control socket. `process` is what the system reports about the caller's
    /// process.
    pub fn on_socket(self, process: Option<ActorKind>, session: &str) -> Actor {
        match process.or_else(|| self.own(session)) {
            Some(own) => own.into(),
            None => match self.by {
                ClientKind::Cli => person(ActorKind::Cli),
                ClientKind::Tui => person(ActorKind::Tui),
                ClientKind::Mcp => ActorKind::Mcp.into(),
            },
        }
    }

    pub fn over_nats(self, session: &str) -> Actor {
        if let Some(own) = self.own(session) {
            return own.into();
        }
        let (user, host) = (name(self.user), name(self.host));
        // A NATS server says to no receiver which of its users has sent a message.
        Actor {
            by: ActorKind::Nats,
            claimed: user.is_some() || host.is_some(),
            user,
            host,
        }
    }

    fn own(&self, session: &str) -> Option<ActorKind> {
        let marks = self.mark.as_deref()?;
        of_marks(marks, session).or_else(|| of_any_marks(marks))
    }
}

/// The user of this machine.
pub fn person(by: ActorKind) -> Actor {
    Actor {
        by,
        user: user(),
        host: Some(host()),
        claimed: false,
    }
}

pub fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// The name of the user that runs this process, or the account's number if the environment has no
/// name.
pub fn user() -> Option<String> {
    static USER: OnceLock<Option<String>> = OnceLock::new();
    let of_environment = || {
        ["USER", "LOGNAME"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok())
    };
    let account = || format!("uid {}", rustix::process::geteuid().as_raw());
    USER.get_or_init(|| {
        name(
            of_environment()
                .filter(|name| !name.is_empty())
                .or_else(|| Some(account())),
        )
    })
    .clone()
}

/// Makes a name from another process safe to show, in one line.
fn name(given: Option<String>) -> Option<String> {
    let line = plain(&given?)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let short: String = line.chars().take(LONGEST_NAME).collect();
    Some(short).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_the_agent_from_a_hook_and_from_another_session() {
        let of = |marks| of_marks(marks, "s1");
        assert_eq!(of("s1/turn-3"), Some(ActorKind::Agent));
        assert_eq!(of("s1/agent"), Some(ActorKind::Agent));
        assert_eq!(of("s1/run-7"), Some(ActorKind::Hook));
        assert_eq!(of("outer/turn-1 s1/run-7"), Some(ActorKind::Hook));
        assert_eq!(
            of("s1/turn-1 inner/run-2"),
            Some(ActorKind::Agent),
            "an inner session of the agent's is still the agent's"
        );
        assert_eq!(["", "s1", "s12/turn-1", "other/turn-1"].map(of), [None; 4]);
    }

    #[test]
    fn the_process_itself_and_its_parent_are_no_part_of_the_session() {
        let us = sweep::own_pid();
        assert_eq!(
            of_process(us, "a session without processes"),
            ProcessOrigin::Stranger
        );
        let parent = ProcessTable::of_system()
            .stat(us)
            .map(|own| own.parent)
            .filter(|parent| *parent > 1);
        if let Some(parent) = parent {
            assert_eq!(
                of_process(parent, "a session without processes"),
                ProcessOrigin::Stranger
            );
        }
    }

    #[test]
    fn a_child_is_the_agents_whatever_group_it_joins() {
        use std::{os::unix::process::CommandExt as _, process::Command};
        let Some(own) = ProcessTable::of_system().stat(sweep::own_pid()) else {
            return;
        };
        for group in [0, own.group] {
            let mut child = Command::new("sleep")
                .arg("60")
                .process_group(group)
                .spawn()
                .expect("sleep is everywhere");
            let pid = i32::try_from(child.id()).expect("a process number");
            let by = of_process(pid, "a session without marks");
            child
                .kill()
                .and_then(|()| child.wait())
                .expect("it is ours");
            assert_eq!(by, ProcessOrigin::Session(ActorKind::Agent));
            assert_eq!(
                of_process(pid, "a session without marks"),
                ProcessOrigin::Gone
            );
        }
    }

    #[tokio::test]
    async fn the_users_editor_and_what_it_starts_are_the_users() {
        if ProcessTable::of_system() == ProcessTable::Absent {
            return;
        }
        let mark = format!("{}/sheet", sweep::EDITOR);
        let mut command = tokio::process::Command::new("sleep");
        command.arg("60").kill_on_drop(true);
        let (mut editor, entry) =
            children::start(&mark, || command.spawn()).expect("sleep is everywhere");
        let pid = editor
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .expect("a process number");
        assert_eq!(of_process(pid, "a session"), ProcessOrigin::Stranger);
        drop(entry);
        assert_eq!(
            of_process(pid, "a session"),
            ProcessOrigin::Session(ActorKind::Agent),
            "creel no longer vouches for it"
        );
        editor.kill().await.expect("it is ours");
    }

    #[tokio::test]
    async fn a_hook_is_a_hook_before_its_program_runs_and_with_an_empty_environment() {
        if ProcessTable::of_system() == ProcessTable::Absent {
            return;
        }
        let mut command = tokio::process::Command::new("sleep");
        command.arg("60").env_clear().kill_on_drop(true);
        let (mut hook, _entry) =
            children::start("s1/run-3", || command.spawn()).expect("sleep is everywhere");
        let pid = hook
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .expect("a process number");
        assert_eq!(
            of_process(pid, "s1"),
            ProcessOrigin::Session(ActorKind::Hook)
        );
        hook.kill().await.expect("it is ours");
    }

    #[test]
    fn only_a_living_process_below_this_one_can_be_the_agents_hook() {
        use std::process::Command;
        let caller = CallerInfo {
            mark: Some("s1/turn-1".into()),
            ..CallerInfo::default()
        };
        let mut peers = PeerProcesses::default();
        let mut of = |pid| peers.of_process(pid, "s1").may_be_agent_hook(&caller, "s1");
        if ProcessTable::of_system() == ProcessTable::Absent {
            assert!(of(None), "only its mark says what it is");
            return;
        }
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = i32::try_from(child.id()).expect("a process number");
        assert!(of(Some(pid)));
        child
            .kill()
            .and_then(|()| child.wait())
            .expect("it is ours");
        assert!(!of(Some(pid)), "it is gone");
        assert!(!of(Some(sweep::own_pid())) && !of(None));
        let parent = ProcessTable::of_system().stat(sweep::own_pid());
        assert!(!of(parent.map(|own| own.parent)), "whatever mark it sends");
    }

    #[test]
    fn without_a_list_of_processes_nothing_is_guessed() {
        assert_eq!(
            of_process_in(ProcessTable::Absent, 1, "a session"),
            ProcessOrigin::Stranger
        );
    }

    #[test]
    fn a_process_that_is_gone_before_creel_looks_is_treated_as_the_agent() {
        assert_eq!(
            PeerProcesses::default().remember(7, ProcessOrigin::Gone),
            Some(ActorKind::Agent)
        );
    }

    #[test]
    fn a_screen_that_was_seen_before_is_still_the_users_after_it_left() {
        let mut peers = PeerProcesses::default();
        assert_eq!(peers.remember(7, ProcessOrigin::Stranger), None);
        assert_eq!(
            peers.remember(8, ProcessOrigin::Session(ActorKind::Hook)),
            Some(ActorKind::Hook)
        );
        assert_eq!(peers.remember(7, ProcessOrigin::Gone), None);
        assert_eq!(
            peers.remember(8, ProcessOrigin::Gone),
            Some(ActorKind::Hook)
        );
    }

    #[test]
    fn the_latest_user_of_a_process_number_counts_and_the_list_is_bounded() {
        let mut peers = PeerProcesses::default();
        peers.remember(7, ProcessOrigin::Stranger);
        peers.remember(7, ProcessOrigin::Session(ActorKind::Agent));
        assert_eq!(
            peers.remember(7, ProcessOrigin::Gone),
            Some(ActorKind::Agent)
        );
        for pid in 10..400 {
            peers.remember(pid, ProcessOrigin::Stranger);
        }
        assert_eq!(peers.seen.len(), MOST_REMEMBERED);
        assert_eq!(
            peers.remember(11, ProcessOrigin::Gone),
            Some(ActorKind::Agent),
            "forgotten"
        );
    }
}

#[cfg(test)]
mod caller_tests {
    use super::*;

    fn caller(mark: Option<&str>) -> CallerInfo {
        let (user, host) = (Some("ada\u{1b}[2J\nroot".into()), Some("laptop".into()));
        CallerInfo {
            by: ClientKind::Tui,
            mark: mark.map(str::to_owned),
            user,
            host,
        }
    }

    #[test]
    fn over_nats_the_person_says_a_name_that_cannot_write_to_the_terminal() {
        let actor = caller(None).over_nats("s1");
        assert_eq!(
            (actor.by, actor.host.as_deref()),
            (ActorKind::Nats, Some("laptop"))
        );
        let user = actor.user.expect("a name");
        assert!(!user.contains(char::is_control), "{user:?}");
        assert!(actor.claimed, "no server vouches for it");
    }

    #[test]
    fn on_the_socket_the_person_is_the_owner_whatever_the_caller_says() {
        assert_eq!(caller(None).on_socket(None, "s1"), person(ActorKind::Tui));
    }

    #[test]
    fn the_sessions_own_agent_is_no_person_whichever_way_it_takes() {
        assert_eq!(
            caller(Some("s1/turn-1")).on_socket(None, "s1"),
            ActorKind::Agent.into()
        );
        assert_eq!(
            caller(Some("s1/run-1")).over_nats("s1"),
            ActorKind::Hook.into()
        );
        assert_eq!(
            caller(None).on_socket(Some(ActorKind::Agent), "s1"),
            ActorKind::Agent.into()
        );
        let another = caller(Some("s2/turn-1")).on_socket(None, "s1");
        assert_eq!(
            another,
            ActorKind::OtherSession.into(),
            "another session's agent is no person either"
        );
        let elsewhere = caller(Some("s2/4194304.1/turn-1")).over_nats("s1");
        assert_eq!(
            elsewhere,
            ActorKind::OtherSession.into(),
            "nor is one whose session runs on another machine"
        );
        assert_eq!(
            caller(Some("editor/x")).on_socket(None, "s1"),
            person(ActorKind::Tui)
        );
    }
}
