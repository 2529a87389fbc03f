//! The project's folder, and what lies in it.
//!
//! Owns the way from a name to an open file. Does not know who asks, or what for.
//!
//! # Invariants
//! - Nothing outside the project's folder is opened, whatever links there are, also if somebody changes them at the same
//!   time.
//! - Only regular files are read: a pipe holds nobody.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};

/// Why something is not opened.
#[derive(Debug)]
pub enum Barred {
    /// It leads out of the project's folder.
    Outside,
    /// It is not there.
    Missing,
    /// It is a folder, a pipe, or the like.
    NotAFile,
    /// It has so many bytes, more than are read.
    TooLarge(u64),
    /// The system says no.
    Io(io::Error),
}

/// The project's folder.
#[derive(Debug, Clone)]
pub struct Premises {
    root: PathBuf,
}

impl Premises {
    /// Links on the way to the folder itself are the person's own.
    pub fn new(root: &Path) -> Self {
        Self { root: root.canonicalize().unwrap_or_else(|_| root.to_owned()) }
    }

    /// The folder, without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a whole file, if it has at most `max` bytes.
    pub fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, Barred> {
        let file = self.open(&self.inside(path)?, OFlags::RDONLY)?;
        let size = size(&file)?;
        if size > max {
            return Err(Barred::TooLarge(size));
        }
        let mut bytes = Vec::new();
        // It may have grown meanwhile.
        file.take(max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max { Err(Barred::TooLarge(bytes.len() as u64)) } else { Ok(bytes) }
    }

    /// A folder in the project's folder, or that itself.
    pub fn folder(&self, path: Option<&Path>) -> Result<PathBuf, Barred> {
        let Some(path) = path else { return Ok(self.root.clone()) };
        let real = self.root.join(path).canonicalize()?;
        if real.starts_with(&self.root) { Ok(real) } else { Err(Barred::Outside) }
    }

    /// Where a path really leads: links followed, and checked. The file itself need not be there.
    pub fn inside(&self, path: &Path) -> Result<PathBuf, Barred> {
        let wanted = self.root.join(path);
        let real = match wanted.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted.is_symlink() => {
                let (Some(parent), Some(name)) = (wanted.parent(), wanted.file_name()) else {
                    return Err(Barred::Outside);
                };
                parent.canonicalize()?.join(name)
            }
            Err(error) => return Err(error.into()),
        };
        if real.starts_with(&self.root) && real != self.root { Ok(real) } else { Err(Barred::Outside) }
    }

    /// Opens what [`Self::inside`] found. Links are followed no more: one that appeared in between is refused.
    pub fn open(&self, place: &Path, flags: OFlags) -> Result<File, Barred> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        // A mode beside a file that is not to be made is an error.
        let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let beneath = place.strip_prefix(&self.root).map_err(|_| Barred::Outside)?;
        let root = File::options().read(true).custom_flags(OFlags::DIRECTORY.bits().cast_signed()).open(&self.root)?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&root, beneath, flags, mode, resolve) {
                Ok(file) => return Ok(file.into()),
                // An old kernel, or one that forbids it.
                Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
                Err(rustix::io::Errno::LOOP | rustix::io::Errno::XDEV) => return Err(Barred::Outside),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        let opened = rustix::fs::openat(&root, beneath, flags, mode);
        opened.map(Into::into).map_err(|error| io::Error::from(error).into())
    }
}

/// How many bytes a file has, if it is one.
pub fn size(file: &File) -> Result<u64, Barred> {
    let meta = file.metadata()?;
    if meta.is_file() { Ok(meta.len()) } else { Err(Barred::NotAFile) }
}

impl From<io::Error> for Barred {
    fn from(error: io::Error) -> Self {
        let kind = error.kind();
        if kind == io::ErrorKind::NotFound {
            Self::Missing
        } else if kind == io::ErrorKind::IsADirectory {
            Self::NotAFile
        } else {
            Self::Io(error)
        }
    }
}
