//! The local copy of the journal of a session on another machine.
//!
//! Writes the records of the stream to a file, in order. The code that shows or replays a session
//! reads this file like the journal itself, so remote sessions need no code of their own.
//!
//! A [`CopyDir`] is the directory of a viewer's copy, in the system's temporary directory. Owns its
//! creation and its removal. The viewer keeps the directory locked while it runs, so the lock shows
//! whether a directory still has a viewer: a process id could belong to another program by now, or
//! to another container.
//!
//! # Invariants
//! - Each record is written once, in the order of the journal, however often and in whatever order
//!   its messages arrive. Messages that are not records of this session are skipped.
//! - The file is a prefix of the journal at any moment, however often the connection is lost.
//! - Only the owner can read the copy. It is removed with its viewer, or, if that one was killed,
//!   by the next viewer.
//! - A directory whose viewer is alive is never removed.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::{
    Client, HeaderMap,
    jetstream::{self, Context, Message, consumer::DeliverPolicy, message::StreamMessage},
};
use rustix::{fs::OFlags, process::geteuid};
use tokio::sync::{mpsc, watch};

use crate::{
    config::NatsConfig,
    engine::{
        event::{Event, HookEvent, SessionEvent, StopEvent},
        ids::RunId,
    },
    journal::{
        Record, SessionDir,
        session_dir::{PRIVATE_DIR, PRIVATE_FILE},
    },
    nats::{
        connection::{NatsConnectionEvent, NatsError},
        live_output::LiveOutputReceiver,
        stream::{self, MessagePart, NatsStream, OrderedMessages, header, part},
        subject::{SESSION, SessionSubjects, is_plain},
    },
    present::text::plain,
    protocol::NatsStatus,
    runtime::{HookOutputChunk, now},
};

/// How long to wait before the next attempt to read the stream.
const AGAIN: Duration = Duration::from_millis(300);
/// How long to wait for a message that the stream has.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct RemoteJournal {
    copy: CopyDir,
    file: File,
    jetstream: Context,
    stream: String,
    subjects: SessionSubjects,
    id: String,
    assembly: RecordAssembler,
    /// Which stream was read, and up to which message.
    read: (String, u64),
    /// The last message there that belongs to the session.
    own: u64,
    /// The last run that started.
    begun: RunId,
}

/// Where the viewers of a copy get their updates.
#[derive(Debug)]
pub struct ViewerChannels {
    /// The number of each new record.
    pub news: watch::Sender<u64>,
    /// The output of running hooks.
    pub live: mpsc::Sender<HookOutputChunk>,
    pub link: watch::Sender<NatsStatus>,
}

enum FollowProgress {
    More,
    TheEnd,
}

impl RemoteJournal {
    /// An empty copy of the session with that id, or without an id of the last session that had
    /// this name.
    pub async fn open(
        client: &Client,
        nats: &NatsConfig,
        session: &str,
        id: Option<&str>,
    ) -> Result<Self, NatsError> {
        if !is_plain(session) {
            return Err(NatsError(format!(
                "`{}` is not a valid session name",
                plain(session)
            )));
        }
        let jetstream = jetstream::new(client.clone());
        let subjects = SessionSubjects::new(&nats.prefix, session);
        let store = stream::find(&jetstream, &nats.stream.name).await?;
        let Some(first) = beginning(&store, &subjects, id).await? else {
            return Err(NatsError(missing(&store, &subjects, session).await?));
        };
        let Some(id) = header(&first.headers, SESSION).map(str::to_owned) else {
            return Err(NatsError(format!(
                "the records of `{session}` are not from creel"
            )));
        };
        let (copy, file) = CopyDir::create(session)?;
        let read = (store.made.clone(), first.sequence - 1);
        let stream = nats.stream.name.clone();
        let assembly = RecordAssembler::new(&id);
        let (own, begun) = (0, RunId::default());
        Ok(Self {
            copy,
            file,
            jetstream,
            stream,
            subjects,
            id,
            assembly,
            read,
            own,
            begun,
        })
    }

