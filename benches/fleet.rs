//! What several sessions at once cost: a task in its own worktree beside bare git, and two jobs
//! beside one.
//!
//! `cargo bench --bench fleet` measures all figures. `CREEL_BIN` names another creel to measure.

#[path = "support/measure.rs"]
#[expect(dead_code, reason = "other benchmarks use more of it")]
mod measure;
#[path = "support/project.rs"]
#[expect(dead_code, reason = "other benchmarks use more of it")]
mod project;
#[path = "support/terminal.rs"]
#[expect(dead_code, reason = "other benchmarks use more of it")]
mod terminal;

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use measure::{Figure, Finding, Result, Verdict};
use project::{Project, creel};

/// How many tasks one run has.
const TASKS: u32 = 40;
/// How many tasks there are for one job, and for two.
const MANY_TASKS: u32 = 1_000;
/// How many times an old and a new project take turns.
const ROUNDS: usize = 5;
/// How many sessions the folder has had before.
const PAST: usize = 1_000;
/// How long the agent of a tiny task takes, in seconds. It waits: with two jobs, two agents wait at
/// once.
const AGENT: &str = "0.1";

fn main() -> ExitCode {
    measure::run(&[
        Figure {
            name: "task",
            measure: task,
        },
        Figure {
            name: "jobs",
            measure: jobs,
        },
        Figure {
            name: "past",
            measure: past,
        },
        Figure {
            name: "merged",
            measure: merged,
        },
    ])
}

/// A repository with a queue of tiny tasks.
fn queue(agent: &str, worktree: bool) -> Result<Project> {
    let project = Project::empty()?;
    let path = project.path();
    let config =
        format!("agent: a\nworktree: {worktree}\nagents: {{ a: {{ command: \"{agent}\" }} }}\n");
    fs::write(path.join("creel.yaml"), config)?;
    for number in 0..100 {
        fs::write(
            path.join(format!("file-{number}.txt")),
            "some text\n".repeat(20),
        )?;
    }
    git(&project, &["init", "--quiet", "--initial-branch=main"])?;
    git(&project, &["config", "user.name", "B"])?;
    git(&project, &["config", "user.email", "b@example.com"])?;
    git(&project, &["add", "--all"])?;
    git(&project, &["commit", "--quiet", "-m", "first"])?;
    ran(&project, &["trust"])?;
    Ok(project)
}

fn fill(project: &Project, tasks: u32) -> Result<()> {
    for _ in 0..tasks {
        ran(project, &["task", "add", "--queue", "Do it."])?;
    }
    Ok(())
}

fn git(project: &Project, args: &[&str]) -> Result<()> {
    finished(
        Command::new("git")
            .args(args)
            .current_dir(project.path())
            .env("HOME", project.home()),
    )
}

fn ran(project: &Project, args: &[&str]) -> Result<()> {
    finished(&mut at(project, &creel(), args))
}

fn at(project: &Project, program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(project.path())
        .env("HOME", project.home());
    command
        .env("XDG_STATE_HOME", project.home().join("state"))
        .env("XDG_CONFIG_HOME", project.home().join("config"));
    command
}

fn finished(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}

/// The time per task of a worker that empties a full queue.
fn drained(project: &Project, tasks: u32, jobs: &str) -> Result<Duration> {
    fill(project, tasks)?;
    let started = Instant::now();
    ran(project, &["worker", "--drain", "--jobs", jobs])?;
    Ok(started.elapsed() / tasks)
}

/// A task in its own worktree, compared with what that needs in any case: git's worktree and
/// branch, a session without a worktree, and the end of the worktree.
fn task() -> Result<Vec<Finding>> {
    const DONE: &str = "echo '<promise>COMPLETE</promise>'";
    let (with, without) = (queue(DONE, true)?, queue(DONE, false)?);
    let (mut ours, mut plain, mut bare) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for round in 0..3 {
        ours = ours.min(drained(&with, TASKS, "1")?);
        plain = plain.min(drained(&without, TASKS, "1")?);
        let started = Instant::now();
        for number in 0..TASKS {
            let name = format!("w-{round}-{number}");
            let folder = format!("../bare/{name}");
            git(
                &without,
                &["worktree", "add", "--quiet", "-b", &name, &folder],
            )?;
            finished(Command::new("sh").args(["-c", DONE]))?;
            git(&without, &["worktree", "remove", &folder])?;
        }
        bare = bare.min(started.elapsed() / TASKS);
    }
    let ratio = ours.as_secs_f64() / (bare + plain).as_secs_f64();
    Ok(vec![Finding {
        text: format!(
            "a task in its own worktree: {:.1} ms; git worktree add, sh and remove: {:.1} ms, and a task without a worktree: \
             {:.1} ms; ratio {ratio:.2}, allowed 1.5",
            millis(ours),
            millis(bare),
            millis(plain)
        ),
        verdict: if ratio <= 1.5 {
            Verdict::Ok
        } else {
            Verdict::Missed
        },
    }])
}

