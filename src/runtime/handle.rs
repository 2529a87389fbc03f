//! How other tasks reach a session that runs in this process, and the processes of that session:
//! creel ends them so that none is left running.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use crate::{
    engine::{
        SessionState,
        conversation::{ForbiddenChanges, PermissionAnswer, ToolCall},
        effect::FileComparison,
        event::{Actor, Event, StopEvent},
        ids::{PermissionId, RunId},
        input::{Input, SessionCommand},
        refusal::Refusal,
        stop::agent_loop::{EvaluationRequest, LoopCommand, LoopRefusal},
    },
    journal::{Record, SessionDir},
    process::{
        children,
        process_table::ControlGroup,
        run::{OutputStream, ProcessGroup},
        sweep::{ProcessSweep, SweepReach},
    },
};

/// How many messages of agents and hooks are queued before the sender has to wait for the journal.
/// Few, because each can be a long piece of text.
const BACKLOG: usize = 64;

/// How many urgent messages are handled in a row while others wait.
const IN_A_ROW: u32 = 32;

/// Sends commands and inputs to a session. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    /// Messages whose sender cannot wait.
    now: mpsc::UnboundedSender<RuntimeMessage>,
    /// Messages whose sender waits if the loop is behind.
    in_turn: mpsc::Sender<RuntimeMessage>,
}

#[derive(Debug)]
pub(super) struct RuntimeInbox {
    now: mpsc::UnboundedReceiver<RuntimeMessage>,
    in_turn: mpsc::Receiver<RuntimeMessage>,
    /// How many urgent messages were handled since the last one from `in_turn`.
    in_a_row: u32,
}

/// The records that a command produced.
pub type CommandRecords = Vec<Arc<Record>>;

#[derive(Debug)]
pub(super) enum RuntimeMessage {
    Input(Input),
    Command {
        by: Actor,
        command: SessionCommand,
        reply: oneshot::Sender<Result<CommandRecords, Refusal>>,
    },
    Await(JudgementWatcher),
    /// A hook of the agent asks about a call.
    DecideTool {
        by: Actor,
        call: Box<ToolCall>,
        answer: oneshot::Sender<PermissionAnswer>,
        reply: oneshot::Sender<Result<PermissionId, Refusal>>,
    },
    /// What a comparison of files was for, and what it found.
    Compared(FileComparison, ForbiddenChanges),
}

/// A caller that waits for the judgement of one loop. It receives the records about that judgement
/// only.
#[derive(Debug)]
pub(super) struct JudgementWatcher {
    id: String,
    records: mpsc::UnboundedSender<Arc<Record>>,
}

impl JudgementWatcher {
    /// Sends a record to the caller if it is about the judgement. Returns whether the caller still
    /// waits.
    pub(super) fn tell(&self, record: &Arc<Record>) -> bool {
        if self.is_about_it(&record.event) {
            self.records.send(record.clone()).is_ok()
        } else {
            !self.records.is_closed()
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "everything else is not about this judgement, whatever it is"
    )]
    fn is_about_it(&self, event: &Event) -> bool {
        let is_its = |of: &Option<String>| of.as_ref() == Some(&self.id);
        match event {
            Event::Stop(StopEvent::Decided(decided)) => is_its(&decided.of),
            Event::Stop(StopEvent::RuleChecked { of, .. }) => is_its(of),
            Event::Stop(StopEvent::LoopEnded { loop_id, .. }) => *loop_id == self.id,
            // A checkpoint is recorded in the same step as the decision.
            Event::Stop(StopEvent::CheckpointKept(_)) => true,
            _ => false,
        }
    }
}

#[derive(Debug, Clone)]
pub struct HookOutputChunk {
    pub run: RunId,
    pub stream: OutputStream,
    /// Bytes that the run had printed before this chunk, on both streams.
    pub at: u64,
    pub bytes: Vec<u8>,
    /// Whether output before this chunk was dropped.
    pub gap: bool,
}

