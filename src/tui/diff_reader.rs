//! Reads what a session changed, in parallel with the screen.
//!
//! # Invariants
//! - The screen never waits for git.
//! - The journal is read once, however often the user asks; parts that were asked for while another
//!   one is read, are read once.

use std::{path::PathBuf, sync::Arc};

use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    report::session_diff::{DiffPart, DiffPlace, SessionDiff, WorkHistory, session_diff},
    tui::{patch::PatchRows, request::ScreenEvent},
};

#[derive(Debug)]
pub(super) struct DiffReader {
    asked: mpsc::UnboundedSender<DiffPart>,
    answers: mpsc::UnboundedReceiver<ScreenEvent>,
    task: JoinHandle<()>,
}

impl DiffReader {
    pub(super) fn new(journal: PathBuf, place: DiffPlace) -> Self {
        let (asked, to_read) = mpsc::unbounded_channel();
        let (read, answers) = mpsc::unbounded_channel();
        let task = tokio::spawn(read_all(journal, Arc::new(place), to_read, read));
        Self {
            asked,
            answers,
            task,
        }
    }

    pub(super) fn ask(&self, part: DiffPart) {
        // Fails after a panic of the reader, which is in the log.
        let _ = self.asked.send(part);
    }

    pub(super) async fn answer(&mut self) -> ScreenEvent {
        match self.answers.recv().await {
            Some(read) => read,
            None => std::future::pending().await,
        }
    }
}

impl Drop for DiffReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_all(
    journal: PathBuf,
    place: Arc<DiffPlace>,
    mut asked: mpsc::UnboundedReceiver<DiffPart>,
    read: mpsc::UnboundedSender<ScreenEvent>,
) {
    let mut known: Option<WorkHistory> = None;
    while let Some(first) = asked.recv().await {
        let mut parts = vec![first];
        while let Ok(part) = asked.try_recv() {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        for part in parts {
            let (journal, place) = (journal.clone(), Arc::clone(&place));
            let history = known.take();
            let work = move || read_part(history, &journal, part, &place);
            let Ok((history, rows)) = tokio::task::spawn_blocking(work).await else {
                return;
            };
            known = history;
            if read.send(ScreenEvent::Diffed(part, rows)).is_err() {
                return;
            }
        }
    }
}

type ReadPart = (Option<WorkHistory>, Result<Box<PatchRows>, String>);

fn read_part(
    known: Option<WorkHistory>,
    journal: &std::path::Path,
    part: DiffPart,
    place: &DiffPlace,
) -> ReadPart {
    let history = match known {
        Some(mut known) => match known.catch_up() {
            Ok(()) => known,
            Err(error) => return (None, Err(error.to_string())),
        },
        None => match WorkHistory::read(journal) {
            Ok(history) => history,
            Err(error) => return (None, Err(error.to_string())),
        },
    };
    let diff: Result<SessionDiff, String> =
        session_diff(&history, part, place).map_err(|error| error.to_string());
    let rows = diff.map(|diff| Box::new(PatchRows::new(&diff)));
    (Some(history), rows)
}
