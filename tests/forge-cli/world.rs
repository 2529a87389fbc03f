//! The world of a fake forge: one pull request in a folder, as JSON.
//!
//! Tests change it, and the fakes of `gh` and `glab` show it. The commits of its branches are those
//! of a bare repository.
//!
//! # Invariants
//! - Every change is one rename under a lock that the system releases with its process, so a kill
//!   leaves the world before it or after it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct World {
    /// `gh` or `glab`.
    pub program: String,
    pub host: String,
    /// `owner/name`.
    pub project: String,
    /// Who is logged in.
    pub viewer: String,
    /// The bare repository.
    pub origin: PathBuf,
    /// In the words of GitHub: read, triage, write, maintain, admin.
    pub permissions: BTreeMap<String, String>,
    pub bots: Vec<String>,
    pub trouble: Option<Trouble>,
    /// How many nodes a page has.
    pub page: usize,
    pub next: u64,
    /// A merge needs the newest base.
    pub strict: bool,
    /// A merge goes into a queue.
    pub merge_queue: bool,
    pub review_required: bool,
    /// The names of the checks without which nothing is merged.
    pub required: Vec<String>,
    /// The checks that pass at once on every commit.
    pub passing: Vec<String>,
    pub pull: Option<Pull>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Trouble {
    LoggedOut,
    Unreachable,
    RateLimit { until: u64, is_secondary: bool },
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pull {
    pub number: u64,
    pub branch: String,
    pub base: String,
    pub title: String,
    pub body: String,
    /// OPEN, MERGED, CLOSED.
    pub state: String,
    pub is_draft: bool,
    pub is_queued: bool,
    pub is_foreign: bool,
    pub head: String,
    pub merged: Option<String>,
    pub checks: Vec<Check>,
    pub threads: Vec<Thread>,
    pub reviews: Vec<Remark>,
    pub comments: Vec<Remark>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Check {
    pub id: u64,
    pub name: String,
    pub commit: String,
    /// In the words of GitHub: SUCCESS, FAILURE, CANCELLED, SKIPPED; empty while it runs.
    pub conclusion: String,
    pub log: Option<String>,
    /// What another service says about its check, which has no log.
    pub status: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Thread {
    pub id: u64,
    pub path: String,
    pub line: u32,
    pub is_resolved: bool,
    pub comments: Vec<Remark>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Remark {
    pub id: u64,
    pub author: String,
    pub body: String,
    /// Of a review: `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`, `DISMISSED`.
    pub state: String,
    pub is_minimized: bool,
}

impl World {
    /// Reads, changes and writes the world in a folder.
    pub fn change<T>(folder: &Path, with: impl FnOnce(&mut Self) -> T) -> T {
        let lock = File::create(folder.join("lock")).expect("a lock");
        lock.lock().expect("the lock");
        let path = folder.join("world.json");
        let mut world: Self = fs::read(&path).map_or_else(
            |_| Self::default(),
            |text| serde_json::from_slice(&text).expect("a world"),
        );
        world.notice_pushes();
        let result = with(&mut world);
        let new = folder.join("world.json.new");
        fs::write(&new, serde_json::to_vec_pretty(&world).expect("JSON")).expect("a file");
        fs::rename(new, path).expect("a rename");
        result
    }

    pub fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn pull(&mut self) -> &mut Pull {
        self.pull.as_mut().expect("a pull request")
    }

    /// A new comment or review.
    pub fn remark(&mut self, author: &str, body: &str) -> Remark {
        Remark {
            id: self.fresh(),
            author: author.to_owned(),
            body: body.to_owned(),
            ..Remark::default()
        }
    }

    pub fn url(&self) -> String {
        let (host, project) = (&self.host, &self.project);
        let number = self.pull.as_ref().map_or(0, |pull| pull.number);
        if self.program == "gh" {
            format!("https://{host}/{project}/pull/{number}")
        } else {
            format!("https://{host}/{project}/-/merge_requests/{number}")
        }
    }

    pub fn git(&self, args: &[&str]) -> Option<String> {
        let out = Command::new("git")
            .args([
                "-c",
                "user.name=Forge",
                "-c",
                "user.email=forge@example.com",
            ])
            .arg("--git-dir")
            .arg(&self.origin)
            .args(args)
            .env_remove("GIT_DIR")
            .output()
            .expect("git runs");
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        out.status.success().then_some(text)
    }

    pub fn tip(&self, branch: &str) -> Option<String> {
        self.git(&[
            "rev-parse",
            "--verify",
            "--quiet",
            &format!("refs/heads/{branch}"),
        ])
    }

    pub fn base_tip(&self) -> String {
        let base = self.pull.as_ref().map_or("main", |pull| &pull.base);
        self.tip(base).unwrap_or_default()
    }

    /// Merges the pull request.
    pub fn merge(&mut self) -> Result<(), &'static str> {
        let (base, head) = (self.base_tip(), self.pull().head.clone());
        let tree = self
            .git(&["merge-tree", "--write-tree", &base, &head])
            .ok_or("Pull Request is not mergeable")?;
        let message = format!("Merge pull request #{}", self.pull().number);
        let commit = self
            .git(&[
                "commit-tree",
                "-p",
                &base,
                "-p",
                &head,
                "-m",
                &message,
                &tree,
            ])
            .expect("a commit");
        let target = format!("refs/heads/{}", self.pull().base);
        self.git(&["update-ref", &target, &commit, &base])
            .ok_or("Base branch was modified")?;
        let pull = self.pull();
        "MERGED".clone_into(&mut pull.state);
        pull.is_queued = false;
        pull.merged = Some(commit);
        Ok(())
    }

    /// Takes over what was pushed to the bare repository.
    fn notice_pushes(&mut self) {
        let Some(pull) = &self.pull else {
            return;
        };
        if pull.state != "OPEN" {
            return;
        }
        let Some(tip) = self.tip(&pull.branch.clone()) else {
            return;
        };
        if tip != pull.head {
            let pull = self.pull();
            pull.head.clone_from(&tip);
            pull.is_queued = false;
        }
        for name in self.passing.clone() {
            if self.checks().iter().all(|check| check.name != name) {
                self.check(&name, "SUCCESS", None);
            }
        }
        // A merge that a kill cut before it was written down.
        let base = self.base_tip();
        let merged = self
            .git(&["log", "-1", "--format=%H %P", &base])
            .unwrap_or_default();
        if let Some((commit, parents)) = merged.split_once(' ')
            && parents.split(' ').nth(1) == Some(&tip)
        {
            let pull = self.pull();
            "MERGED".clone_into(&mut pull.state);
            pull.merged = Some(commit.to_owned());
        }
    }

    /// Begins a new run of a check of the newest commit, which ends in this way.
    pub fn check(&mut self, name: &str, conclusion: &str, log: Option<&str>) -> u64 {
        let id = self.fresh();
        let pull = self.pull();
        let check = Check {
            id,
            name: name.to_owned(),
            commit: pull.head.clone(),
            conclusion: conclusion.to_owned(),
            log: log.map(str::to_owned),
            status: None,
        };
        pull.checks.push(check);
        id
    }

    /// All runs of the checks of the newest commit.
    pub fn checks(&self) -> Vec<&Check> {
        let Some(pull) = &self.pull else {
            return Vec::new();
        };
        pull.checks
            .iter()
            .filter(|check| check.commit == pull.head)
            .collect()
    }
}

pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock")
        .as_secs()
}
