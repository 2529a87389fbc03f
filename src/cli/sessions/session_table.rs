//! Sessions as a table of text.

use crate::{
    engine::time::UnixTime,
    nats::presence::SessionHeartbeat,
    present::{
        clock::local_zone,
        session_list::{ListedSession, SessionGroup, coarse_age, short_path},
        style::{ColourMode, TextRole},
        text::plain,
    },
    runtime::now,
};

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
    let paint = ColourMode::for_stream(&std::io::stdout());
    format!(
        "{}\n{}",
        paint.paint(TextRole::Faint, head),
        lines.collect::<String>()
    )
}

fn iteration(listed: &ListedSession) -> String {
    if listed.max_iterations == 0 {
        "-".into()
    } else {
        format!("{}/{}", listed.iteration, listed.max_iterations)
    }
}

/// What a session does, or how it ended. Without the headings of the home screen, the line itself
/// says that you are asked.
pub(super) fn what(listed: &ListedSession, at: UnixTime) -> String {
    let words = listed.words(at, &local_zone());
    match listed.group() {
        SessionGroup::NeedsYou => format!("{} Needs you: {}", words.sign, words.text),
        SessionGroup::Running | SessionGroup::Ended => format!("{} {}", words.sign, words.text),
    }
}

/// Sessions on other machines, one per line, in the given order.
pub(super) fn fleet_table(signs: &[&(ListedSession, SessionHeartbeat)]) -> String {
    let width = |text: fn(&ListedSession) -> &str| {
        signs
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
    let lines = signs.iter().map(|(one, sign)| {
        let (seen, iteration) = (coarse_age(now().since(sign.seen_at())), iteration(one));
        let line = format!(
            "{:name$}  {:user$}  {:host$}  {:project$}  {}{seen:9}  {iteration:>9}  {}",
            one.name,
            one.user,
            one.host,
            one.project,
            in_branch(&one.branch),
            fleet_what(one, sign)
        );
        plain(&line).replace('\n', " ") + "\n"
    });
    let paint = ColourMode::for_stream(&std::io::stdout());
    format!(
        "{}\n{}",
        paint.paint(TextRole::Faint, head),
        lines.collect::<String>()
    )
}

/// What a session on another machine does. The number of a gate is what `creel gate answer` needs.
fn fleet_what(listed: &ListedSession, sign: &SessionHeartbeat) -> String {
    let status = &sign.status;
    match &status.gate {
        _ if listed.state_name() == "lost" => format!("lost: {}", status.doing),
        Some(gate) => format!("waiting at gate {}: {}", gate.gate, gate.reason),
        None if status.state == status.doing => status.state.clone(),
        None => format!("{}: {}", status.state, status.doing),
    }
}
