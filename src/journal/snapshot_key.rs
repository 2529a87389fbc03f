//! The secret that seals snapshots, so that only creel processes of this user write one that creel
//! uses.
//!
//! The key is in the user's state folder, next to the trusted configs. A clone or a sandboxed agent
//! does not have it.
//!
//! # Invariants
//! - The key never changes once it exists. Processes that create it at the same time agree on one.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use sha2::{Digest as _, Sha256};

use super::session_dir::{PRIVATE_DIR, PRIVATE_FILE};

const KEY_BYTES: usize = 32;
/// The block size of SHA-256.
const BLOCK: usize = 64;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static KEY: OnceLock<SnapshotKey> = OnceLock::new();

/// Sets the folder of the key. Until then, this process neither writes nor uses snapshots.
pub fn keep_in(state_dir: &Path) {
    let _ = FOLDER.set(state_dir.to_owned());
}

/// A key for HMAC-SHA256, with the hash states after the first block.
#[derive(Debug, Clone)]
pub struct SnapshotKey {
    inner: Sha256,
    outer: Sha256,
}

impl SnapshotKey {
    pub(super) fn new(key: [u8; KEY_BYTES]) -> Self {
        let padded = |pad: u8| {
            let mut block = [pad; BLOCK];
            block
                .iter_mut()
                .zip(key)
                .for_each(|(byte, key)| *byte ^= key);
            Sha256::new_with_prefix(block)
        };
        Self {
            inner: padded(0x36),
            outer: padded(0x5c),
        }
    }

    /// The user's key, if there is one.
    pub(super) fn existing() -> Option<&'static Self> {
        KEY.get().or_else(|| {
            let key = read(&FOLDER.get()?.join("snapshot-key")).ok()?;
            Some(KEY.get_or_init(|| Self::new(key)))
        })
    }

    /// The user's key. Creates it if there is none.
    pub(super) fn existing_or_new() -> Option<&'static Self> {
        Self::existing().or_else(|| {
            // The draft's name is the process's own, so threads create it one at a time.
            static ALONE: Mutex<()> = Mutex::new(());
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            let made = create(FOLDER.get()?);
            made.inspect_err(|error| {
                tracing::warn!("cannot create the key for snapshots: {error}");
            })
            .ok()?;
            Self::existing()
        })
    }

    pub(super) fn seal(&self, content: &[u8]) -> String {
        let inner = self.inner.clone().chain_update(content).finalize();
        hex(&self.outer.clone().chain_update(inner).finalize())
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn read(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    File::open(path)?.read_exact(&mut key)?;
    Ok(key)
}

/// Creates the key under another name first, so that no process reads half of it.
fn create(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(folder)?;
    let draft = folder.join(format!("snapshot-key.{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE_FILE)
        .open(&draft)?;
    file.write_all(&read(Path::new("/dev/urandom"))?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, folder.join("snapshot-key"));
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_an_hmac() {
        // RFC 4231, test case 1, whose key is shorter: it is padded with zeros.
        let mut key = [0; KEY_BYTES];
        key[..20].fill(0x0b);
        assert_eq!(
            SnapshotKey::new(key).seal(b"Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
    }

    #[test]
    fn processes_that_create_the_key_at_the_same_time_agree() {
        let dir = tempfile::tempdir().expect("a folder");
        create(dir.path()).expect("a key");
        let first = read(&dir.path().join("snapshot-key")).expect("a key");
        create(dir.path()).expect("the same key");
        assert_eq!(
            read(&dir.path().join("snapshot-key")).expect("a key"),
            first
        );
        assert_eq!(
            fs::read_dir(dir.path()).expect("a folder").count(),
            1,
            "no draft is left"
        );
    }
}
