//! How a screen steers its session: one that runs in this process, or one in another.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::socket::{
    client::{AskError, Client},
    message::Asker,
};
use crate::{
    engine::{event::By, input::Command},
    journal::{Folder, Record},
    runtime::Handle,
};

/// Where the commands of a screen go.
#[derive(Debug, Clone)]
pub enum Helm {
    /// To the session of this process, which ends with the screen.
    Here(Handle),
    /// To a session that goes on without this screen.
    There(Remote),
}

impl Helm {
    /// Asks the session for something; the answer says why not, if it will not.
    pub async fn command(&self, command: Command) -> Result<(), String> {
        match self {
            Self::Here(handle) => handle.command(By::Tui, command).await,
            Self::There(remote) => remote.command(command).await,
        }
    }
}

/// A session in another process.
#[derive(Debug, Clone)]
pub struct Remote {
    folder: Folder,
}

impl Remote {
    /// The session of this folder, and word of its new records; that ends when the session does.
    pub fn follow(folder: &Folder) -> Result<(Self, mpsc::UnboundedReceiver<Arc<Record>>), AskError> {
        // From here on nothing is missed: what was recorded before is in the journal, which the screen reads later.
        let watch = Client::connect(folder)?.watch(None)?;
        let (told, news) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for record in watch {
                let Ok(record) = record.inspect_err(|error| tracing::warn!("{error}")) else { return };
                if told.send(Arc::new(record)).is_err() {
                    return;
                }
            }
        });
        Ok((Self { folder: folder.clone() }, news))
    }

    /// One connection a command: it cannot have grown old, and a person does not type faster.
    async fn command(&self, command: Command) -> Result<(), String> {
        let folder = self.folder.clone();
        let asked =
            tokio::task::spawn_blocking(move || Client::connect(&folder)?.ask(Asker::Tui, &command.into())).await;
        match asked {
            Ok(answer) => answer.map(|_| ()).map_err(|error| error.to_string()),
            Err(panic) => Err(format!("the session could not be asked: {panic}")),
        }
    }
}