    pub fn folder(&self) -> &SessionDir {
        self.copy.folder()
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Copies all records that the stream has now.
    pub async fn catch_up(&mut self) -> Result<(), NatsError> {
        let store = stream::find(&self.jetstream, &self.stream).await?;
        let last = store.end_of(&self.subjects.events(), self.read.1).await?;
        let mut messages = self.messages(&store).await?;
        let mut is_lost = false;
        while self.read.1 < last {
            match tokio::time::timeout(PATIENCE, messages.next()).await {
                Ok(Ok(message)) => {
                    self.take(&message)?;
                }
                // A cluster that has just changed its leader may have lost the consumer. A new one
                // continues there.
                Ok(Err(_)) | Err(_) if !is_lost => {
                    is_lost = true;
                    messages = self.messages(&store).await?;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(NatsError("the server does not answer".to_owned())),
            }
        }
        Ok(())
    }

    /// The first record that is missing although the stream has later ones.
    pub fn gap(&self) -> Option<u64> {
        self.assembly.gap()
    }

    /// Continues to copy and announces each record, until the session has ended or no viewer is
    /// left. The copy exists as long as the returned value.
    #[must_use]
    pub async fn follow(
        mut self,
        mut events: mpsc::UnboundedReceiver<NatsConnectionEvent>,
        audience: ViewerChannels,
    ) -> Self {
        let (client, subjects) = (self.jetstream.client(), self.subjects.clone());
        let mut overhearing =
            LiveOutputReceiver::begin(client, subjects, self.id.clone(), audience.live.clone())
                .await;
        while !audience.news.is_closed() {
            match self
                .follow_once(&mut events, &audience, &mut overhearing)
                .await
            {
                Ok(FollowProgress::More) => {}
                Ok(FollowProgress::TheEnd) => break,
                Err(NatsError(why)) => {
                    audience
                        .link
                        .send_replace(NatsStatus::Away { why, behind: 0 });
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
        self
    }

    /// Follows until the connection is lost or made again, since then the stream may be another
    /// one.
    async fn follow_once(
        &mut self,
        events: &mut mpsc::UnboundedReceiver<NatsConnectionEvent>,
        ViewerChannels { news, link, .. }: &ViewerChannels,
        overhearing: &mut LiveOutputReceiver,
    ) -> Result<FollowProgress, NatsError> {
        let store = stream::find(&self.jetstream, &self.stream).await?;
        // A stream that lost messages is read again from its beginning. Records that were already
        // copied are skipped.
        let is_known =
            store.made == self.read.0 && (self.own == 0 || store.is_of(self.own, &self.id).await?);
        if !is_known {
            (self.read, self.own) = ((store.made.clone(), 0), 0);
        }
        let mut messages = self.messages(&store).await?;
        link.send_replace(NatsStatus::Connected { behind: 0 });
        overhearing.connected();
        loop {
            tokio::select! {
                message = messages.next() => {
                    for record in self.take(&message?)? {
                        let ended = matches!(record.event, Event::Session(SessionEvent::Ended { .. }));
                        let _ = news.send(record.seq);
                        if ended {
                            return Ok(FollowProgress::TheEnd);
                        }
                    }
                    overhearing.pass_on(self.begun);
                }
                () = overhearing.hear(self.begun) => {}
                events = events.recv() => match events {
                    Some(NatsConnectionEvent::Connected) => return Ok(FollowProgress::More),
                    Some(NatsConnectionEvent::Lost) | None => return Err(NatsError("the connection was lost".to_owned())),
                    Some(NatsConnectionEvent::Refused(why)) if overhearing.is_refused(&why) => {}
                    Some(NatsConnectionEvent::Refused(why)) => return Err(NatsError(format!("the server refused: {why}"))),
                },
                () = news.closed() => return Ok(FollowProgress::More),
            }
        }
    }

    async fn messages(&self, store: &NatsStream) -> Result<OrderedMessages, NatsError> {
        let start_sequence = self.read.1 + 1;
        store
            .follow(
                self.subjects.events(),
                DeliverPolicy::ByStartSequence { start_sequence },
            )
            .await
    }

    /// Writes the records that are complete with this message.
    fn take(&mut self, message: &Message) -> Result<Vec<Record>, NatsError> {
        let info = message
            .info()
            .map_err(|error| NatsError(format!("cannot read a message: {error}")))?;
        self.read.1 = info.stream_sequence;
        if message
            .headers
            .as_ref()
            .is_some_and(|headers| header(headers, SESSION) == Some(&self.id))
        {
            self.own = info.stream_sequence;
        }
        let lines = self
            .assembly
            .take(message.headers.as_ref(), &message.payload);
        self.file.write_all(lines.concat().as_bytes())?;
        let records: Vec<Record> = lines
            .iter()
            .filter_map(|line| Record::from_line(line).ok())
            .collect();
        self.begun = records
            .iter()
            .filter_map(begins)
            .fold(self.begun, RunId::max);
        Ok(records)
    }
}

/// The first record of the session with that id, or without an id of the last session that had this
/// name.
async fn beginning(
    store: &NatsStream,
    subjects: &SessionSubjects,
    id: Option<&str>,
) -> Result<Option<StreamMessage>, NatsError> {
    let Some(id) = id else {
        return store.last_of(&subjects.beginning()).await;
    };
    let mut from = 1;
    while let Some(first) = store.next_of(&subjects.beginning(), from).await? {
        if header(&first.headers, SESSION) == Some(id) {
            return Ok(Some(first));
        }
        from = first.sequence + 1;
    }
    Ok(None)
}

/// Why a session cannot be shown, as text for the user.
async fn missing(
    store: &NatsStream,
    subjects: &SessionSubjects,
    session: &str,
) -> Result<String, NatsError> {
    let name = &store.stream.cached_info().config.name;
    if store.last_of(&subjects.events()).await?.is_none() {
        return Ok(format!("the stream {name} has no session `{session}`"));
    }
    Ok(format!(
        "the stream {name} no longer has the beginning of `{session}`, so creel cannot show it. Raise the stream's \
         limits (`max_age`, `max_bytes`)"
    ))
}

/// The run that starts with this record.
#[expect(clippy::wildcard_enum_match_arm, reason = "nothing else begins a run")]
fn begins(record: &Record) -> Option<RunId> {
    match &record.event {
        Event::Hook(HookEvent::Started { run, .. })
        | Event::Stop(StopEvent::RuleStarted { run, .. }) => Some(*run),
        _ => None,
    }
}

#[derive(Debug)]
pub struct RecordAssembler {
    id: String,
    /// The sequence number of the next record.
    next: u64,
    /// The parts of an incomplete record. The parts of one record arrive one after another.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Lines of records that arrived before an earlier one.
    early: BTreeMap<u64, String>,
}

impl RecordAssembler {
    /// Starts with the first record of that session.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            next: 1,
            parts: BTreeMap::new(),
            early: BTreeMap::new(),
        }
    }

    /// Adds a message and returns the lines that are complete now, each with its newline.
    pub fn take(&mut self, headers: Option<&HeaderMap>, payload: &[u8]) -> Vec<String> {
        let Some(headers) = headers.filter(|headers| header(headers, SESSION) == Some(&self.id))
        else {
            return Vec::new();
        };
        let Some(part) = part(headers) else {
            return Vec::new();
        };
        let Some(line) = self.whole(part, payload) else {
            return Vec::new();
        };
        // Readers of the copy parse every line as a record.
        match Record::from_line(&line) {
            Ok(record) if record.seq >= self.next && !line.contains('\n') => {
                self.early.insert(record.seq, line + "\n");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("nats: skipped a message: {error}"),
        }
        std::iter::from_fn(|| {
            let line = self.early.remove(&self.next)?;
            self.next += 1;
            Some(line)
        })
        .collect()
    }

    /// The sequence number of a missing record. `None` unless later ones have arrived.
    pub fn gap(&self) -> Option<u64> {
        (!self.early.is_empty()).then_some(self.next)
    }

    fn whole(&mut self, part: MessagePart, payload: &[u8]) -> Option<String> {
        if part.of == 1 {
            return String::from_utf8(payload.to_vec()).ok();
        }
        if part.number == 1 {
            self.parts.clear();
        }
        self.parts.insert(part.number, payload.to_vec());
        if self.parts.len() < part.of {
            return None;
        }
        String::from_utf8(
            std::mem::take(&mut self.parts)
                .into_values()
                .flatten()
                .collect(),
        )
        .ok()
    }
}

const PREFIX: &str = "creel-view-";
/// How many names to try for a new directory.
const ATTEMPTS: u32 = 16;

/// A directory for the copy of one session's journal.
#[derive(Debug)]
pub(super) struct CopyDir {
    root: PathBuf,
    folder: SessionDir,
    /// Locked as long as the viewer runs.
    _lock: File,
}

impl CopyDir {
    /// Makes a directory with an empty journal, and removes those that killed viewers left behind.
    pub(super) fn create(session: &str) -> io::Result<(Self, File)> {
        Self::create_in(&std::env::temp_dir(), session)
    }

    fn create_in(parent: &Path, session: &str) -> io::Result<(Self, File)> {
        remove_abandoned(parent);
        let (root, lock) = locked_dir(parent)?;
        let folder = SessionDir {
            name: session.to_owned(),
            path: root.join("copy"),
        };
        let copy = Self {
            root,
            folder,
            _lock: lock,
        };
        DirBuilder::new()
            .mode(PRIVATE_DIR)
            .create(&copy.folder.path)?;
        let journal = copy.folder.journal();
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(journal)?;
        Ok((copy, file))
    }

    pub(super) const fn folder(&self) -> &SessionDir {
        &self.folder
    }
}

impl Drop for CopyDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A new directory that this process has locked. If another viewer removes it before it is locked,
/// this makes another.
fn locked_dir(parent: &Path) -> io::Result<(PathBuf, File)> {
    for attempt in 0..ATTEMPTS {
        let root = parent.join(format!(
            "{PREFIX}{}-{}-{attempt}",
            std::process::id(),
            now().0
        ));
        match DirBuilder::new().mode(PRIVATE_DIR).create(&root) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        let Ok(lock) = open_own(&root) else { continue };
        if lock.try_lock().is_ok() && is_still(&root, &lock) {
            return Ok((root, lock));
        }
    }
    Err(io::Error::other(format!(
        "cannot create a directory in {}",
        parent.display()
    )))
}

/// Removes the directories whose viewers are gone. One that cannot be removed does not stop the
/// user from viewing a session.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
    {
        let root = entry.path();
        let Ok(lock) = open_own(&root) else { continue };
        let is_alive = match lock.try_lock() {
            Ok(()) => !is_still(&root, &lock),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        };
        if !is_alive && let Err(error) = fs::remove_dir_all(&root) {
            tracing::warn!(
                "cannot remove {}, which a killed `creel attach` left: {error}",
                root.display()
            );
        }
    }
}

/// Opens a directory of this user. Every user can create entries in the parent, so links are not
/// followed.
fn open_own(root: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let dir = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(root)?;
    if dir.metadata()?.uid() == geteuid().as_raw() {
        Ok(dir)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Whether the path still names the directory that was opened.
fn is_still(root: &Path, opened: &File) -> bool {
    let place = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (fs::symlink_metadata(root), opened.metadata()) {
        (Ok(there), Ok(opened)) => place(there) == place(opened),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::subject::PART;

    fn headers(id: &str, part: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, id);
        if let Some(part) = part {
            headers.insert(PART, part);
        }
        headers
    }

    fn line(seq: u64) -> String {
        format!(
            r#"{{"v":1,"seq":{seq},"at":"2026-11-15T09:30:00.000Z","session":"s","kind":"paused","by":"cli"}}"#
        )
    }

    #[test]
    fn records_come_out_in_order_and_once() {
        let mut assembly = RecordAssembler::new("a");
        let mut take = |seq| assembly.take(Some(&headers("a", None)), line(seq).as_bytes());
        let lines = |seqs: &[u64]| seqs.iter().map(|seq| line(*seq) + "\n").collect::<Vec<_>>();
        assert_eq!(take(1), lines(&[1]));
        assert_eq!(take(1), lines(&[]));
        assert_eq!(take(3), lines(&[]));
        assert_eq!(take(4), lines(&[]));
        assert_eq!(assembly.gap(), Some(2));
        let mut take = |seq| assembly.take(Some(&headers("a", None)), line(seq).as_bytes());
        assert_eq!(take(2), lines(&[2, 3, 4]));
        assert_eq!(take(3), lines(&[]));
        assert_eq!(assembly.gap(), None);
    }

    #[test]
    fn what_is_not_a_record_of_the_session_is_passed_over() {
        let mut assembly = RecordAssembler::new("a");
        assert!(assembly.take(None, line(1).as_bytes()).is_empty());
        assert!(
            assembly
                .take(Some(&headers("b", None)), line(1).as_bytes())
                .is_empty()
        );
        assert!(assembly.take(Some(&headers("a", None)), b"{}").is_empty());
        assert!(
            assembly
                .take(Some(&headers("a", Some("3/2"))), line(1).as_bytes())
                .is_empty()
        );
        assert_eq!(
            assembly
                .take(Some(&headers("a", None)), line(1).as_bytes())
                .len(),
            1
        );
    }

    #[test]
    fn a_record_in_parts_is_put_together_also_when_it_was_begun_before() {
        let mut assembly = RecordAssembler::new("a");
        let (text, half) = (line(1), line(1).len() / 2);
        assert!(
            assembly
                .take(Some(&headers("a", Some("1/2"))), &text.as_bytes()[..half])
                .is_empty()
        );
        assert!(
            assembly
                .take(Some(&headers("a", Some("1/2"))), &text.as_bytes()[..half])
                .is_empty()
        );
        let whole = assembly.take(Some(&headers("a", Some("2/2"))), &text.as_bytes()[half..]);
        assert_eq!(whole, [text + "\n"]);
    }
}

#[cfg(test)]
mod copy_dir_tests {
    use super::*;

    #[test]
    fn a_new_viewer_removes_the_copies_of_dead_viewers_and_no_others() {
        let parent = tempfile::tempdir().expect("a folder");
        let (living, _file) = CopyDir::create_in(parent.path(), "s").expect("a copy");
        let dead = parent.path().join(format!("{PREFIX}1-2-0"));
        fs::create_dir_all(dead.join("copy")).expect("a folder");
        fs::write(dead.join("copy/journal.jsonl"), "{}\n").expect("a file");
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("precious"), "").expect("a file");
        std::os::unix::fs::symlink(outside.path(), parent.path().join(format!("{PREFIX}link")))
            .expect("a link");
        fs::create_dir(parent.path().join("creel-demo")).expect("a folder");
        let (other, _file) = CopyDir::create_in(parent.path(), "s").expect("a copy");
        assert!(!dead.exists());
        assert!(living.folder().journal().exists() && other.folder().journal().exists());
        assert!(
            outside.path().join("precious").exists() && parent.path().join("creel-demo").exists()
        );
        let root = living.root.clone();
        drop(living);
        assert!(!root.exists());
    }

    #[test]
    fn the_copy_is_the_owners_alone() {
        let parent = tempfile::tempdir().expect("a folder");
        let (copy, file) = CopyDir::create_in(parent.path(), "s").expect("a copy");
        let mode = |meta: fs::Metadata| meta.mode() & 0o777;
        assert_eq!(
            mode(fs::metadata(&copy.root).expect("it is there")),
            PRIVATE_DIR
        );
        assert_eq!(mode(file.metadata().expect("it is open")), PRIVATE_FILE);
    }
}
