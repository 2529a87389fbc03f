//! The control socket: how command lines, screens and programs reach a session that runs in another
//! process.
//!
//! Owns the connections. A command goes to the session as a
//! [`crate::engine::input::SessionCommand`], like one from any other client. Queries are answered
//! from a state that is folded here.
//!
//! # Invariants
//! - Only clients of the session's owner are accepted.
//! - No client can block the session: the socket has a thread of its own, limits what clients send
//!   and receive, and drops clients that do not read. No number of idle clients keeps another one
//!   out.

pub mod address;
pub mod client;
mod connection;
pub(super) mod session_mirror;

use std::{io, pin::Pin, sync::Arc, time::Duration};

use rustix::process::geteuid;
use tokio::{
    io::AsyncWriteExt as _,
    net::{UnixListener, UnixStream},
    sync::{Semaphore, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::{
    journal::SessionDir,
    protocol::{NatsStatus, RequestRefusal, SessionReply, process_origin::PeerProcesses},
    runtime::{SessionHandle, SessionRuntime},
};
use address::{SocketDirs, SocketLocation};
use connection::{ClientContext, IdleSince};
use session_mirror::{FoldPace, QueryHandle, SessionMirror};

/// How many clients can be connected. Beyond that, the client that has been idle for longest is
/// disconnected.
pub const MOST_CLIENTS: usize = 128;
/// How many of them can watch. A watcher is never idle, and there must always be room for a
/// command.
pub const MOST_WATCHERS: usize = 112;
/// How many calls of the agent can wait for an answer. The rest of the room is for the user's
/// commands.
pub const MOST_CALLS: usize = 32;
/// How long watchers have to read the last records of a session that has ended.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long to wait when the system cannot accept another client.
const NO_ROOM: Duration = Duration::from_millis(100);

/// The socket of a session that runs in this process. It is removed when the session ends.
#[derive(Debug)]
pub struct ControlSocket {
    address: SocketLocation,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct SocketServer {
    listener: std::os::unix::net::UnixListener,
    mirror: SessionMirror,
    context: ClientContext,
    companion: Option<SocketCompanion>,
    address: SocketLocation,
}

/// Work that is done in parallel with the clients until the session ends, on the socket's thread.
pub(crate) type SocketCompanion =
    Box<dyn FnOnce(SessionHandle, QueryHandle) -> CompanionWork + Send>;

pub(crate) type CompanionWork = Pin<Box<dyn Future<Output = ()>>>;

impl ControlSocket {
    /// Listens for the session in this folder, which this process is about to run.
    pub(crate) fn open(
        places: &SocketDirs,
        folder: &SessionDir,
        runtime: &mut SessionRuntime,
        nats: Option<watch::Receiver<NatsStatus>>,
        companion: Option<SocketCompanion>,
    ) -> io::Result<Self> {
        let follower = runtime.follow()?;
        let session = follower.state.began.id.clone();
        let (address, listener) = SocketLocation::take(places, folder, &session)?;
        let (mirror, query_handle) = SessionMirror::new(follower, nats.clone(), FoldPace::AtOnce);
        let watches = Arc::new(Semaphore::new(MOST_WATCHERS));
        let context = ClientContext {
            handle: runtime.handle(),
            query_handle,
            journal: folder.journal(),
            live: runtime.live(),
            nats,
            session,
            watches,
            calls: Arc::new(Semaphore::new(MOST_CALLS)),
        };
        let server = SocketServer {
            listener,
            mirror,
            context,
            companion,
            address: address.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("socket".into())
            .spawn(move || server.run())?;
        Ok(Self {
            address,
            thread: Some(thread),
        })
    }

    /// Where the socket is, so that an abrupt exit can remove it.
    pub fn address(&self) -> SocketLocation {
        self.address.clone()
    }

    /// Waits until watchers have read the last records. The session must have ended.
    pub fn close(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.address.remove();
    }
}

impl SocketServer {
    fn run(self) {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let served = tokio.and_then(|tokio| tokio.block_on(self.serve()));
        if let Err(error) = served {
            tracing::error!("the control socket failed: {error}");
        }
    }

    async fn serve(self) -> io::Result<()> {
        let Self {
            listener,
            mut mirror,
            context,
            companion,
            address,
        } = self;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let mut clients = ConnectedClients::default();
        // Moved in, so that it is dropped when the session ends: that closes the channel that
        // announces records.
        let following = async move { mirror.follow().await };
        tokio::pin!(following);
        let mut companion: CompanionWork = match companion {
            Some(companion) => companion(context.handle.clone(), context.query_handle.clone()),
            None => Box::pin(std::future::pending()),
        };
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => clients.welcome(stream, &context).await,
                    Err(error) => {
                        tracing::warn!("cannot accept a client: {error}");
                        tokio::time::sleep(NO_ROOM).await;
                    }
                },
                Some(_) = clients.running.join_next() => {}
                () = &mut companion => companion = Box::pin(std::future::pending()),
                _ = &mut following => break,
            }
        }
        // From here on clients can no longer connect.
        address.remove();
        drop(listener);
        let all = async { while clients.running.join_next().await.is_some() {} };
        let _ = timeout(FAREWELL, all).await;
        Ok(())
    }
}

#[derive(Default)]
struct ConnectedClients {
    running: JoinSet<()>,
    slots: Vec<ClientSlot>,
    peers: PeerProcesses,
}

struct ClientSlot {
    idle: IdleSince,
    task: AbortHandle,
}

impl ConnectedClients {
    /// Accepts a client, or tells it why not.
    async fn welcome(&mut self, mut stream: UnixStream, context: &ClientContext) {
        let peer = stream.peer_cred().ok();
        let ours = peer.is_some_and(|peer| peer.uid() == geteuid().as_raw());
        let peer_process = self
            .peers
            .of_process(peer.and_then(|peer| peer.pid()), &context.session);
        let why = if !ours {
            RequestRefusal::OtherUser
        } else if self.has_room().await {
            let idle = IdleSince::now();
            let task = self.running.spawn(connection::serve(
                stream,
                peer_process,
                context.clone(),
                idle.clone(),
            ));
            self.slots.push(ClientSlot { idle, task });
            return;
        } else {
            RequestRefusal::TooManyClients(MOST_CLIENTS)
        };
        // Nothing was written before, so a line fits into the buffer.
        let line = SessionReply::refused(&why).to_line();
        let _ = timeout(NO_ROOM, stream.write_all(line.as_bytes())).await;
    }

    /// Whether there is room for one more. Idle clients must not keep others out, so this
    /// disconnects the one that has been idle for longest; those that never sent a request go
    /// first.
    async fn has_room(&mut self) -> bool {
        self.slots.retain(|slot| !slot.task.is_finished());
        if self.running.len() >= MOST_CLIENTS {
            let idle = self
                .slots
                .iter()
                .filter_map(|slot| Some((slot.idle.get()?, slot)));
            let Some((_, longest)) = idle.min_by_key(|(since, _)| *since) else {
                return false;
            };
            tracing::info!("closed an idle client of the control socket to make room for another");
            longest.task.abort();
        }
        while self.running.len() >= MOST_CLIENTS && self.running.join_next().await.is_some() {}
        true
    }
}
