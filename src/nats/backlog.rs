//! Records that earlier sessions of this project could not send.
//!
//! A session that has ended does not wait for an unreachable server. The next session that reaches
//! the server sends the rest.
//!
//! # Invariants
//! - Records for one server are never sent to another.
//! - A folder may have been cloned with the project: creel sends it only if it looks like one that
//!   creel wrote. A broken folder does not keep creel from sending the others.

use std::io;

use async_nats::{Client, connection::State};
use serde::Deserialize;
use tokio::sync::watch;

use super::{
    connection::{NatsError, destination},
    subject::{SessionSubjects, is_plain},
};
use crate::{
    config::NatsConfig,
    journal::{self, SessionDir, SessionsDir, outbox::Outbox},
    nats::{
        record_sender::RecordSender,
        stream::{NatsStream, SessionIdentity},
    },
    protocol::NatsStatus,
};

/// The fields of a session's first record that creel checks.
#[derive(Deserialize)]
struct FirstRecordHeader {
    session: String,
    id: String,
}

/// What is left to send of a session that has ended.
enum SessionBacklog {
    Nothing,
    /// Another process sends it, or it is for another server.
    Elsewhere,
    /// The session's id comes with it.
    Unsent(Box<Outbox>, String),
}

/// Sends the backlog of other sessions.
#[derive(Clone, Copy)]
pub(super) struct BacklogSender<'a> {
    pub(super) client: &'a Client,
    pub(super) store: &'a NatsStream,
    pub(super) nats: &'a NatsConfig,
    pub(super) largest: usize,
}

impl BacklogSender<'_> {
    /// Sends the unsent records of all sessions except `own`. Errors are only logged, since no
    /// caller depends on it.
    pub(super) async fn send_all(
        &self,
        sessions: &SessionsDir,
        own: &str,
    ) -> Result<(), NatsError> {
        for folder in sessions.unsent_to(&self.store.made).unwrap_or_default() {
            // A session that runs sends its own records.
            if folder.name == own || journal::running(&folder).is_some() {
                continue;
            }
            let sent = match self.rest(&folder) {
                Ok(SessionBacklog::Nothing) => Ok(()),
                Ok(SessionBacklog::Elsewhere) => continue,
                Ok(SessionBacklog::Unsent(outbox, id)) => {
                    // Until they are sent: after another store, the session may have no entry.
                    let _ = folder.mark_unsent();
                    self.send(&folder, *outbox, &id)
                        .await
                        .map_err(|NatsError(why)| why)
                }
                Err(error) => Err(error.to_string()),
            };
            match sent {
                Ok(()) => folder.mark_sent(),
                Err(why) => {
                    tracing::info!(
                        "nats: cannot send the rest of session {}: {why}",
                        folder.name
                    );
                    if self.client.connection_state() != State::Connected {
                        return Ok(());
                    }
                }
            }
        }
        if let Err(error) = sessions.note_sent_to(&self.store.made) {
            tracing::info!(
                "nats: cannot save what the server has, so the next session checks all sessions again: {error}"
            );
        }
        Ok(())
    }

    fn rest(&self, folder: &SessionDir) -> io::Result<SessionBacklog> {
        let Some(outbox) = Outbox::open(folder)? else {
            return Ok(SessionBacklog::Elsewhere);
        };
        let kept = outbox.place();
        let is_ours = outbox.is_for(&destination(self.nats)) || kept.store == self.store.made;
        if !is_ours {
            return Ok(SessionBacklog::Elsewhere);
        }
        let has_more =
            kept.store != self.store.made || outbox.letters(kept.offset)?.read()?.is_some();
        let Some(first) = outbox.letters(0)?.read()?.filter(|_| has_more) else {
            return Ok(SessionBacklog::Nothing);
        };
        let FirstRecordHeader { session, id } = serde_json::from_slice(&first.line)?;
        if session != folder.name || !is_plain(&session) || !is_plain(&id) {
            return Err(io::Error::other("its first record is not from creel"));
        }
        Ok(SessionBacklog::Unsent(Box::new(outbox), id))
    }

    async fn send(
        &self,
        folder: &SessionDir,
        mut outbox: Outbox,
        id: &str,
    ) -> Result<(), NatsError> {
        let subjects = SessionSubjects::new(&self.nats.prefix, &folder.name);
        let holdings = self
            .store
            .holdings(
                SessionIdentity {
                    subjects: &subjects,
                    id,
                },
                outbox.place(),
            )
            .await?;
        let (link, _) = watch::channel(NatsStatus::Connecting { behind: 0 });
        let (_, no_news) = watch::channel(0);
        let mut sender = RecordSender {
            client: self.client,
            store: self.store,
            outbox: &mut outbox,
            subjects: &subjects,
            session: &folder.name,
            id,
            holdings,
            largest: self.largest,
            link: &link,
        };
        sender.run(no_news).await
    }
}
