//! The workers of a server as a table.

use crate::{
    nats::presence::ListedWorker,
    present::{session_list::short_path, tables::columns, text::plain_line},
};

/// The longest text from another machine, in characters.
const LINE: usize = 100;

pub(super) fn worker_table(workers: &[ListedWorker]) -> String {
    let row = |worker: &ListedWorker| {
        let project = short_path(&worker.project, None);
        let types = if worker.types.is_empty() {
            "every type".to_owned()
        } else {
            worker.types.join(", ")
        };
        let (user, agents) = (
            worker.user.clone().unwrap_or_default(),
            worker.agents.join(", "),
        );
        [
            worker.host.clone(),
            user,
            project,
            busy(worker),
            types,
            agents,
        ]
        .map(|text| plain_line(&text, LINE))
    };
    columns(
        ["HOST", "USER", "PROJECT", "SESSIONS", "TASKS", "AGENTS"],
        workers.iter().map(row),
    )
}

/// `1 of 3`, `1 of 3, 2 wait for you`.
fn busy(worker: &ListedWorker) -> String {
    let ListedWorker {
        jobs,
        working,
        waiting,
        ..
    } = worker;
    match waiting {
        0 => format!("{working} of {jobs}"),
        1 => format!("{working} of {jobs}, 1 waits for you"),
        n => format!("{working} of {jobs}, {n} wait for you"),
    }
}
