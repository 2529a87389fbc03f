//! A journal that cannot be synced, and one that another program truncates.

use std::fs;

use super::*;
use crate::{
    engine::time::UnixTime,
    journal::{Journal, SessionsDir},
};

/// A session with a record, whose folder was then moved away: creel cannot sync it any more.
fn moved(
    open: impl FnOnce(&SessionDir) -> Journal,
) -> (tempfile::TempDir, Journal, std::path::PathBuf) {
    let project = tempfile::tempdir().expect("a folder");
    let folder = SessionsDir::of(project.path()).folder("s");
    let journal = open(&folder);
    let away = project.path().join("away");
    fs::rename(&folder.path, &away).expect("it is there");
    (project, journal, away.join("journal.jsonl"))
}

fn with_record(folder: &SessionDir) -> Journal {
    let mut journal = Journal::create(folder).expect("a journal");
    journal
        .append(UnixTime(1), vec![Event::warning("a record".to_owned())])
        .expect("space");
    journal
}

#[test]
fn a_new_journal_that_cannot_be_synced_has_no_records() {
    let (_project, mut journal, file) = moved(with_record);
    assert!(fs::metadata(&file).expect("a file").len() > 0);
    let error = journal.sync_beginning().expect_err("its folder is gone");
    assert!(
        matches!(error, JournalError::Io { doing: "sync", .. }),
        "{error}"
    );
    assert_eq!(fs::metadata(&file).expect("a file").len(), 0);
}

#[test]
fn a_synced_journal_keeps_its_records() {
    let (_project, mut journal, file) = moved(|folder| {
        let mut journal = with_record(folder);
        journal.sync_beginning().expect("a disk");
        journal
    });
    journal.sync_beginning().expect("there is nothing to do");
    assert!(fs::metadata(&file).expect("a file").len() > 0);
}

#[test]
fn a_journal_that_is_truncated_in_the_middle_of_an_append_is_damaged() {
    let project = tempfile::tempdir().expect("a folder");
    let folder = SessionsDir::of(project.path()).folder("s");
    let mut journal = with_record(&folder);
    assert_eq!(journal.take_damage(), None);
    fs::write(folder.journal(), "").expect("a file");
    journal.mark_written(0);
    assert_eq!(journal.take_damage(), Some(JournalDamage::Truncated));
    journal
        .append(UnixTime(1), vec![Event::warning("another".to_owned())])
        .expect("space");
    assert_eq!(journal.take_damage(), None, "it is reported once");
}