pub(super) fn channel() -> (SessionHandle, RuntimeInbox) {
    let (now, now_inbox) = mpsc::unbounded_channel();
    let (in_turn, in_turn_inbox) = mpsc::channel(BACKLOG);
    (
        SessionHandle { now, in_turn },
        RuntimeInbox {
            now: now_inbox,
            in_turn: in_turn_inbox,
            in_a_row: 0,
        },
    )
}

impl SessionHandle {
    /// Sends a command. The error says why the session refused it.
    pub async fn command(
        &self,
        by: impl Into<Actor>,
        command: SessionCommand,
    ) -> Result<(), Refusal> {
        self.recorded(by, command).await.map(drop)
    }

    /// Like [`Self::command`], but returns the records. The caller learns the name of a new task
    /// from them, for example.
    pub async fn recorded(
        &self,
        by: impl Into<Actor>,
        command: SessionCommand,
    ) -> Result<CommandRecords, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.now
            .send(RuntimeMessage::Command {
                by: by.into(),
                command,
                reply,
            })
            .map_err(|_| Refusal::SessionEnded(None))?;
        answer.await.map_err(|_| Refusal::SessionEnded(None))?
    }

    /// Asks for a judgement and waits for it. The last of the returned records is the decision.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "everything else is not about this judgement, whatever it is"
    )]
    pub async fn judged(
        &self,
        by: impl Into<Actor>,
        asked: EvaluationRequest,
    ) -> Result<CommandRecords, Refusal> {
        let id = asked.id.clone();
        let (watcher, mut receiver) = mpsc::unbounded_channel();
        // After the session has ended, the receiver ends at once.
        let _ = self.now.send(RuntimeMessage::Await(JudgementWatcher {
            id: id.clone(),
            records: watcher,
        }));
        self.recorded(
            by,
            SessionCommand::Loop {
                about: LoopCommand::Judge(Box::new(asked)),
            },
        )
        .await?;
        let mut records = Vec::new();
        while let Some(record) = receiver.recv().await {
            match &record.event {
                Event::Stop(StopEvent::LoopEnded { .. }) => {
                    return Err(LoopRefusal::EndedUnjudged(id).into());
                }
                Event::Stop(StopEvent::Decided(_)) => {
                    records.push(record);
                    return Ok(records);
                }
                _ => records.push(record),
            }
        }
        Err(LoopRefusal::SessionOverUnjudged.into())
    }

    /// Asks the session's hooks about a call that its agent is about to make, and waits for the
    /// answer. If the caller stops waiting, the request is withdrawn.
    pub async fn tool_decision(
        &self,
        by: impl Into<Actor>,
        call: Box<ToolCall>,
    ) -> Result<PermissionAnswer, Refusal> {
        let (answer, decided) = oneshot::channel();
        let (reply, accepted) = oneshot::channel();
        let asked = RuntimeMessage::DecideTool {
            by: by.into(),
            call,
            answer,
            reply,
        };
        self.now
            .send(asked)
            .map_err(|_| Refusal::SessionEnded(None))?;
        let ask = accepted.await.map_err(|_| Refusal::SessionEnded(None))??;
        let mut withdrawal = WaitingAsker {
            ask: Some(ask),
            session: self,
        };
        let answer = decided.await;
        withdrawal.ask = None;
        // The turn can end first.
        answer.map_err(|_| Refusal::NoTurn)
    }

    pub fn warn(&self, text: String) {
        self.tell(Input::Warned(text));
    }

    pub(super) fn tell(&self, input: Input) {
        let _ = self.now.send(RuntimeMessage::Input(input));
    }

    pub(super) fn tell_compared(&self, before: FileComparison, found: ForbiddenChanges) {
        let _ = self.now.send(RuntimeMessage::Compared(before, found));
    }

    pub(super) async fn tell_in_turn(&self, input: Input) {
        let _ = self.in_turn.send(RuntimeMessage::Input(input)).await;
    }
}

/// Withdraws a request that nothing waits for any more.
struct WaitingAsker<'a> {
    /// None once it is answered.
    ask: Option<PermissionId>,
    session: &'a SessionHandle,
}

