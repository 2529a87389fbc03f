//! `create_pr`: pushes the branch and opens a pull request.
//!
//! # Invariants
//! - A branch has one pull request: an existing one is updated, not duplicated.
//! - Text that people wrote into a pull request stays: only the part between creel's two marks is
//!   replaced.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use super::{
    branch_status::{BranchStatus, SubmitObstacle, commit_prompt},
    forge::{self, Forge, ForgeLookup, PullRequest, SubmittedState},
    forge_watch::inert,
    job::BuiltinRun,
    outcome::{BuiltinError, BuiltinSuccess, named, title_line},
    program::{ProgramCall, ProgramRunner},
    push, rebase,
};
use crate::{
    engine::{effect::SubmissionFacts, hooks::template},
    process::{for_variable, output::create},
    report::{MarkdownPart, Report, markdown},
    text::counted,
};

/// The text between these lines is creel's.
const MARKS: (&str, &str) = ("<!-- creel: begin -->", "<!-- creel: end -->");
/// The longest body in bytes. Forges refuse longer ones.
const BODY: usize = 60_000;
/// A report in less room than this says nothing, in bytes.
const REPORT: usize = 2_000;

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    let status = BranchStatus::of(worker).await?;
    let Some(remote) = status.remote.clone() else {
        return Err(BuiltinError::failed(
            "the repository has no remote to push to: add one with `git remote add origin URL`, or list `before_submit` \
             hooks without `create_pr` in the config",
        ));
    };
    let base = status.fetch_base(worker).await?;
    let changes = worker.runner.changes().await?;
    let commits = worker.runner.ahead(&base, &status.head).await?;
    let nothing = format!(
        "{} has no commits that {} does not have",
        named(&status.branch),
        named(&status.base_name())
    );
    if commits == 0 && changes.is_empty() {
        let why = format!("nothing to submit: {nothing}, and nothing is uncommitted");
        return Ok(BuiltinSuccess {
            pull_request: worker.submission.watched.clone(),
            ..BuiltinSuccess::skip(why)
        });
    }
    status.on_its_own_branch(&worker.call.job.facts.session)?;
    status.as_reviewed(worker.submission)?;
    status
        .is_whole(&worker.runner, &changes, worker.submission)
        .await?;
    if commits == 0 {
        let halt = BuiltinError::failed(format!(
            "{nothing}, but there are uncommitted changes: commit them"
        ));
        return Err(halt.repaired_by(commit_prompt(&status.branch, &changes)));
    }
    let text = PullRequestText::of(&worker.runner, worker.submission, &status, &base).await?;
    let text = text.with_report(worker.call.place.journal.clone()).await;
    let work = format!("{}{}", counted(commits, "commit"), changes.left_out());
    let done = match worker
        .submission
        .pr_command
        .clone()
        .filter(|line| !line.trim().is_empty())
    {
        Some(line) => by_command(worker, &status, &remote, &text, &line).await?,
        None => by_forge(worker, &status, &remote, &text).await?,
    };
    Ok(if done.skipped {
        done
    } else {
        BuiltinSuccess {
            message: format!("{}; {work}", done.message),
            read: Some(status.head),
            ..done
        }
    })
}

