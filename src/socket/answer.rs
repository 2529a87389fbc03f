//! What a request comes to, by whichever way it came.

use super::{
    ledger::Desk,
    message::{Asides, Meaning, Question, Reply, Request, Told},
};
use crate::{
    engine::{
        event::{Actor, Event},
        input::Command,
        tasks::command::{NewTask, TaskCommand},
    },
    runtime::{Handle, Records},
    socket::stop_view::JudgedView,
};

/// What a request comes to.
pub(crate) enum Answer {
    /// Something to be said.
    Say(Reply),
    /// A stream, for which whoever was asked needs a way.
    Watch(Option<u64>, Asides),
}

/// Has a request carried out, and says what became of it.
pub(crate) async fn answer(handle: &Handle, desk: &Desk, by: Actor, request: Request) -> Answer {
    Answer::Say(match request.meaning() {
        Meaning::Command(command) => match refused(desk, &command).await {
            Some(why) => Reply::refused(why),
            None => match handle.recorded(by, command).await {
                Ok(records) => told(desk, &records).await,
                Err(why) => Reply::refused(why),
            },
        },
        Meaning::Judgement(asked) => match handle.judged(by, asked).await {
            Ok(records) => JudgedView::of(records.iter().map(|record| &**record))
                .map_or_else(Reply::done, |judged| Reply::told(Told::Judged(Box::new(judged)))),
            Err(why) => Reply::refused(why),
        },
        Meaning::Question(question) => desk.ask(question).await,
        Meaning::Watch(from, asides) => return Answer::Watch(from, asides),
    })
}

/// Why a session cannot even try, if it has no server for what it is asked: the engine knows of none.
async fn refused(desk: &Desk, command: &Command) -> Option<String> {
    let Command::Task(TaskCommand::Add(NewTask { queue: Some(_), .. })) = command else { return None };
    let Reply { told: Some(Told::Status(status)), .. } = desk.ask(Question::Status).await else { return None };
    let (name, way_out) = (&status.session, "begin it with `nats:` in its config or with --nats");
    let why = || format!("session `{name}` has no NATS server, so it reaches no queue; {way_out}");
    status.nats.is_none().then(why)
}

/// What became of a command; a new hook or loop is told whole.
#[expect(clippy::wildcard_enum_match_arm, reason = "everything else needs no more words than that it was done")]
async fn told(desk: &Desk, records: &Records) -> Reply {
    for record in records {
        match &record.event {
            Event::StopHookRegistered { hook_id, .. } => {
                let Reply { told: Some(Told::StopHooks(all)), .. } = desk.ask(Question::StopHooks(None)).await else {
                    continue;
                };
                let own = all.into_iter().filter(|hook| hook.id == *hook_id).collect();
                return Reply::told(Told::StopHooks(own));
            }
            Event::AgentLoopStarted { loop_id, .. }
            | Event::AgentLoopAdvanced { loop_id, .. }
            | Event::AgentLoopEnded { loop_id, .. } => return desk.ask(Question::Loop(loop_id.clone())).await,
            _ => {}
        }
    }
    Reply::recorded(records.iter().map(|record| &record.event))
}
