//! Sessions on other machines, reached through a NATS server.

use std::{cell::RefCell, future::poll_fn};

use async_nats::{Client, jetstream};
use tokio::sync::mpsc;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, SessionArgs},
        error::{self, CliError, CliResult, cannot_connect, say},
        target::{self, Project},
    },
    config::NatsConfig,
    journal::{file::JournalError, session_dir::SessionDir},
    nats::{
        commands::NatsTransport,
        connection::{NatsConnectionEvent as Event, NatsError, ReconnectPolicy, connect},
        presence::{self, ListedWorker, SessionHeartbeat},
        remote_journal::RemoteJournal,
        subject::SessionSubjects,
    },
    present::text::plain,
    protocol::{ClientKind, ReplyData, SessionRequest},
    report::session_diff::DiffPlace,
    runtime::now,
    sessions::session_client::SessionClient,
};

pub(crate) struct NatsServerConnection {
    pub(crate) tokio: tokio::runtime::Runtime,
    pub(crate) nats: NatsConfig,
    pub(crate) client: Client,
    /// The events of the connection.
    pub(crate) events: RefCell<mpsc::UnboundedReceiver<Event>>,
}

struct ChosenSession {
    name: String,
    /// Which of the sessions of that name, if known.
    id: Option<String>,
}

impl NatsServerConnection {
    /// The server on the command line, if there is one. Other settings come from the config.
    pub(crate) fn named(args: &NatsArgs, config: &ConfigArgs) -> CliResult<Option<Self>> {
        let Some(url) = &args.url else {
            return Ok(None);
        };
        let config = Project::load(config)
            .ok()
            .and_then(|project| project.settings.servers.nats);
        let nats =
            NatsConfig::named(url, config).map_err(|error| CliError::usage(error.to_string()))?;
        Self::reach(nats).map(Some)
    }

    /// The server on the command line, otherwise the one in the config, if any.
    pub(crate) fn meant(args: &NatsArgs, config: &ConfigArgs) -> CliResult<Option<Self>> {
        if let Some(server) = Self::named(args, config)? {
            return Ok(Some(server));
        }
        let project = Project::load(config)?;
        let (place, is_trusted) = (project.config_place(), project.is_trusted());
        let Some(nats) = project.settings.servers.nats else {
            return Ok(None);
        };
        // Logging in sends the server what the config names, such as a token from the environment.
        if !is_trusted {
            let (place, server) = (place.display(), nats.shown());
            let why =
                format!("{place} names the server {server}. You have not trusted this config yet");
            return Err(CliError::usage(format!(
                "{why}\n  read it, then run `creel trust`, or pass a server with --nats"
            )));
        }
        Self::reach(nats).map(Some)
    }

    fn reach(nats: NatsConfig) -> CliResult<Self> {
        let tokio = error::start_tokio()?;
        let connected = tokio.block_on(connect(&nats, ReconnectPolicy::ByItself));
        let (client, events) = connected.map_err(|problem| cannot_connect(&nats, &problem))?;
        Ok(Self {
            tokio,
            nats,
            client,
            events: RefCell::new(events),
        })
    }

    /// The streams of the server.
    pub(crate) fn jetstream(&self) -> jetstream::Context {
        let _threads = self.tokio.enter();
        jetstream::new(self.client.clone())
    }

    /// Waits until the server has answered. If the user lacks a right, the server says so and does
    /// not answer.
    pub(crate) fn wait<T, E: Into<CliError>>(
        &self,
        asked: impl Future<Output = Result<T, E>>,
    ) -> CliResult<T> {
        self.tokio.block_on(asked).map_err(|error| {
            let mut events = self.events.borrow_mut();
            let refusals = std::iter::from_fn(|| events.try_recv().ok()).filter_map(refusal);
            refusals
                .last()
                .map_or_else(|| error.into(), |why| lacks_right(&why))
        })
    }