async fn by_forge(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    remote: &str,
    text: &PullRequestText,
) -> Result<BuiltinSuccess, BuiltinError> {
    let url = worker.runner.url_of(status).await?;
    let candidates = Forge::candidates(&url);
    if let Some(forge) = candidates.first()
        && !candidates
            .iter()
            .any(|forge| worker.runner.finds(forge.program()))
    {
        return Err(BuiltinError::failed(format!(
            "{}, or set `pr_command` to the command of another forge",
            forge.not_found()
        )));
    }
    // Check before anything is pushed, so that a missing login is reported first.
    let (forge, there) = existing(&worker.runner, status, remote).await?;
    let open = there.as_ref();
    let open = open.filter(|pull| pull.state == SubmittedState::Open);
    if let Some(url) = &worker.submission.watched
        && open.is_none_or(|pull| pull.url != *url)
    {
        return not_watched(&worker.runner, forge, url, &status.branch).await;
    }
    if let Some(pull) = there
        .as_ref()
        .filter(|pull| pull.state == SubmittedState::Merged)
    {
        let done = BuiltinSuccess::skip(format!("{} is already merged", pull.url));
        return Ok(BuiltinSuccess {
            pull_request: Some(pull.url.clone()),
            read: (pull.head == status.head).then(|| pull.head.clone()),
            ..done
        });
    }
    let pushed = push::push(worker, status, remote).await?;
    if let Some(pull) = there.filter(|pull| pull.state == SubmittedState::Open) {
        return update(worker, text, &pull, &pushed).await;
    }
    let ran = worker
        .show(&create_call(worker, forge, status, text)?)
        .await?;
    if ran.ok() {
        let url = forge::address(&ran.stdout);
        let shown = url.clone().unwrap_or_else(|| {
            format!(
                "a pull request, but `{}` did not report its address",
                forge.program()
            )
        });
        return Ok(BuiltinSuccess {
            pull_request: url,
            ..BuiltinSuccess::success(format!("{pushed}; opened {shown}"))
        });
    }
    // Another process can have created one in the meantime.
    match existing(&worker.runner, status, remote).await?.1 {
        Some(pull) if pull.state == SubmittedState::Open => {
            update(worker, text, &pull, &pushed).await
        }
        Some(_) | None => Err(forge.error("create", &ran).and(&pushed)),
    }
}

/// What is checked out is not the branch of the watched pull request, or that is not open any more.
async fn not_watched(
    runner: &ProgramRunner,
    forge: Forge,
    url: &str,
    branch: &str,
) -> Result<BuiltinSuccess, BuiltinError> {
    let watched = runner.view(forge, forge::number(url)).await?;
    if watched.state == SubmittedState::Open {
        let branch = named(branch);
        let message = format!(
            "{url} is open, but {branch}, which is another branch, is checked out here: creel pushed nothing"
        );
        return Err(BuiltinError::failed(message).repaired_by(format!(
            "The work has to be on the branch of the pull request {url}, but {branch} is checked out.\n\
             1. Commit what belongs to the task.\n\
             2. Switch to the branch of the pull request, and bring the commits of the task there \
             (`git merge {branch}`).\n\
             Do not push, and do not drop commits."
        )));
    }
    let why = format!("{url} is not open any more, so creel pushed nothing");
    Ok(BuiltinSuccess {
        pull_request: Some(url.to_owned()),
        ..BuiltinSuccess::skip(why)
    })
}

fn create_call(
    worker: &BuiltinRun<'_>,
    forge: Forge,
    status: &BranchStatus,
    text: &PullRequestText,
) -> Result<ProgramCall, BuiltinError> {
    let title = format!("--title={}", text.title);
    let (to, from) = (&status.base, &status.branch);
    Ok(match forge {
        Forge::GitHub => {
            let file = format!("--body-file={}", write(worker, &text.marked())?.display());
            let (to, from) = (format!("--base={to}"), format!("--head={from}"));
            forge.call("create", &[&title, &file, &to, &from])
        }
        Forge::GitLab => {
            let body = format!("--description={}", inert(&text.marked()));
            let (to, from) = (
                format!("--target-branch={to}"),
                format!("--source-branch={from}"),
            );
            forge.call("create", &[&title, &body, &to, &from, "--yes"])
        }
    })
}

async fn existing(
    runner: &ProgramRunner,
    status: &BranchStatus,
    remote: &str,
) -> Result<(Forge, Option<Box<PullRequest>>), BuiltinError> {
    match runner.pull_request(status).await? {
        ForgeLookup::Known(forge, pull) => Ok((forge, pull)),
        ForgeLookup::Failed(forge, ran) => Err(forge.error("list", &ran)),
        ForgeLookup::NoForge => Err(BuiltinError::failed(format!(
            "{} is not on a forge that `gh` or `glab` knows: log in there, set `pr_command` to the command of its forge, or \
             remove `create_pr` from the config",
            named(remote)
        ))),
    }
}

/// Whether it can be the number or the address of a pull request.
fn is_a_reference(wanted: &str) -> bool {
    let number = wanted.trim_end_matches('/').rsplit('/').next();
    let number = number.unwrap_or_default().trim_start_matches(['#', '!']);
    number.parse::<u64>().is_ok_and(|number| number > 0)
}

