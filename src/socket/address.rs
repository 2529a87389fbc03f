//! Where a session's socket is. The process of the session chooses it; clients find it through the
//! session's folder.
//!
//! Clients cannot derive the path, since their `XDG_RUNTIME_DIR` can differ from the session's. So
//! the session writes it into a file beside the journal. The socket itself is not there: the path
//! of a project can be too long for a socket, and its file system may not support sockets.
//!
//! # Invariants
//! - Only the owner can access the folder and the socket.
//! - A process listens at every name that ends in `.sock`, or the session is dead.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

use crate::journal::{
    SessionDir, open,
    session_dir::{PRIVATE_DIR, PRIVATE_FILE},
};

/// The longest path that every system accepts for a socket, in bytes.
const LONGEST: usize = 100;

/// The folders that can contain sockets, the preferred one first.
#[derive(Debug, Clone)]
pub struct SocketDirs(Vec<PathBuf>);

/// A socket, and the file that contains its path.
#[derive(Debug, Clone)]
pub struct SocketLocation {
    socket: PathBuf,
    address_file: PathBuf,
}

impl SocketDirs {
    /// The user's runtime folder, otherwise one in creel's state folder, otherwise one for this
    /// user in `/tmp`.
    pub fn usual(state_dir: Option<&Path>) -> Self {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute());
        let runtime = runtime
            .filter(|dir| is_ours(dir))
            .map(|dir| dir.join("creel"));
        let state = state_dir.map(|dir| dir.join("run"));
        let shared = Path::new("/tmp").join(format!("creel-{}", geteuid().as_raw()));
        Self(runtime.into_iter().chain(state).chain([shared]).collect())
    }
}

fn is_ours(dir: &Path) -> bool {
    fs::metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw())
}

impl SocketLocation {
    /// Listens at a new address for the session with that id, and writes the path into the
    /// session's folder.
    pub fn take(
        places: &SocketDirs,
        folder: &SessionDir,
        id: &str,
    ) -> io::Result<(Self, UnixListener)> {
        let mut why = io::Error::other("it has no folder");
        for place in &places.0 {
            match listen_in(place, id) {
                Ok((socket, listener)) => {
                    let address = Self {
                        socket,
                        address_file: folder.socket_file(),
                    };
                    address.tell()?;
                    return Ok((address, listener));
                }
                Err(error) => {
                    why = io::Error::new(error.kind(), format!("{}: {error}", place.display()));
                }
            }
        }
        Err(why)
    }

    /// The address that the session wrote into its folder.
    pub fn of(folder: &SessionDir) -> Option<Self> {
        let address_file = folder.socket_file();
        let line = open::line(&address_file).ok()?;
        Some(Self {
            socket: PathBuf::from(line.strip_suffix('\n')?),
            address_file,
        })
    }

    fn tell(&self) -> io::Result<()> {
        // Atomic, since a client may be reading the file.
        open::replace(&self.address_file, &self.line())
    }

    /// Connects. Refuses a socket of another user: the session's folder may have come with a clone.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let meta = fs::symlink_metadata(&self.socket)?;
        if !meta.file_type().is_socket() || meta.uid() != geteuid().as_raw() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is not a socket of yours",
            ));
        }
        UnixStream::connect(&self.socket)
    }

    /// Removes the socket and the file with its path. If another creel runs the session by now, its
    /// file stays.
    pub fn remove(&self) {
        if fs::symlink_metadata(&self.socket).is_ok_and(|meta| meta.file_type().is_socket()) {
            let _ = fs::remove_file(&self.socket);
        }
        if open::line(&self.address_file).is_ok_and(|line| line == self.line()) {
            let _ = fs::remove_file(&self.address_file);
        }
    }

    fn line(&self) -> String {
        format!("{}\n", self.socket.display())
    }

    /// Removes the socket if no process listens there any more.
    pub fn remove_if_stale(&self) {
        match self.connect() {
            Err(error)
                if [io::ErrorKind::ConnectionRefused, io::ErrorKind::NotFound]
                    .contains(&error.kind()) =>
            {
                self.remove();
            }
            Ok(_) | Err(_) => {}
        }
    }
}

