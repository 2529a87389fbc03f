//! The kill soak of workers and the merge queue: whatever is killed, every task is merged once, and
//! nothing is left behind.
//!
//! A few kills run with the suite. `CREEL_KILLS=2000` asks for more, `CREEL_KILL_SEED` repeats the
//! dice of an earlier soak, which every failure prints. See CONTRIBUTING.md.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    kills::{Dice, number, seed},
    support::{
        git_project::{config, git, with_remote},
        project::Project,
    },
};

/// How many tasks and kills run with the suite.
const FEW: (usize, usize) = (5, 12);
/// How many of them there are in each round of a longer soak.
const MANY: (usize, usize) = (30, 200);
/// How long everything that is left may take once the kills are over.
const LONG: Duration = Duration::from_mins(5);

/// Writes the file that the goal names, once, and leaves it to creel to commit that.
const AGENT: &str = "file=$(grep -o 't[0-9]*[.]txt' | head -1); [ -n \"$file\" ] || exit 1; sleep 0.1; \
                     echo \"$CREEL_SESSION\" > \"$file\" || exit 1; sleep 0.1; echo '<promise>COMPLETE</promise>'";
/// Fails if a file was written twice.
const CHECK: &str =
    "for file in t*.txt; do [ ! -e $file ] || [ $(wc -l < $file) = 1 ] || exit 1; done\n";
const CHECKED: &str = "checks: ['sh check.sh']\nsubmit: { test_command: 'sh check.sh' }";

/// Why a kill can block a task: five workers died, git or a check did, git could not say what
/// changed, or the remote's own git died twice.
pub(crate) const KILLED: [&str; 5] = [
    "stopped responding",
    "signal",
    "could not tell whether the work changed",
    "could not run",
    "Could not read from remote repository",
];
/// Lock files that are no hindrance: creel's own, which is always there, and that of git's
/// housekeeping.
const KEPT: [&str; 2] = ["creel-worktrees.lock", "maintenance.lock"];
/// After this time, a lock of a branch counts as left behind.
const STALE: Duration = Duration::from_secs(21);

struct FarmSoak {
    project: Project,
    tasks: usize,
    seed: u64,
}

impl FarmSoak {
    fn start(tasks: usize, seed: u64) -> Self {
        let project = with_remote(&config(AGENT, CHECKED));
        project.write("check.sh", CHECK);
        git(&project, &["add", "check.sh"]);
        git(&project, &["commit", "--quiet", "-m", "check"]);
        git(&project, &["push", "--quiet", "origin", "main"]);
        let ran = project.creel(&["trust"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        for number in 1..=tasks {
            let (goal, on) = (format!("Write t{number}.txt."), (number - 1).to_string());
            let mut args = vec!["task", "add", "--queue", &goal];
            args.extend(
                (number % 3 == 0)
                    .then_some(["--depends-on", &on])
                    .into_iter()
                    .flatten(),
            );
            assert_eq!(project.creel(&args).code, 0);
        }
        Self {
            project,
            tasks,
            seed,
        }
    }

    fn child(&self, args: &[&str]) -> Child {
        let log = fs::File::options()
            .append(true)
            .create(true)
            .open(self.project.root().with_file_name("log"));
        let log = log.expect("a log");
        let mut command = self.project.command(args);
        let both = (log.try_clone().expect("a file"), log);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::from(both.0))
            .stderr(Stdio::from(both.1))
            .spawn()
            .expect("creel starts")
    }

    /// Returns how many kills there were before all tasks were merged.
    fn under_fire(&self, kills: usize, dice: &mut Dice) -> usize {
        let (mut worker, mut merger) = (self.worker(), self.merger());
        let mut done = 0;
        let end = Instant::now() + LONG * u32::try_from(1 + kills / 100).expect("small");
        while done < kills && !self.is_over() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20 + dice.below(150)));
            done += usize::from(strike(&self.project.root(), dice));
            for (child, again) in [(&mut worker, true), (&mut merger, false)] {
                if child.try_wait().expect("it is ours").is_some() {
                    *child = if again { self.worker() } else { self.merger() };
                }
            }
            self.unblock();
        }
        for mut child in [worker, merger] {
            let _ = child.kill();
            let _ = child.wait();
        }
        done
    }

    fn worker(&self) -> Child {
        self.child(&["worker", "--drain", "--jobs", "3", "--headless"])
    }

    fn merger(&self) -> Child {
        self.child(&["merge", "--queue"])
    }

    fn listed(&self) -> Vec<Value> {
        serde_json::from_str(
            &self
                .project
                .creel(&["task", "list", "--queue", "--json"])
                .out,
        )
        .expect("JSON")
    }

    fn is_over(&self) -> bool {
        self.listed().iter().all(|task| task["merged"].is_string())
    }

    /// Does what a person does about tasks whose workers were killed five times.
    fn unblock(&self) {
        for task in self
            .listed()
            .iter()
            .filter(|task| task["state"] == "blocked")
        {
            let (id, reason) = (
                task["id"].as_str().expect("an id"),
                task["reason"].as_str().unwrap_or_default(),
            );
            let is_ours = KILLED.iter().any(|words| reason.contains(words));
            assert!(
                is_ours,
                "seed {}: task {id} is blocked: {reason}\n{}",
                self.seed,
                self.log()
            );
            self.project.creel(&["task", "start", "--queue", id]);
        }
    }

    fn log(&self) -> String {
        let text =
            fs::read_to_string(self.project.root().with_file_name("log")).unwrap_or_default();
        text.lines()
            .rev()
            .take(60)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Lets everything end in peace.
    fn finish(&self) {
        let end = Instant::now() + LONG;
        while !self.is_over() {
            assert!(
                Instant::now() < end,
                "seed {}: {:#?}\n{}",
                self.seed,
                self.listed(),
                self.log()
            );
            let _ = self.worker().wait();
            self.unblock();
            let _ = self.merger().wait();
        }
        let _ = self.worker().wait();
        // A lock that git was killed with goes once it is old.
        if !self.locks().is_empty() {
            std::thread::sleep(STALE);
            let _ = self.worker().wait();
        }
    }

    fn locks(&self) -> Vec<String> {
        files_below(&self.project.root().join(".git"), &|name| {
            has_end(name, "lock") && !KEPT.contains(&name)
        })
    }

    fn check(&self) {
        let (project, seed) = (&self.project, self.seed);
        git(project, &["fetch", "--quiet", "origin"]);
        let commits = git(
            project,
            &["log", "--first-parent", "--format=%H", "origin/main"],
        );
        for commit in commits.lines() {
            for file in git(project, &["ls-tree", "--name-only", commit])
                .lines()
                .filter(|name| has_end(name, "txt"))
            {
                let text = git(project, &["show", &format!("{commit}:{file}")]);
                assert_eq!(
                    text.lines().count(),
                    1,
                    "seed {seed}: {file} in {commit}: {text}"
                );
            }
        }
        for number in 1..=self.tasks {
            let file = format!("t{number}.txt");
            let added = git(
                project,
                &[
                    "log",
                    "--first-parent",
                    "-m",
                    "--format=%H",
                    "origin/main",
                    "--",
                    &file,
                ],
            );
            assert_eq!(
                added.lines().count(),
                1,
                "seed {seed}: {file} was merged once: {added}\n{}",
                self.log()
            );
        }
        let listed = project.creel(&["worktree", "list"]);
        assert_eq!(
            (listed.code, listed.out.as_str()),
            (0, ""),
            "seed {seed}: {}\n{}",
            listed.err,
            self.log()
        );
        assert_eq!(self.locks(), Vec::<String>::new(), "seed {seed}: locks");
        let entries = files_below(&project.root().join(".git/worktrees"), &|name| {
            name == "gitdir"
        });
        assert!(
            entries.iter().all(|entry| entry.contains("merge-queue")),
            "seed {seed}: {entries:?}"
        );
        let named: Vec<String> = self
            .listed()
            .iter()
            .filter_map(|task| Some(task["branch"].as_str()?.to_owned()))
            .collect();
        let branches = git(project, &["branch", "--format=%(refname:short)"]);
        let is_known = |branch: &&str| *branch == "main" || named.iter().any(|name| name == branch);
        let unknown: Vec<&str> = branches
            .lines()
            .filter(|branch| !is_known(branch))
            .collect();
        assert_eq!(
            unknown,
            Vec::<&str>::new(),
            "seed {seed}: branches{}",
            self.described(&unknown)
        );
    }
}