/// The address of a pull request, given by its number or its address, if it is the open one of the
/// branch that is checked out here.
pub async fn pull_request_here(folder: &Path, wanted: &str) -> Result<String, SubmitObstacle> {
    let runner = rebase::runner_in(folder);
    let obstacle = |error: BuiltinError| SubmitObstacle(error.message);
    let status = BranchStatus::silently(&runner, &SubmissionFacts::default())
        .await
        .map_err(obstacle)?;
    let remote = status.remote.clone().unwrap_or_default();
    let (forge, found) = existing(&runner, &status, &remote)
        .await
        .map_err(obstacle)?;
    let is_open = |pull: &PullRequest| pull.state == SubmittedState::Open;
    let is_it = |pull: &PullRequest| {
        let number = wanted.trim_start_matches(['#', '!']);
        pull.number.to_string() == number || pull.url == wanted.trim_end_matches('/')
    };
    let branch = named(&status.branch);
    match found.filter(|pull| is_open(pull)) {
        Some(pull) if is_it(&pull) => Ok(pull.url),
        Some(pull) => Err(SubmitObstacle(format!(
            "the branch here, {branch}, has the pull request {}, not {}: switch to the branch of that one",
            pull.url,
            named(wanted)
        ))),
        None if !is_a_reference(wanted) => Err(SubmitObstacle(format!(
            "{} is not the number or the address of a pull request on {}",
            named(wanted),
            forge.name()
        ))),
        None => Err(SubmitObstacle(format!(
            "the branch here, {branch}, has no open pull request on {}: {} is closed, merged, or on another branch",
            forge.name(),
            named(wanted)
        ))),
    }
}

async fn update(
    worker: &mut BuiltinRun<'_>,
    text: &PullRequestText,
    pull: &PullRequest,
    pushed: &str,
) -> Result<BuiltinSuccess, BuiltinError> {
    let number = pull.number.to_string();
    let ours = match pull.forge {
        Forge::GitHub => text.marked(),
        Forge::GitLab => inert(&text.marked()),
    };
    let body = replaced(&pull.body, &ours);
    if body != pull.body {
        let (verb, option) = match pull.forge {
            Forge::GitHub => (
                "edit",
                format!("--body-file={}", write(worker, &body)?.display()),
            ),
            Forge::GitLab => ("update", format!("--description={body}")),
        };
        let ran = worker
            .show(&pull.forge.call(verb, &[&number, &option]))
            .await?;
        if !ran.ok() {
            return Err(pull
                .forge
                .error(verb, &ran)
                .and(&format!("{pushed}; the pull request is {}", pull.url)));
        }
    }
    let done = BuiltinSuccess::success(format!("{pushed}; {} is up to date", pull.url));
    Ok(BuiltinSuccess {
        pull_request: Some(pull.url.clone()),
        ..done
    })
}

/// Runs the user's own command. It gets everything in variables and prints the URL.
async fn by_command(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    remote: &str,
    text: &PullRequestText,
    line: &str,
) -> Result<BuiltinSuccess, BuiltinError> {
    let expanded = template::expand(line)
        .map_err(|error| BuiltinError::failed(format!("`pr_command`: {error}")))?;
    let pushed = push::push(worker, status, remote).await?;
    let file = write(worker, &text.body)?;
    let values = [
        ("title", text.title.as_str()),
        ("body", &text.body),
        ("body_file", &file.to_string_lossy()),
        ("base", &status.base),
        ("branch", &status.branch),
        ("remote", remote),
        ("commit", &status.head),
    ];
    let env = values.map(|(name, value)| (template::variable(name), for_variable(value)));
    let ran = worker.show_line(&expanded, env.to_vec()).await?;
    if !ran.ok() {
        return Err(BuiltinError::failed(format!(
            "`pr_command` failed (exit {}): {}; {pushed}",
            ran.code,
            ran.complaint()
        )));
    }
    let url = forge::address(&ran.stdout);
    let shown = url
        .as_deref()
        .map_or_else(String::new, |url| format!(": {url}"));
    Ok(BuiltinSuccess {
        pull_request: url.clone(),
        ..BuiltinSuccess::success(format!("{pushed}; `pr_command` succeeded{shown}"))
    })
}

struct PullRequestText {
    title: String,
    body: String,
}

