//! Opens files in the project's folder.
//!
//! Owns the way from a path to an open file. Does not know the caller or its purpose.
//!
//! # Invariants
//! - Nothing outside the project's folder is opened, whatever links there are, even if another
//!   process changes them at the same time.
//! - Only regular files are read, so a named pipe cannot block creel.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read as _},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt as _},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

#[derive(Debug)]
pub enum OpenError {
    /// It leads out of the project's folder.
    Outside,
    Missing,
    /// A folder, a pipe or similar.
    NotAFile,
    /// The size in bytes, which is above the limit.
    TooLarge(u64),
    Io(io::Error),
}

#[derive(Debug, Clone)]
pub struct ProjectDir {
    root: PathBuf,
}

impl ProjectDir {
    /// Follows links on the way to the folder itself: the user made those.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.canonicalize().unwrap_or_else(|_| root.to_owned()),
        }
    }

    /// Without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a whole file of at most `max` bytes.
    pub fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, OpenError> {
        let file = self.open(&self.inside(path)?, OFlags::RDONLY)?;
        let size = size(&file)?;
        if size > max {
            return Err(OpenError::TooLarge(size));
        }
        let mut bytes = Vec::new();
        // The file can have grown since the check.
        file.take(max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > max {
            Err(OpenError::TooLarge(bytes.len() as u64))
        } else {
            Ok(bytes)
        }
    }

    /// A folder in the project, or the project's folder if `path` is None.
    pub fn folder(&self, path: Option<&Path>) -> Result<PathBuf, OpenError> {
        let Some(path) = path else {
            return Ok(self.root.clone());
        };
        let real = self.root.join(path).canonicalize()?;
        if real.starts_with(&self.root) {
            Ok(real)
        } else {
            Err(OpenError::Outside)
        }
    }

    /// Resolves the links in a path and checks that it stays inside. The file itself need not
    /// exist.
    pub fn inside(&self, path: &Path) -> Result<PathBuf, OpenError> {
        let wanted = self.root.join(path);
        let real = match wanted.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !wanted.is_symlink() => {
                let (Some(parent), Some(name)) = (wanted.parent(), wanted.file_name()) else {
                    return Err(OpenError::Outside);
                };
                parent.canonicalize()?.join(name)
            }
            Err(error) => return Err(error.into()),
        };
        if real.starts_with(&self.root) && real != self.root {
            Ok(real)
        } else {
            Err(OpenError::Outside)
        }
    }

    /// Opens a path that [`Self::inside`] resolved. Refuses links, because one could have appeared
    /// since.
    pub fn open(&self, place: &Path, flags: OFlags) -> Result<File, OpenError> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        // `openat2` rejects a mode unless it creates the file.
        let mode = if flags.contains(OFlags::CREATE) {
            Mode::from_raw_mode(0o666)
        } else {
            Mode::empty()
        };
        let beneath = place
            .strip_prefix(&self.root)
            .map_err(|_| OpenError::Outside)?;
        let root = File::options()
            .read(true)
            .custom_flags(OFlags::DIRECTORY.bits().cast_signed())
            .open(&self.root)?;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&root, beneath, flags, mode, resolve) {
                Ok(file) => return Ok(file.into()),
                // An old kernel, or one that forbids the call.
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(Errno::LOOP | Errno::XDEV) => return Err(OpenError::Outside),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        open_step_by_step(root.into(), beneath, flags, mode)
    }
}

/// Flags for a folder on the way to a file. With `O_PATH`, the folder need not be readable.
const STEP: OFlags = {
    let flags = OFlags::DIRECTORY
        .union(OFlags::NOFOLLOW)
        .union(OFlags::CLOEXEC);
    #[cfg(target_os = "linux")]
    let flags = flags.union(OFlags::PATH);
    flags
};

