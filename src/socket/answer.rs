//! What a request comes to, by whichever way it came.

use super::{
    message::{ReplyData, SessionReply, SessionRequest},
    query::{SessionQuery, WatchRequest},
};
use crate::{
    engine::{
        event::{Actor, Event, StopEvent},
        input::SessionCommand,
        stop::loop_command::LoopCommand,
    },
    runtime::{CommandRecords, SessionHandle},
    socket::{session_mirror::QueryHandle, stop_view::JudgementView},
};

/// What a request comes to.
pub(crate) enum RequestOutcome {
    /// Something to be said.
    Say(SessionReply),
    /// A stream of records, which the caller has to send.
    Watch(WatchRequest),
}

/// Has a request carried out, and says what became of it.
pub(crate) async fn answer(
    handle: &SessionHandle,
    desk: &QueryHandle,
    by: Actor,
    request: SessionRequest,
) -> RequestOutcome {
    RequestOutcome::Say(match request {
        SessionRequest::Command(SessionCommand::Loop {
            about: LoopCommand::Judge(asked),
        }) => match handle.judged(by, *asked).await {
            Ok(records) => JudgementView::of(records.iter().map(|record| &**record))
                .map_or_else(SessionReply::done, |judged| {
                    SessionReply::told(ReplyData::Judged(Box::new(judged)))
                }),
            Err(why) => SessionReply::refused(&why.into()),
        },
        SessionRequest::Command(command) => match handle.recorded(by, command).await {
            Ok(records) => told(desk, &records).await,
            Err(why) => SessionReply::refused(&why.into()),
        },
        SessionRequest::Query(query) => desk.ask(query).await,
        SessionRequest::Watch(watch) => return RequestOutcome::Watch(watch),
    })
}

/// What became of a command; a new hook or loop is told whole.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "everything else needs no more words than that it was done"
)]
async fn told(desk: &QueryHandle, records: &CommandRecords) -> SessionReply {
    for record in records {
        match &record.event {
            Event::Stop(StopEvent::HookRegistered { hook_id, .. }) => {
                let SessionReply {
                    told: Some(ReplyData::StopHooks(all)),
                    ..
                } = desk.ask(SessionQuery::StopHookList { task: None }).await
                else {
                    continue;
                };
                let own = all.into_iter().filter(|hook| hook.id == *hook_id).collect();
                return SessionReply::told(ReplyData::StopHooks(own));
            }
            Event::Stop(
                StopEvent::LoopStarted { loop_id, .. }
                | StopEvent::LoopAdvanced { loop_id, .. }
                | StopEvent::LoopEnded { loop_id, .. },
            ) => {
                return desk
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
