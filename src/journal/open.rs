//! Opening what lies in a session's folder, which may have come with a clone.
//!
//! # Invariants
//! - No link is followed: not one in place of a file, and not one in place of the session's folder.
//! - Only regular files are opened: a pipe holds nobody.
//! - What is replaced is there as a whole, the old or the new.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use super::folder::PRIVATE_FILE;

/// How much of a file that holds a line is read.
const A_LINE: u64 = 64 << 10;

/// Opens a file for reading.
pub fn to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// The text of a file that holds a line.
pub fn line(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    to_read(path)?.take(A_LINE).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file anew.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    // Whatever lies there was left by a creel that was killed, or came with a clone.
    let _ = fs::remove_file(&draft);
    let mut file = open(&draft, OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE))?;
    file.write_all(text.as_bytes())?;
    fs::rename(&draft, path)
}

pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    path.parent().map_or(Ok(()), is_folder)?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = opened.map_err(|error| if is_link(&error) { not_followed() } else { error })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

/// Makes sure that a folder is one, and no link to one.
pub(super) fn is_folder(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() { Err(not_followed()) } else { Ok(()) }
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn not_followed() -> io::Error {
    io::Error::other("it is a link, or in a folder that is one, and links are not followed here")
}