impl PullRequestText {
    /// The given text, otherwise one from the task and the commits.
    async fn of(
        runner: &ProgramRunner,
        submission: &SubmissionFacts,
        status: &BranchStatus,
        base: &str,
    ) -> Result<Self, BuiltinError> {
        let subjects = runner
            .git_says(&[
                "log",
                "--format=%s",
                "--reverse",
                &format!("{base}..{}", status.head),
                "--",
            ])
            .await?;
        let task = submission
            .task
            .as_ref()
            .map_or("", |task| task.content.as_str());
        let titles = [
            submission.title.as_str(),
            task,
            subjects.lines().last().unwrap_or_default(),
            &status.branch,
        ];
        let title = titles
            .map(title_line)
            .into_iter()
            .find(|title| !title.is_empty())
            .unwrap_or_default();
        let list = || {
            subjects
                .lines()
                .map(|subject| format!("- {subject}\n"))
                .collect::<String>()
        };
        let given = submission.body.trim();
        let mut body = if given.is_empty() {
            list().trim_end().to_owned()
        } else {
            given.to_owned()
        };
        if !submission.reviews.is_empty() {
            body.push_str(&format!(
                "\n\n## Reviews\n\n{}",
                submission.reviews.join("\n\n")
            ));
        }
        Ok(Self {
            title,
            body: limited(body),
        })
    }

    /// Appends the report of the session, as far as it fits. A session without a turn has none.
    async fn with_report(mut self, journal: PathBuf) -> Self {
        let read = tokio::task::spawn_blocking(move || Report::read(&journal)).await;
        let room = BODY.saturating_sub(self.body.len());
        if let Ok(Ok(report)) = read
            && room >= REPORT
            && report.stages.iter().any(|stage| !stage.turns.is_empty())
        {
            const HEAD: &str = "\n\n## Report of creel\n\n";
            let text = markdown(&report, MarkdownPart::PullRequest, room - HEAD.len());
            if HEAD.len() + text.len() <= room {
                self.body = format!("{}{HEAD}{text}", self.body.trim_end());
            }
        }
        self
    }

    fn marked(&self) -> String {
        format!("{}\n{}\n{}", MARKS.0, self.body, MARKS.1)
    }
}

/// Writes the body to a file of the session, readable by the owner only.
fn write(worker: &BuiltinRun<'_>, body: &str) -> Result<PathBuf, BuiltinError> {
    let (job, place) = (worker.call.job, worker.call.place);
    let path = place
        .session_dir
        .join(format!("outputs/run-{}.pull-request.md", job.run));
    let written = create(&path).and_then(|mut file| file.write_all(body.as_bytes()));
    written.map_err(|error| {
        BuiltinError::failed(format!("cannot write {}: {error}", path.display()))
    })?;
    Ok(path)
}

fn limited(mut body: String) -> String {
    if body.len() > BODY {
        body.truncate(body.floor_char_boundary(BODY));
        body.push_str("\n\n[… the rest is omitted: it is too long for a pull request …]");
    }
    body
}

/// Replaces creel's part of a text, or appends it.
fn replaced(text: &str, ours: &str) -> String {
    let begin = text.find(MARKS.0);
    let end = text.rfind(MARKS.1).map(|at| at + MARKS.1.len());
    match (begin, end) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}{ours}{}", &text[..begin], &text[end..])
        }
        _ if text.trim().is_empty() => ours.to_owned(),
        _ => format!("{}\n\n{ours}", text.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_text_stays() {
        let ours = |text: &str| format!("{}\n{text}\n{}", MARKS.0, MARKS.1);
        let before = format!("Please look.\n\n{}\n\nThanks!", ours("old"));
        assert_eq!(
            replaced(&before, &ours("new")),
            format!("Please look.\n\n{}\n\nThanks!", ours("new"))
        );
        assert_eq!(
            replaced("theirs\n", &ours("new")),
            format!("theirs\n\n{}", ours("new"))
        );
        assert_eq!(replaced(" ", &ours("new")), ours("new"));
    }

    #[test]
    fn a_text_that_holds_our_marks_is_replaced_as_a_whole() {
        let ours = |text: &str| format!("{}\n{text}\n{}", MARKS.0, MARKS.1);
        assert_eq!(
            replaced(&ours(&format!("a {} b", MARKS.1)), &ours("new")),
            ours("new")
        );
    }
}
