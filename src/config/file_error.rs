//! Why a file cannot be read or written, in words.

use std::io;

/// The reason without the number of the error.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's enum grows, and its own words are good enough"
)]
pub fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "you do not have permission".to_owned(),
        io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        io::ErrorKind::AlreadyExists => "something else is there".to_owned(),
        io::ErrorKind::NotADirectory => "a part of its path is a file, not a folder".to_owned(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".to_owned(),
        _ => without_number(&error.to_string()),
    }
}

fn without_number(text: &str) -> String {
    text.split(" (os error").next().unwrap_or(text).to_owned()
}
