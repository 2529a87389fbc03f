//! The paths of configs and of creel's own files, and why a file cannot be read or written.

use std::{
    io,
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy as _;

/// The file names of a config. The first that exists counts.
pub const NAMES: [&str; 4] = [
    "creel.yaml",
    "creel.yml",
    "creel.json",
    ".creel/config.yaml",
];

/// The config of a folder: in it, or in the nearest parent that has one.
pub fn find(start: &Path) -> Option<PathBuf> {
    start
        .ancestors()
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// The project's folder, where hooks and agents run.
pub fn project_root(config: &Path) -> PathBuf {
    let folder = folder(config);
    if folder.file_name().is_some_and(|name| name == ".creel") {
        self::folder(&folder)
    } else {
        folder
    }
}

/// The folder that paths in a config are relative to.
pub fn folder(config: &Path) -> PathBuf {
    match config.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// The path of a file that a config names, from the config's folder or from the user's (`~/`).
pub fn named(folder: &Path, written: &str) -> PathBuf {
    let home = written
        .strip_prefix("~/")
        .and_then(|rest| Some(etcetera::home_dir().ok()?.join(rest)));
    home.unwrap_or_else(|| folder.join(written))
}

/// The user's settings for creel. Follows `XDG_CONFIG_HOME`.
pub fn config_dir() -> Option<PathBuf> {
    Some(
        etcetera::base_strategy::choose_base_strategy()
            .ok()?
            .config_dir()
            .join("creel"),
    )
}

/// The user's own table of agents.
pub fn agents_file() -> Option<PathBuf> {
    config_dir().map(|dir| dir.join("agents.yaml"))
}

/// The user's own prices of models.
pub fn prices_file() -> Option<PathBuf> {
    config_dir().map(|dir| dir.join("prices.yaml"))
}

/// Data that outlives a session: trusted configs, and logs. Follows `XDG_STATE_HOME`.
pub fn state_dir() -> Option<PathBuf> {
    etcetera::base_strategy::choose_base_strategy()
        .ok()?
        .state_dir()
        .map(|dir| dir.join("creel"))
}

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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_config_is_found_from_below_and_the_nearest_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let deep = dir.path().join("a/b");
        fs::create_dir_all(dir.path().join(".creel")).expect("a folder");
        fs::create_dir_all(&deep).expect("a folder");
        fs::write(dir.path().join(".creel/config.yaml"), "").expect("a file");
        assert_eq!(find(&deep), Some(dir.path().join(".creel/config.yaml")));
        fs::write(dir.path().join("creel.json"), "").expect("a file");
        assert_eq!(find(&deep), Some(dir.path().join("creel.json")));
        fs::write(dir.path().join("a/creel.yml"), "").expect("a file");
        assert_eq!(find(&deep), Some(dir.path().join("a/creel.yml")));
    }

    #[test]
    fn a_hidden_config_belongs_to_the_folder_around_it() {
        assert_eq!(
            project_root(Path::new("/p/.creel/config.yaml")),
            Path::new("/p")
        );
        assert_eq!(project_root(Path::new("/p/creel.yaml")), Path::new("/p"));
        assert_eq!(project_root(Path::new("creel.yaml")), Path::new("."));
        assert_eq!(
            project_root(Path::new(".creel/config.yaml")),
            Path::new(".")
        );
    }
}