/// Two jobs, compared with one.
fn jobs() -> Result<Vec<Finding>> {
    let agent = format!("sleep {AGENT}; echo '<promise>COMPLETE</promise>'");
    let (one, two) = (queue(&agent, true)?, queue(&agent, true)?);
    let (alone, together) = (
        drained(&one, MANY_TASKS, "1")?,
        drained(&two, MANY_TASKS, "2")?,
    );
    let ratio = alone.as_secs_f64() / together.as_secs_f64();
    Ok(vec![Finding {
        text: format!(
            "{MANY_TASKS} tasks of {AGENT} s, each with one job: {:.1} ms; with two: {:.1} ms; {ratio:.2} times as fast, at least 1.7",
            millis(alone),
            millis(together)
        ),
        verdict: if ratio >= 1.7 {
            Verdict::Ok
        } else {
            Verdict::Missed
        },
    }])
}

/// A task in a folder with many past sessions, compared with a new folder.
fn past() -> Result<Vec<Finding>> {
    const DONE: &str = "echo '<promise>COMPLETE</promise>'";
    let (fresh, old) = (queue(DONE, false)?, queue(DONE, false)?);
    drained(&old, TASKS, "1")?;
    let sessions = old.path().join(".creel/sessions");
    let journal = fs::read(sessions.join("task-1/journal.jsonl"))?;
    for number in 0..PAST {
        let folder = sessions.join(format!("past-{number}"));
        fs::create_dir(&folder)?;
        fs::write(folder.join("journal.jsonl"), &journal)?;
    }
    let (mut new, mut used) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        new = new.min(drained(&fresh, TASKS, "1")?);
        used = used.min(drained(&old, TASKS, "1")?);
    }
    let ratio = used.as_secs_f64() / new.as_secs_f64();
    Ok(vec![Finding {
        text: format!(
            "a task after {PAST} sessions: {:.1} ms; in a new folder: {:.1} ms; ratio {ratio:.2}, allowed 1.2",
            millis(used),
            millis(new)
        ),
        verdict: if ratio <= 1.2 {
            Verdict::Ok
        } else {
            Verdict::Missed
        },
    }])
}

/// A task from the queue into the base branch after 1,000 others, compared with the first ones.
fn merged() -> Result<Vec<Finding>> {
    // The tasks of one round change different files, and the repository stays as large as it is.
    const WORK: &str = "echo $CREEL_SESSION > file-$((${CREEL_SESSION##*-} % 100)).txt; echo '<promise>COMPLETE</promise>'";
    let through = |project: &Project, tasks: u32| -> Result<Duration> {
        let worked = drained(project, tasks, "1")?;
        let started = Instant::now();
        ran(project, &["merge", "--queue"])?;
        Ok(worked + started.elapsed() / tasks)
    };
    let old = queue(WORK, true)?;
    for _ in 0..MANY_TASKS / TASKS {
        through(&old, TASKS)?;
    }
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let new = queue(WORK, true)?;
        first.push(through(&new, TASKS)?);
        last.push(through(&old, TASKS)?);
    }
    let (first, last) = (median(first), median(last));
    let ratio = last.as_secs_f64() / first.as_secs_f64();
    Ok(vec![Finding {
        text: format!(
            "a task from the queue into the base branch after {MANY_TASKS} others: {:.1} ms; the first ones: {:.1} ms; ratio \
             {ratio:.2}, allowed 1.3",
            millis(last),
            millis(first)
        ),
        verdict: if ratio <= 1.3 {
            Verdict::Ok
        } else {
            Verdict::Missed
        },
    }])
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
