//! What the merge queue tests at this moment, for the screens of this machine.
//!
//! # Invariants
//! - It counts only while the process that wrote it lives: a pid counts only together with its start
//!   time. Without that, nothing is claimed.
//! - It decides nothing. A merger that cannot write it merges all the same.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::FOLDER;
use crate::{engine::time::UnixTime, process::process_table::ProcessTable};

/// The longest report, in bytes.
const LONGEST: u64 = 64 << 10;

/// The checks of a merge, as far as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeReport {
    /// The tasks that are tested together, as users name them. None: the base branch by itself.
    pub tasks: Vec<String>,
    /// The check that runs, from 1.
    pub number: usize,
    /// How many checks there are.
    pub checks: usize,
    /// The name of the check that runs.
    pub check: String,
    /// When the first check began.
    pub since: UnixTime,
}

/// The report with the process that wrote it.
#[derive(Serialize, Deserialize)]
struct ReportFile {
    pid: u32,
    start: u64,
    #[serde(flatten)]
    report: MergeReport,
}

fn file(project: &Path) -> PathBuf {
    project.join(FOLDER).join("merge-queue.report")
}

/// When a process started.
fn start_of(pid: u32) -> Option<u64> {
    let pid = i32::try_from(pid).ok()?;
    let known = ProcessTable::of_system().stat(pid);
    Some(known.filter(|known| !known.dead)?.start)
}

impl MergeReport {
    /// Replaces the report of this project's merge queue as a whole, so that no reader sees half of it.
    pub fn write(&self, project: &Path) -> io::Result<()> {
        let pid = std::process::id();
        // Without a process table, no reader could tell whether it still counts.
        let Some(start) = start_of(pid) else {
            return Ok(());
        };
        let report = ReportFile {
            pid,
            start,
            report: self.clone(),
        };
        let new = file(project).with_extension(format!("report-{pid}"));
        // Whatever has this name, creel writes a new file.
        let _ = fs::remove_file(&new);
        let mut options = OpenOptions::new();
        let mut written = options.write(true).create_new(true).open(&new)?;
        written.write_all(&serde_json::to_vec(&report)?)?;
        fs::rename(&new, file(project))
    }

    /// The merge queue tests nothing now.
    pub fn remove(project: &Path) {
        // Otherwise the next test replaces it.
        let _ = fs::remove_file(file(project));
    }

    /// What a merge queue tests in this project now. None if nothing is known.
    pub fn current(project: &Path) -> Option<Self> {
        let path = file(project);
        // A pipe in its place would never end.
        let is_file = path.symlink_metadata().is_ok_and(|meta| meta.is_file());
        let opened = is_file.then(|| File::open(&path).ok()).flatten()?;
        let mut text = Vec::new();
        opened.take(LONGEST).read_to_end(&mut text).ok()?;
        let ReportFile { pid, start, report } = serde_json::from_slice(&text).ok()?;
        (start_of(pid) == Some(start)).then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_only_while_its_process_lives() {
        let project = tempfile::tempdir().expect("a folder");
        let project = project.path();
        fs::create_dir_all(project.join(FOLDER)).expect("a folder");
        assert_eq!(MergeReport::current(project), None);
        let report = MergeReport {
            tasks: vec!["1".to_owned(), "2".to_owned()],
            number: 1,
            checks: 2,
            check: "tests".to_owned(),
            since: UnixTime(7),
        };
        report.write(project).expect("written");
        let lives = ProcessTable::of_system() != ProcessTable::Absent;
        assert_eq!(MergeReport::current(project), lives.then(|| report.clone()));
        let of_dead = ReportFile {
            pid: std::process::id(),
            start: 1,
            report,
        };
        let text = serde_json::to_vec(&of_dead).expect("JSON");
        fs::write(file(project), text).expect("written");
        assert_eq!(MergeReport::current(project), None);
        MergeReport::remove(project);
        assert!(!file(project).exists());
    }
}