/// Opens each folder on the way by name and follows no link, so that no link can be inserted.
fn open_step_by_step(
    root: OwnedFd,
    beneath: &Path,
    flags: OFlags,
    mode: Mode,
) -> Result<File, OpenError> {
    let mut names = Vec::new();
    for component in beneath.components() {
        let Component::Normal(name) = component else {
            return Err(OpenError::Outside);
        };
        names.push(name);
    }
    let name = names.pop().ok_or(OpenError::NotAFile)?;
    let mut folder = root;
    for step in names {
        folder = openat(&folder, step, STEP, Mode::empty())
            .map_err(|error| open_error(&folder, step, error))?;
    }
    openat(&folder, name, flags, mode)
        .map(Into::into)
        .map_err(|error| open_error(&folder, name, error))
}

/// Systems report a refused link with different errors, so this checks for a link itself.
fn open_error(folder: &OwnedFd, name: &OsStr, error: Errno) -> OpenError {
    let meta = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    if meta.is_ok_and(|meta| FileType::from_raw_mode(meta.st_mode) == FileType::Symlink) {
        return OpenError::Outside;
    }
    io::Error::from(error).into()
}

/// The size in bytes of a regular file.
pub fn size(file: &File) -> Result<u64, OpenError> {
    let meta = file.metadata()?;
    if meta.is_file() {
        Ok(meta.len())
    } else {
        Err(OpenError::NotAFile)
    }
}

impl From<io::Error> for OpenError {
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// As on a system without `openat2`.
    fn open_in_steps(project: &ProjectDir, place: &Path, flags: OFlags) -> Result<File, OpenError> {
        let beneath = place.strip_prefix(project.root()).expect("inside");
        open_step_by_step(
            File::open(project.root())?.into(),
            beneath,
            flags | OFlags::NOFOLLOW,
            Mode::from_raw_mode(0o666),
        )
    }

    type OpenWay = fn(&ProjectDir, &Path, OFlags) -> Result<File, OpenError>;

    const WAYS: [OpenWay; 2] = [ProjectDir::open, open_in_steps];

    #[test]
    fn a_file_in_the_project_is_opened_either_way() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("a/b")).expect("a folder");
        fs::write(dir.path().join("a/b/c"), "text").expect("a file");
        let project = ProjectDir::new(dir.path());
        let inside = |path| project.inside(Path::new(path)).expect("inside");
        for open in WAYS {
            let file = open(&project, &inside("a/b/c"), OFlags::RDONLY).expect("it is there");
            assert_eq!(io::read_to_string(file).expect("a text"), "text");
            let new = inside("a/new");
            open(&project, &new, OFlags::WRONLY | OFlags::CREATE).expect("it is made");
            fs::remove_file(new).expect("it was made");
            assert!(matches!(
                open(&project, &inside("a/x"), OFlags::RDONLY),
                Err(OpenError::Missing)
            ));
        }
        let text = project.read(Path::new("a/b/c"), 9).expect("it is there");
        assert_eq!(text, b"text");
    }

    #[test]
    fn a_link_that_took_the_place_of_a_folder_or_a_file_is_not_followed_either_way() {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("secret"), "secret").expect("a file");
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("it is there");
        symlink(outside.path(), root.join("middle")).expect("a link");
        symlink(outside.path().join("secret"), root.join("last")).expect("a link");
        let project = ProjectDir::new(&root);
        for (way, open) in WAYS.into_iter().enumerate() {
            // As if the links had been created after the path was checked.
            for place in ["middle/secret", "last"] {
                let opened = open(&project, &root.join(place), OFlags::RDONLY);
                assert!(
                    matches!(opened, Err(OpenError::Outside)),
                    "{way} {place}: {opened:?}"
                );
            }
            let new = root.join("middle/new");
            let opened = open(&project, &new, OFlags::WRONLY | OFlags::CREATE);
            assert!(
                matches!(opened, Err(OpenError::Outside)),
                "{way}: {opened:?}"
            );
        }
        assert!(!outside.path().join("new").exists());
    }
}