    /// The last heartbeats of all sessions.
    pub(crate) fn heartbeats(&self) -> CliResult<Vec<SessionHeartbeat>> {
        self.wait(presence::heartbeats(&self.jetstream(), &self.nats))
    }

    /// The workers that are running.
    pub(crate) fn workers(&self) -> CliResult<Vec<ListedWorker>> {
        self.wait(presence::workers(&self.jetstream(), &self.nats.prefix))
    }

    /// A copy of a session with all records so far: of the session with that name or id, otherwise
    /// of the only running one.
    pub(crate) fn mirror(&self, session: Option<&str>) -> CliResult<RemoteJournal> {
        let ChosenSession { name, id } = self.choose(session)?;
        let mirror = self.wait(async {
            let mut mirror =
                RemoteJournal::open(&self.client, &self.nats, &name, id.as_deref()).await?;
            mirror.catch_up().await?;
            Ok::<_, NatsError>(mirror)
        })?;
        if let Some(seq) = mirror.gap() {
            let stream = &self.nats.stream.name;
            say(&format!(
                "creel: record {seq} of `{name}` is missing in the stream {stream}; creel shows only the records \
                 before it"
            ));
        }
        Ok(mirror)
    }

    /// A copy of a listed session with all records so far.
    pub(crate) fn copy_of(&self, heartbeat: &SessionHeartbeat) -> CliResult<RemoteJournal> {
        let (name, id) = (&heartbeat.status.session, Some(heartbeat.id.as_str()));
        self.wait(async {
            let mut copy = RemoteJournal::open(&self.client, &self.nats, name, id).await?;
            copy.catch_up().await?;
            Ok::<_, NatsError>(copy)
        })
    }

    /// The named session, otherwise the only running one.
    fn choose(&self, session: Option<&str>) -> CliResult<ChosenSession> {
        // A user that is not allowed to read the list can still name a session.
        let heartbeats = self.heartbeats().unwrap_or_default();
        if let Some(heartbeat) = heartbeats
            .iter()
            .find(|heartbeat| session == Some(&heartbeat.id))
        {
            return Ok(ChosenSession::of(heartbeat));
        }
        let is_running = |heartbeat: &&SessionHeartbeat| {
            heartbeat.status.outcome.is_none() && !heartbeat.is_overdue(now())
        };
        let is_meant = |heartbeat: &&SessionHeartbeat| {
            session.is_none_or(|name| heartbeat.status.session == name)
        };
        let running: Vec<&SessionHeartbeat> = heartbeats
            .iter()
            .filter(is_running)
            .filter(is_meant)
            .collect();
        let list = || {
            running.iter().map(|heartbeat| {
                plain(&format!(
                    "\n  {} on {}",
                    called(heartbeat, session),
                    heartbeat.host
                ))
            })
        };
        match (running.as_slice(), session) {
            ([only], _) => Ok(ChosenSession::of(only)),
            ([], Some(name)) => Ok(ChosenSession {
                name: name.to_owned(),
                id: None,
            }),
            ([], None) => Err(CliError::usage(
                "no session is running there; list all sessions with `creel sessions --nats URL`",
            )),
            (_, None) => {
                let list = list().collect::<String>();
                Err(CliError::usage(format!(
                    "several sessions are running; choose one with --session:{list}"
                )))
            }
            (_, Some(name)) => {
                let list = list().collect::<String>();
                Err(CliError::usage(format!(
                    "several sessions `{name}` are running; pass the id of one instead:{list}"
                )))
            }
        }
    }

    /// Sends a request to a session and returns its answer.
    pub(crate) fn reply_to(
        &self,
        session: &SessionArgs,
        request: impl Into<SessionRequest>,
    ) -> CliResult<Option<ReplyData>> {
        let ChosenSession { name, id } = self.choose(session.session.as_deref())?;
        let nats = NatsTransport::new(self.client.clone(), &self.nats.prefix, &name, id);
        let mut client = SessionClient::over_nats(nats, ClientKind::Cli);
        self.tokio.block_on(async {
            tokio::select! {
                replied = client.request(request) => Ok(replied?),
                why = self.refused_to_send(&name) => Err(lacks_right(&why)),
            }
        })
    }

