//! Handles requests from any transport. Queries are answered from a copy of the session's state,
//! folded from its records, so that they do not disturb the session loop.
//!
//! Also reads the output of running hooks: what their files have so far.
//!
//! # Invariants
//! - A client that queries after its command was confirmed sees the effect: all records on disk are
//!   folded before a query is answered.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};

use crate::{
    engine::{
        SessionState,
        event::{Actor, Event, StopEvent},
        input::SessionCommand,
        refusal::Refusal,
        stop::agent_loop::LoopCommand,
    },
    journal::{Record, RecordTail},
    present::task_view,
    protocol::{
        HookOutputMessage, LiveMessage, NatsStatus, ReplyData, RequestRefusal, SessionQuery,
        SessionReply, SessionRequest, WatchRequest,
        view::{self, ItemView, JudgementView, StatusView, ToolDecisionView},
    },
    runtime::{CommandRecords, HookOutputChunk, SessionFollower, SessionHandle},
    worktrees::session_branch,
};

/// How many queries can wait before senders are blocked.
const BACKLOG: usize = 64;
/// How long to collect records: waking up for each one would take processor time from the session.
const GATHERED: Duration = Duration::from_millis(10);

/// When records are folded.
#[derive(Debug)]
pub(crate) enum FoldPace {
    AtOnce,
    /// Several at a time. The notification ends the wait early.
    Gathered(Arc<Notify>),
}

pub(crate) struct SessionMirror {
    state: SessionState,
    seq: u64,
    /// The records that are not folded yet. They are on disk, so no backlog uses memory.
    records: RecordTail,
    /// Signals that there are new records.
    written: watch::Receiver<u64>,
    questions: mpsc::Receiver<MirrorQuery>,
    news: watch::Sender<u64>,
    /// `None` if the session has no NATS server.
    nats: Option<watch::Receiver<NatsStatus>>,
    pace: FoldPace,
}

/// Whether more records can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MirrorProgress {
    Runs,
    IsOver,
}

struct MirrorQuery {
    question: SessionQuery,
    reply: oneshot::Sender<SessionReply>,
}

/// Sends queries to the mirror. Cheap to clone.
#[derive(Clone)]
pub struct QueryHandle {
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
        let SessionFollower {
            state,
            seq,
            records,
            news: written,
        } = follower;
        let (queries, questions) = mpsc::channel(BACKLOG);
        let (news_in, news) = watch::channel(seq);
        let mirror = Self {
            state,
            seq,
            records,
            written,
            questions,
            news: news_in,
            nats,
            pace,
        };
        (
            mirror,
            QueryHandle {
                questions: queries,
                news,
            },
        )
    }

    /// Follows the session to its end and returns its last status. The future can be dropped and
    /// started again, even in another tokio runtime: only the time already waited is lost.
    pub(crate) async fn follow(&mut self) -> StatusView {
        // An earlier call may have been dropped after it was notified of records and before it read
        // them.
        if self.catch_up() == MirrorProgress::IsOver {
            return self.status();
        }
        // Until when records are collected. `changed` is not polled until then, so the session
        // wakes no task.
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
                    // The client may have disconnected.
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

    /// Folds all records on disk.
    fn catch_up(&mut self) -> MirrorProgress {
        // Checked first: records that were written before the end are read below.
        let session = if self.written.has_changed().is_ok() {
            MirrorProgress::Runs
        } else {
            MirrorProgress::IsOver
        };
        loop {
            match self.records.next_record() {
                Ok(Some(record)) => self.fold(&record),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!("cannot follow the journal: {error}");
                    break;
                }
            }
        }
        self.news
            .send_if_modified(|known| std::mem::replace(known, self.seq) != self.seq);
        session
    }

    fn fold(&mut self, record: &Record) {
        self.state.apply(record.at, &record.event);
        self.seq = record.seq;
    }

    fn status(&self) -> StatusView {
        let nats = self.nats.as_ref().map(|link| link.borrow().clone());
        StatusView {
            nats,
            branch: session_branch(&self.state.began),
            ..StatusView::of(&self.state, self.seq)
        }
    }

    fn answer(&self, question: SessionQuery) -> SessionReply {
        let state = &self.state;
        SessionReply::with(match question {
            SessionQuery::Status => ReplyData::Status(Box::new(self.status())),
            SessionQuery::PendingList { which } => ReplyData::Items(view::items(state, which)),
            SessionQuery::PendingShow { item: id } => match state.pending.get(id) {
                Some(item) => ReplyData::Item(Box::new(ItemView::whole(item))),
                None => return SessionReply::refused(&Refusal::NoSuchItem(id).into()),
            },
            SessionQuery::GateList => ReplyData::Gates(view::gates(state)),
            SessionQuery::HookList => {
                let plan = state.plan();
                let lifecycle = view::hooks(&plan.hooks, &state.hooks).into_iter();
                let all = lifecycle.chain(view::automation_hooks(&plan.automation, &state.hooks));
                ReplyData::Hooks(
                    all.chain(view::stop_hooks(&plan.stop, Some(state)))
                        .collect(),
                )
            }
            SessionQuery::StopHookList { task } => {
                ReplyData::StopHooks(view::registered_stop_hooks(state, task.as_deref()))
            }
            SessionQuery::CheckpointList => ReplyData::Checkpoints(view::checkpoints(state)),
            SessionQuery::LoopShow { id } => match state.stop.agent_loop(&id) {
                Some(known) => ReplyData::AgentLoop(Box::new(view::agent_loop(known))),
                None => return SessionReply::refused(&RequestRefusal::NoSuchLoop(id)),
            },
            SessionQuery::TaskList => ReplyData::Tasks(task_view::all(&state.tasks.graph)),
            SessionQuery::QueuedTaskList => ReplyData::Tasks(task_view::handed(&state.tasks.graph)),
            SessionQuery::TaskShow { id } => match task_view::one(&state.tasks.graph, &id) {
                Ok(task) => ReplyData::Task(Box::new(task)),
                Err(why) => return SessionReply::refused(&Refusal::Task(why).into()),
            },
        })
    }
}

