//! The sessions on all machines that use a NATS server, by their heartbeats.

use async_nats::{Client, jetstream};
use tokio::sync::mpsc;

use super::{SessionChange, SessionKey};
use crate::{
    config::NatsConfig,
    engine::time::UnixTime,
    nats::heartbeat::{self, EVERY, HeartbeatWatch, SessionHeartbeat},
    present::{
        session_chip::CurrentActivity,
        session_list::{ListedSession, ListedState},
        text::{plain, plain_line},
    },
    runtime::now,
};

/// The longest text from another machine, in characters.
const LINE: usize = 300;

/// A session as its last heartbeat describes it.
pub fn listed(sign: &SessionHeartbeat, at: UnixTime) -> ListedSession {
    let status = &sign.status;
    let moment = |text: &str| {
        text.parse::<jiff::Timestamp>()
            .ok()
            .map(|at| UnixTime(at.as_millisecond()))
    };
    // A worktree is in its project.
    let project = status
        .cwd
        .split("/.creel/worktrees/")
        .next()
        .unwrap_or(&status.cwd);
    let state = match (&status.outcome, &status.gate) {
        (Some(outcome), _) => ListedState::Ended {
            outcome: *outcome,
            reason: String::new(),
        },
        (None, _) if sign.is_overdue(at) => ListedState::Lost,
        (None, Some(gate)) => {
            let since = moment(&gate.opened).unwrap_or(sign.seen_at());
            let activity = CurrentActivity::NeedsUser {
                gate: gate.about,
                since,
            };
            ListedState::Runs {
                activity,
                reason: plain_line(&gate.reason, LINE),
            }
        }
        (None, None) => {
            let doing = CurrentActivity::Between(plain_line(&status.doing, LINE));
            let activity = if status.paused && status.turn.is_none() {
                CurrentActivity::Paused { by: String::new() }
            } else {
                doing
            };
            ListedState::Runs {
                activity,
                reason: String::new(),
            }
        }
    };
    ListedSession {
        host: plain(&sign.host),
        user: plain(sign.user.as_deref().unwrap_or_default()),
        branch: plain(status.branch.as_deref().unwrap_or_default()),
        cost: status.cost,
        agent: plain(&status.agent),
        iteration: status.iteration,
        max_iterations: status.max_iterations,
        started: moment(&status.started),
        state,
        ..ListedSession::unread(&plain(&status.session), &plain(project), sign.seen_at())
    }
}

fn key(sign: &SessionHeartbeat) -> SessionKey {
    SessionKey::There {
        name: sign.status.session.clone(),
        id: sign.id.clone(),
    }
}

fn change(sign: &SessionHeartbeat) -> SessionChange {
    SessionChange::Seen(key(sign), Box::new(listed(sign, now())))
}

/// Reports all sessions, then each change. Ends when the connection is closed or the receiver is
/// gone.
pub(super) async fn follow(
    client: Client,
    nats: NatsConfig,
    out: mpsc::UnboundedSender<Vec<SessionChange>>,
) {
    // Before the first look, so that no heartbeat in between is missed.
    let watch = HeartbeatWatch::start(&client, &nats.prefix).await;
    let signs = heartbeat::signs(&jetstream::new(client), &nats).await;
    let (mut watch, mut signs) = match (watch, signs) {
        (Ok(watch), Ok(signs)) => (watch, signs),
        (Err(error), _) | (_, Err(error)) => {
            return tracing::warn!("nats: cannot list the sessions: {error}");
        }
    };
    if out.send(signs.iter().map(change).collect()).is_err() {
        return;
    }
    loop {
        let heard = tokio::time::timeout(EVERY, watch.next()).await;
        let changes = match heard {
            Ok(None) => return,
            Ok(Some(sign)) => {
                let same = |known: &SessionHeartbeat| key(known) == key(&sign);
                let has_changed = signs
                    .iter()
                    .find(|known| same(known))
                    .is_none_or(|known| known.status != sign.status);
                signs.retain(|known| !same(known));
                let changes = if has_changed {
                    vec![change(&sign)]
                } else {
                    Vec::new()
                };
                signs.push(sign);
                changes
            }
            // Nothing arrived for a while: some may be lost, or past.
            Err(_) => {
                let past = signs
                    .extract_if(.., |sign| sign.is_past(&nats, now()))
                    .collect::<Vec<_>>();
                let gone = past.iter().map(|sign| SessionChange::Removed(key(sign)));
                gone.chain(
                    signs
                        .iter()
                        .filter(|sign| sign.is_overdue(now()))
                        .map(change),
                )
                .collect()
            }
        };
        if !changes.is_empty() && out.send(changes).is_err() {
            return;
        }
    }
}