    /// Waits until the server refuses to forward a command to a session.
    async fn refused_to_send(&self, session: &str) -> String {
        let subject = SessionSubjects::new(&self.nats.prefix, session)
            .commands()
            .to_lowercase();
        while let Some(event) = poll_fn(|context| self.events.borrow_mut().poll_recv(context)).await
        {
            if let Some(why) = refusal(event).filter(|why| why.to_lowercase().contains(&subject)) {
                return why;
            }
        }
        std::future::pending().await
    }
}

/// What the server refuses to do for this user.
fn refusal(event: Event) -> Option<String> {
    match event {
        Event::Refused(why) => Some(why),
        Event::Connected | Event::Lost => None,
    }
}

fn lacks_right(why: &str) -> CliError {
    CliError::failed(format!(
        "NATS: the server does not allow that: {why}\n  give this user the right (the manual lists what creel needs under \
         \"What a server has to allow\"), or use another user"
    ))
}

/// The server on the command line, otherwise the one in the config.
pub(crate) fn on_command_line(
    url: Option<&str>,
    config: Option<NatsConfig>,
) -> CliResult<Option<NatsConfig>> {
    match url {
        Some(url) => NatsConfig::named(url, config)
            .map(Some)
            .map_err(|error| CliError::usage(error.to_string())),
        None => Ok(config),
    }
}

/// A copy of a session on another machine, if the command line names a server.
pub(crate) fn copy(session: &SessionArgs) -> CliResult<Option<RemoteJournal>> {
    let Some(server) = NatsServerConnection::named(&session.nats, &session.config)? else {
        return Ok(None);
    };
    server.mirror(session.session.as_deref()).map(Some)
}

impl ChosenSession {
    fn of(heartbeat: &SessionHeartbeat) -> Self {
        Self {
            name: heartbeat.status.session.clone(),
            id: Some(heartbeat.id.clone()),
        }
    }
}

/// The id if all sessions have the same name, otherwise the name.
fn called<'a>(heartbeat: &'a SessionHeartbeat, name: Option<&str>) -> &'a str {
    if name.is_some() {
        &heartbeat.id
    } else {
        &heartbeat.status.session
    }
}

/// A session whose records can be read: one of this project, or the copy of a remote one.
pub(crate) struct RecordedSession {
    folder: SessionDir,
    /// The copy is removed when this is dropped.
    copy: Option<RemoteJournal>,
    /// The copy needs the connection as long as it exists.
    _server: Option<NatsServerConnection>,
}

impl RecordedSession {
    /// The named session, otherwise the latest one of this project or the only running one of the
    /// server.
    pub(crate) fn find(
        session: Option<&str>,
        config: &ConfigArgs,
        nats: &NatsArgs,
    ) -> CliResult<Self> {
        let server = NatsServerConnection::named(nats, config)?;
        let copy = server
            .as_ref()
            .map(|server| server.mirror(session))
            .transpose()?;
        let folder = match &copy {
            None => target::called_or_latest(session, config)?,
            Some(copy) if copy.folder().exists() => copy.folder().clone(),
            Some(copy) => return Err(JournalError::Missing(copy.folder().name.clone()).into()),
        };
        Ok(Self {
            folder,
            copy,
            _server: server,
        })
    }

    /// A session on this machine, of any project.
    pub(crate) const fn at(folder: SessionDir) -> Self {
        Self {
            folder,
            copy: None,
            _server: None,
        }
    }

    pub(crate) const fn folder(&self) -> &SessionDir {
        &self.folder
    }

    /// Where its files can be: of a session on another machine, in a clone here.
    pub(crate) fn files(&self) -> DiffPlace {
        if self.copy.is_some() {
            DiffPlace::Elsewhere(std::env::current_dir().unwrap_or_default())
        } else {
            DiffPlace::Here(self.folder.project().to_owned())
        }
    }
}