fn listen_in(place: &Path, id: &str) -> io::Result<(PathBuf, UnixListener)> {
    // The process id makes the name unique, so a process never removes the socket of another one.
    let name = format!("{id}-{:x}", std::process::id());
    let socket = place.join(format!("{name}.sock"));
    if socket.as_os_str().len() > LONGEST || socket.to_str().is_none_or(|path| path.contains('\n'))
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path is too long for a socket",
        ));
    }
    make_private(place)?;
    clear_stale(place);
    // Bound under another name first, so that a client never sees a `.sock` without a listener and
    // its permissions.
    let draft = place.join(name);
    let _ = fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft)?;
    fs::set_permissions(&draft, Permissions::from_mode(PRIVATE_FILE))?;
    fs::rename(&draft, &socket)?;
    Ok((socket, listener))
}

/// Creates the folder, or checks that the existing one is private.
fn make_private(place: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(place)?;
    let meta = fs::symlink_metadata(place)?;
    if !meta.is_dir() || meta.uid() != geteuid().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it belongs to another user",
        ));
    }
    if meta.mode() & 0o077 != 0 {
        fs::set_permissions(place, Permissions::from_mode(PRIVATE_DIR))?;
    }
    Ok(())
}

fn clear_stale(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_name = path
            .extension()
            .is_some_and(|extension| extension == "sock");
        let refused = || {
            UnixStream::connect(&path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        if is_name && refused() {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::SessionsDir;

    fn session(dir: &Path) -> SessionDir {
        let folder = SessionsDir::of(dir).folder("s");
        fs::create_dir_all(&folder.path).expect("a folder");
        folder
    }

    #[test]
    fn only_the_owner_can_reach_it_and_it_is_found_and_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = session(dir.path());
        let places = SocketDirs(vec![dir.path().join("run")]);
        let (address, _listener) =
            SocketLocation::take(&places, &folder, "id").expect("an address");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(
            (mode(&dir.path().join("run")), mode(&address.socket)),
            (0o700, 0o600)
        );
        let found = SocketLocation::of(&folder).expect("it was told");
        found.connect().expect("somebody listens");
        found.remove();
        assert!(SocketLocation::of(&folder).is_none() && !address.socket.exists());
        fs::write(folder.socket_file(), "/elsewhere\n").expect("a file");
        address.remove();
        assert!(
            SocketLocation::of(&folder).is_some(),
            "another creel's word is left alone"
        );
    }

    #[test]
    fn what_a_dead_session_left_is_cleared_and_what_lives_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = session(dir.path());
        let places = SocketDirs(vec![dir.path().join("run")]);
        let (dead, listener) = SocketLocation::take(&places, &folder, "dead").expect("an address");
        drop(listener);
        let (living, _listener) =
            SocketLocation::take(&places, &folder, "living").expect("an address");
        assert!(!dead.socket.exists());
        living.remove_if_stale();
        let (_, _other) = SocketLocation::take(&places, &folder, "other").expect("an address");
        assert!(living.socket.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_passed_over() {
        let dir = tempfile::tempdir().expect("a folder");
        let (long, short) = (dir.path().join("x".repeat(90)), dir.path().join("run"));
        let places = SocketDirs(vec![long, short.clone()]);
        let (address, _listener) =
            SocketLocation::take(&places, &session(dir.path()), "id").expect("an address");
        assert_eq!(address.socket.parent(), Some(short.as_path()));
    }

    #[test]
    fn a_file_that_is_no_socket_is_neither_talked_to_nor_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, file) = (session(dir.path()), dir.path().join("precious"));
        fs::write(&file, "").expect("a file");
        fs::write(folder.socket_file(), format!("{}\n", file.display())).expect("a file");
        let address = SocketLocation::of(&folder).expect("it was told");
        assert_eq!(
            address.connect().expect_err("no socket").kind(),
            io::ErrorKind::PermissionDenied
        );
        address.remove_if_stale();
        address.remove();
        assert!(file.exists());
    }
}
