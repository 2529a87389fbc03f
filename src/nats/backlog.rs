//! Records that earlier sessions of this project could not send.
//!
//! A session that has ended does not wait for an unreachable server. The next session that reaches the server sends the
//! rest.
//!
//! # Invariants
//! - Records for one server are never sent to another.
//! - A folder may have been cloned with the project: creel sends it only if it looks like one that creel wrote. A
//!   broken folder does not keep creel from sending the others.

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
        status::NatsStatus,
        stream::{NatsStream, SessionIdentity},
    },
};

/// The fields of a session's first record that creel checks.
#[derive(Deserialize)]
struct FirstRecordHeader {
    session: String,
    id: String,
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
    /// Sends the unsent records of all sessions except `own`. Errors are only logged, since no caller depends on it.
    pub(super) async fn send_all(&self, sessions: &SessionsDir, own: &str) -> Result<(), NatsError> {
        for folder in sessions.list().unwrap_or_default() {
            // A folder without an outbox file never had a server.
            let is_left = folder.name != own && folder.outbox_file().exists() && journal::running(&folder).is_none();
            if !is_left {
                continue;
            }
            let not_sent =
                |why: &str| tracing::info!("nats: creel does not send the rest of session {}: {why}", folder.name);
            match self.rest(&folder) {
                Ok(None) => {}
                Ok(Some((outbox, id))) => {
                    if let Err(NatsError(why)) = self.send(&folder, outbox, &id).await {
                        not_sent(&why);
                        if self.client.connection_state() != State::Connected {
                            break;
                        }
                    }
                }
                Err(error) => not_sent(&error.to_string()),
            }
        }
        Ok(())
    }

    /// The outbox of a session that may have unsent records, and the session's id.
    fn rest(&self, folder: &SessionDir) -> io::Result<Option<(Outbox, String)>> {
        let Some(outbox) = Outbox::open(folder)? else { return Ok(None) };
        let kept = outbox.place();
        let is_ours = outbox.is_for(&destination(self.nats)) || kept.store == self.store.made;
        if !is_ours {
            return Ok(None);
        }
        let has_more = kept.store != self.store.made || outbox.letters(kept.offset)?.read()?.is_some();
        let Some(first) = outbox.letters(0)?.read()?.filter(|_| has_more) else { return Ok(None) };
        let FirstRecordHeader { session, id } = serde_json::from_slice(&first.line)?;
        if session != folder.name || !is_plain(&session) || !is_plain(&id) {
            return Err(io::Error::other("its first record is not one of creel's"));
        }
        Ok(Some((outbox, id)))
    }

    async fn send(&self, folder: &SessionDir, mut outbox: Outbox, id: &str) -> Result<(), NatsError> {
        let subjects = SessionSubjects::new(&self.nats.prefix, &folder.name);
        let holdings = self.store.holdings(SessionIdentity { subjects: &subjects, id }, outbox.place()).await?;
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