/// Waits until the time for collecting is over, or a notification ends it.
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
            (Err(_), _) | (_, Err(_)) => SessionReply::refused(&Refusal::SessionEnded(None).into()),
        }
    }
}

/// The result of a request.
pub(crate) enum RequestOutcome {
    Reply(SessionReply),
    /// A stream of records, which the caller has to send.
    Watch(WatchRequest),
}

/// Handles a request from any transport.
pub(crate) async fn answer(
    handle: &SessionHandle,
    query_handle: &QueryHandle,
    by: Actor,
    request: SessionRequest,
) -> RequestOutcome {
    RequestOutcome::Reply(match request {
        SessionRequest::Command(SessionCommand::Loop {
            about: LoopCommand::Judge(asked),
        }) => match handle.judged(by, *asked).await {
            Ok(records) => JudgementView::of(records.iter().map(|record| &record.event))
                .map_or_else(SessionReply::done, |judged| {
                    SessionReply::with(ReplyData::Judged(Box::new(judged)))
                }),
            Err(why) => SessionReply::refused(&why.into()),
        },
        SessionRequest::Command(SessionCommand::DecideTool {
            mut call,
            arguments,
            ..
        }) => {
            call.input = arguments
                .map(|arguments| arguments.to_string())
                .or(call.input);
            match handle.tool_decision(by, call).await {
                Ok(answer) => {
                    SessionReply::with(ReplyData::ToolDecided(ToolDecisionView::of(answer)))
                }
                Err(why) => SessionReply::refused(&why.into()),
            }
        }
        SessionRequest::Command(command) => match handle.recorded(by, command).await {
            Ok(records) => command_reply(query_handle, &records).await,
            Err(why) => SessionReply::refused(&why.into()),
        },
        SessionRequest::Query(query) => query_handle.ask(query).await,
        SessionRequest::Watch(watch) => return RequestOutcome::Watch(watch),
    })
}

/// The reply to a command. It contains the whole of a new hook or loop.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the reply to other commands has no data of its own"
)]
async fn command_reply(query_handle: &QueryHandle, records: &CommandRecords) -> SessionReply {
    for record in records {
        match &record.event {
            Event::Stop(StopEvent::HookRegistered { hook_id, .. }) => {
                let SessionReply {
                    data: Some(ReplyData::StopHooks(all)),
                    ..
                } = query_handle
                    .ask(SessionQuery::StopHookList { task: None })
                    .await
                else {
                    continue;
                };
                let own = all.into_iter().filter(|hook| hook.id == *hook_id).collect();
                return SessionReply::with(ReplyData::StopHooks(own));
            }
            Event::Stop(
                StopEvent::LoopStarted { loop_id, .. }
                | StopEvent::LoopAdvanced { loop_id, .. }
                | StopEvent::LoopEnded { loop_id, .. },
            ) => {
                return query_handle
                    .ask(SessionQuery::LoopShow {
                        id: loop_id.clone(),
                    })
                    .await;
            }
            _ => {}
        }
    }
    SessionReply::recorded(records.iter().map(|record| &record.event))
}

/// How many bytes of a running hook's output are shown.
pub const SHOWN: usize = 16 << 10;

/// How many bytes a run has printed so far, and the last of them. The file is created with the
/// first byte, so a missing file means that nothing was printed yet.
pub fn end(file: &Path) -> (u64, Vec<u8>) {
    read_end(file).unwrap_or_default()
}

fn read_end(file: &Path) -> io::Result<(u64, Vec<u8>)> {
    let mut file = File::open(file)?;
    let from = file.metadata()?.len().saturating_sub(SHOWN as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let printed = from + end.len() as u64;
    // After a cut, start with a whole line if there is one.
    let line = end
        .iter()
        .position(|byte| *byte == b'\n')
        .filter(|_| from > 0);
    end.drain(..line.map_or(0, |newline| newline + 1));
    Ok((printed, end))
}

impl From<HookOutputChunk> for LiveMessage {
    fn from(live: HookOutputChunk) -> Self {
        let HookOutputChunk {
            run,
            stream,
            at,
            bytes,
            gap,
        } = live;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self::Live(HookOutputMessage {
            run,
            stream,
            at,
            text,
            gap,
        })
    }
}

impl From<HookOutputMessage> for HookOutputChunk {
    fn from(piece: HookOutputMessage) -> Self {
        let HookOutputMessage {
            run,
            stream,
            at,
            text,
            gap,
        } = piece;
        Self {
            run,
            stream,
            at,
            bytes: text.into_bytes(),
            gap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_read_from_the_start_of_a_line_near_its_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("run-1.log");
        assert_eq!(end(&file), (0, Vec::new()));
        std::fs::write(&file, "one\ntwo").expect("a file");
        assert_eq!(end(&file), (7, b"one\ntwo".to_vec()));
        let lines: String = (0..10_000)
            .map(|n| format!("line {n}\n"))
            .collect::<Vec<_>>()
            .concat();
        std::fs::write(&file, &lines).expect("a file");
        let (printed, end) = end(&file);
        let end = String::from_utf8(end).expect("text");
        assert_eq!(printed, lines.len() as u64);
        assert!(
            end.starts_with("line ") && end.ends_with("line 9999\n") && end.len() <= SHOWN,
            "{end}"
        );
    }
}