impl FarmSoak {
    /// Where branches come from, and the tasks.
    fn described(&self, branches: &[&str]) -> String {
        let mut text = String::new();
        for branch in branches {
            let name = branch.trim_start_matches("creel/");
            let folder = self.project.root().join(".creel/sessions").join(name);
            text += &format!(
                "\n{branch}, session exists: {}\n{}\n{}",
                folder.exists(),
                git(&self.project, &["reflog", "show", branch]),
                fs::read_to_string(folder.join("journal.jsonl")).unwrap_or_default(),
            );
        }
        let graph = git(&self.project, &["log", "--all", "--graph", "--oneline"]);
        format!("{text}\n{graph}\n{:#?}", self.listed())
    }
}

/// Kills one of the processes that work in a project.
pub(crate) fn strike(own: &Path, dice: &mut Dice) -> bool {
    let is_own =
        |pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(own));
    let entries = fs::read_dir("/proc").expect("it is there").flatten();
    let all = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(is_own);
    let all: Vec<i32> = all.collect();
    let Some(count) = u64::try_from(all.len()).ok().filter(|count| *count > 0) else {
        return false;
    };
    let chosen = all[usize::try_from(dice.below(count)).expect("small")];
    Pid::from_raw(chosen).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

fn has_end(name: &str, end: &str) -> bool {
    Path::new(name).extension().is_some_and(|own| own == end)
}

fn files_below(folder: &Path, is_meant: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_below(&path, is_meant));
        } else if entry.file_name().to_str().is_some_and(is_meant) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn every_task_is_merged_once_whatever_is_killed() {
    let asked = number("CREEL_KILLS").map(|kills| usize::try_from(kills).expect("a number"));
    let ((tasks, most), mut left) = (
        if asked.is_some() { MANY } else { FEW },
        asked.unwrap_or(FEW.1),
    );
    let seed = seed();
    let mut dice = Dice(seed);
    while left > 0 {
        let soak = FarmSoak::start(tasks, seed);
        let done = soak.under_fire(left.min(most), &mut dice);
        soak.finish();
        soak.check();
        left = if asked.is_some() {
            left.saturating_sub(done.max(1))
        } else {
            0
        };
    }
}
