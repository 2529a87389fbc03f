//! The session as the socket knows it: folded from its records, so that a question never bothers the loop.
//!
//! # Invariants
//! - Whoever was told that a command was done, and asks then, is told of a session in which it was done: the records that
//!   are there are folded before a question is answered.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};

use super::{
    message::{ReplyData, SessionQuery, SessionReply},
    view::{self, ItemView, StatusView},
};
use crate::{
    engine::SessionState,
    journal::{Record, RecordTail},
    nats::status::NatsStatus,
    present::task_view,
    runtime::SessionFollower,
    socket::stop_view,
};

/// How many questions wait before whoever asks has to.
const BACKLOG: usize = 64;
/// How long records are gathered, if they are: whoever is woken for each one keeps a processor from the session.
const GATHERED: Duration = Duration::from_millis(10);

/// When records are looked at.
#[derive(Debug)]
pub(crate) enum FoldPace {
    /// As they come.
    AtOnce,
    /// Some at a time, unless somebody cannot wait.
    Gathered(Arc<Notify>),
}

/// Follows a session and answers questions.
pub(crate) struct SessionMirror {
    state: SessionState,
    seq: u64,
    /// The records that are not folded yet. They are on disk: however far behind this is, nothing is kept in memory.
    records: RecordTail,
    /// Signals that there are new records.
    written: watch::Receiver<u64>,
    questions: mpsc::Receiver<MirrorQuery>,
    news: watch::Sender<u64>,
    /// How the session stands with its NATS server, if it has one.
    nats: Option<watch::Receiver<NatsStatus>>,
    pace: FoldPace,
}

/// Whether there can be more records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MirrorProgress {
    Runs,
    IsOver,
}

struct MirrorQuery {
    question: SessionQuery,
    reply: oneshot::Sender<SessionReply>,
}

/// How the ledger is reached. Cheap to clone.
#[derive(Clone)]
pub(crate) struct QueryHandle {
    questions: mpsc::Sender<MirrorQuery>,
    /// The number of the last record.
    pub(crate) news: watch::Receiver<u64>,
}

impl SessionMirror {
    pub(crate) fn new(
        follower: SessionFollower,
        nats: Option<watch::Receiver<NatsStatus>>,
        pace: FoldPace,
    ) -> (Self, QueryHandle) {
        let SessionFollower { state, seq, records, news: written } = follower;
        let (asks, questions) = mpsc::channel(BACKLOG);
        let (news_in, news) = watch::channel(seq);
        let ledger = Self { state, seq, records, written, questions, news: news_in, nats, pace };
        (ledger, QueryHandle { questions: asks, news })
    }

    /// Follows until the session is over; how the session was then. Can be dropped and begun again, also in another
    /// runtime of tokio: nothing but the time that was waited is lost.
    pub(crate) async fn follow(&mut self) -> StatusView {
        // An earlier call may have been dropped after it was notified of records and before it read them.
        if self.catch_up() == MirrorProgress::IsOver {
            return self.status();
        }
        // Until when records are gathered. Nobody listens for them until then, so the session wakes nobody.
        let mut due: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                written = self.written.changed(), if due.is_none() => match (written, &self.pace) {
                    (Ok(()), FoldPace::Gathered(_)) => due = Some(Instant::now() + GATHERED),
                    (Ok(()), FoldPace::AtOnce) => drop(self.catch_up()),
                    (Err(_), _) => {
                        self.catch_up();
                        return self.status();
                    }
                },
                Some(MirrorQuery { question, reply }) = self.questions.recv() => {
                    self.catch_up();
                    // Whoever asked may be gone.
                    let _ = reply.send(self.answer(question));
                }
                () = gathered(&self.pace, due), if due.is_some() => {
                    due = None;
                    if self.catch_up() == MirrorProgress::IsOver {
                        return self.status();
                    }
                }
            }
        }
    }

    /// Folds all that is there.
    fn catch_up(&mut self) -> MirrorProgress {
        // Looked at first: what was written before the end is read below.
        let session = if self.written.has_changed().is_ok() { MirrorProgress::Runs } else { MirrorProgress::IsOver };
        loop {
            match self.records.next_record() {
                Ok(Some(record)) => self.fold(&record),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!("the journal cannot be followed: {error}");
                    break;
                }
            }
        }
        self.news.send_if_modified(|known| std::mem::replace(known, self.seq) != self.seq);
        session
    }

    fn fold(&mut self, record: &Record) {
        self.state.apply(record.at, &record.event);
        self.seq = record.seq;
    }

    fn status(&self) -> StatusView {
        let nats = self.nats.as_ref().map(|link| link.borrow().clone());
        StatusView { nats, ..StatusView::of(&self.state, self.seq) }
    }

    fn answer(&self, question: SessionQuery) -> SessionReply {
        let state = &self.state;
        SessionReply::told(match question {
            SessionQuery::Status => ReplyData::Status(Box::new(self.status())),
            SessionQuery::Items(which) => ReplyData::Items(view::items(state, which)),
            SessionQuery::Item(id) => match state.pending.get(id) {
                Some(item) => ReplyData::Item(Box::new(ItemView::whole(item))),
                None => return SessionReply::refused(format!("there is no held item {id}")),
            },
            SessionQuery::Gates => ReplyData::Gates(view::gates(state)),
            SessionQuery::Hooks => {
                let plan = state.plan();
                let lifecycle = view::hooks(&plan.hooks, &state.hooks).into_iter();
                let all = lifecycle.chain(view::automation_hooks(&plan.automation, &state.hooks));
                ReplyData::Hooks(all.chain(view::stop_hooks(&plan.stop, Some(state))).collect())
            }
            SessionQuery::StopHooks(task) => ReplyData::StopHooks(stop_view::hooks(state, task.as_deref())),
            SessionQuery::Checkpoints => ReplyData::Checkpoints(stop_view::checkpoints(state)),
            SessionQuery::Loop(id) => match state.agent_loop(&id) {
                Some(known) => ReplyData::AgentLoop(Box::new(stop_view::agent_loop(known))),
                None => return SessionReply::refused(format!("there is no iteration {id}")),
            },
            SessionQuery::Tasks => ReplyData::Tasks(task_view::all(&state.tasks.graph)),
            SessionQuery::HandedTasks => ReplyData::Tasks(task_view::handed(&state.tasks.graph)),
            SessionQuery::Task(id) => match task_view::one(&state.tasks.graph, &id) {
                Ok(task) => ReplyData::Task(Box::new(task)),
                Err(why) => return SessionReply::refused(why),
            },
        })
    }
}

/// Waits until enough was gathered.
async fn gathered(pace: &FoldPace, due: Option<Instant>) {
    let due = due.unwrap_or_else(Instant::now);
    match pace {
        FoldPace::AtOnce => {}
        FoldPace::Gathered(hurry) => {
            let _ = tokio::time::timeout_at(due, hurry.notified()).await;
        }
    }
}

impl QueryHandle {
    pub(crate) async fn ask(&self, question: SessionQuery) -> SessionReply {
        let (reply, answer) = oneshot::channel();
        let asked = self.questions.send(MirrorQuery { question, reply }).await;
        match (asked, answer.await) {
            (Ok(()), Ok(reply)) => reply,
            (Err(_), _) | (_, Err(_)) => SessionReply::refused("the session is over"),
        }
    }
}