impl Drop for WaitingAsker<'_> {
    fn drop(&mut self) {
        if let Some(ask) = self.ask {
            self.session.tell(Input::ToolHookGone(ask));
        }
    }
}

impl RuntimeInbox {
    /// Prefers urgent messages such as user commands, but many of them cannot lock out the agent
    /// and the hooks.
    pub(super) async fn next(&mut self) -> RuntimeMessage {
        if self.in_a_row >= IN_A_ROW {
            self.in_a_row = 0;
            if let Ok(message) = self.in_turn.try_recv() {
                return message;
            }
        }
        // The loop has a handle itself, so neither channel closes.
        tokio::select! {
            biased;
            Some(message) = self.now.recv() => {
                self.in_a_row += 1;
                message
            }
            Some(message) = self.in_turn.recv() => {
                self.in_a_row = 0;
                message
            }
        }
    }
}

/// How long processes get to end after a polite signal.
const GRACE: Duration = Duration::from_secs(2);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionProcesses {
    mark: Arc<str>,
    starter: ProcessStarter,
    groups: Arc<Mutex<Vec<ProcessGroup>>>,
    /// The control group of a session whose creel was killed.
    control_group: Option<ControlGroup>,
    killed: Arc<AtomicBool>,
}

/// Which creel started the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessStarter {
    ThisCreel,
    /// One that was killed. Its processes belong to another parent now.
    EarlierCreel,
}

impl SessionProcesses {
    pub(super) fn new(mark: &str) -> Self {
        let starter = ProcessStarter::ThisCreel;
        Self {
            mark: mark.into(),
            starter,
            groups: Arc::default(),
            control_group: None,
            killed: Arc::default(),
        }
    }

    /// The processes that an earlier creel started and perhaps left running.
    pub fn left_behind(state: &SessionState, folder: &SessionDir) -> Self {
        let groups = state.processes.iter().map(|(pid, start)| ProcessGroup {
            pid: *pid,
            start: (*start > 0).then_some(*start),
        });
        Self {
            mark: state.began.id.as_str().into(),
            starter: ProcessStarter::EarlierCreel,
            groups: Arc::new(Mutex::new(groups.collect())),
            control_group: ControlGroup::noted(&state.began.id, &folder.control_group_file()),
            killed: Arc::default(),
        }
    }

    pub(super) fn add(&self, group: ProcessGroup) {
        self.groups
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(group);
    }

    fn groups(&self) -> Vec<ProcessGroup> {
        self.groups
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn were_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Asks all processes to end, kills the ones that do not, and returns how many there were.
    pub async fn end_all(&self) -> usize {
        // Usually there are none left, and the kernel knows it at once. Searching all processes
        // takes milliseconds.
        if self.starter == ProcessStarter::ThisCreel && children::are_all_gone() {
            return 0;
        }
        let groups = self.groups();
        let sweep = ProcessSweep::new(&self.mark, &groups, SweepReach::WithOrphans);
        sweep
            .with_control_group(self.control_group.as_ref())
            .end(GRACE)
            .await
    }

    /// Kills all processes at once and prevents new ones. The session does not record the work that
    /// this interrupts as ended.
    pub fn kill_now(&self) -> usize {
        self.killed.store(true, Ordering::SeqCst);
        children::refuse_new(&self.mark);
        ProcessSweep::new(&self.mark, &self.groups(), SweepReach::WithOrphans).kill()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_of_messages_does_not_delay_other_senders() {
        let (handle, mut inbox) = channel();
        for _ in 0..1_000 {
            handle.tell(Input::Proceed);
        }
        for _ in 0..10 {
            handle
                .tell_in_turn(Input::Warned("from a hook".into()))
                .await;
        }
        let mut warnings = 0;
        for _ in 0..10 * (IN_A_ROW + 1) {
            let message = inbox.next().await;
            warnings += u32::from(matches!(message, RuntimeMessage::Input(Input::Warned(_))));
        }
        assert_eq!(warnings, 10);
    }
}
