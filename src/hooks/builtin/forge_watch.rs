//! Reads what a forge says about a pull request, and answers its comments.
//!
//! Owns what is news and what its text says. The questions to each forge are in [`github`] and
//! [`gitlab`], the calls in [`client`], logs in [`check_log`], pushes of others in [`taken_over`].
//! Does not decide what follows from a reading.
//!
//! # Invariants
//! - A reading is complete or it is an error: nothing that the forge has is missing in silence.
//! - Nothing that a forge says becomes a part of a command, a query or a path.
//! - An answer has a mark with the id of what it answers, so posting it again changes nothing, and
//!   comments of creel never become news.

mod check_log;
mod client;
mod github;
mod gitlab;
mod taken_over;

use tokio_util::sync::CancellationToken;

use super::{
    branch_status,
    forge::Forge,
    outcome::{BuiltinError, named, quoted, short, visible},
};
use crate::{
    engine::watch::forge::{
        CheckState, ForgeAnswer, ForgeCheck, ForgeFailure, ForgeNews, ForgeReading, ForgeRequest,
        Mergeable, NewsOrigin, NewsSource, PullRequestState,
    },
    hooks::workspace::HookWorkspace,
    process::output::limited,
    text::plain_text,
};
pub(super) use client::ForgeClient;

/// All authors may speak to the agent.
const EVERYONE: &str = "*";
/// The accounts that may push to the repository may speak to the agent.
const COLLABORATORS: &str = "collaborators";
/// The last line of creel's own comments begins with this.
const MARK: &str = "<!-- creel: ";

/// A pull request, in the words of no forge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WatchedPullRequest {
    /// The forge's own id of it.
    id: String,
    /// Without news.
    pub(super) reading: ForgeReading,
    branch: String,
    /// The commit of the base branch.
    base_commit: String,
    /// Its branch is in another repository.
    is_foreign: bool,
    /// In the order of the reading's checks.
    pub(super) runs: Vec<ForgeCheckRun>,
    comments: Vec<ForgeComment>,
}

/// What the forge says about the run of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ForgeCheckRun {
    id: String,
    pub(super) link: String,
    /// What the forge or the check says about it in a few words.
    summary: String,
    /// The number of the job whose log the forge has.
    job: Option<u64>,
}

/// A comment or a review.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ForgeComment {
    id: String,
    origin: NewsOrigin,
    /// None: the account is gone.
    author: Option<String>,
    /// The account that creel uses wrote it: creel, or you.
    is_own: bool,
    /// If the forge says so with the comment.
    may_push: Option<bool>,
    /// Neither resolved, hidden nor withdrawn.
    is_open: bool,
    body: String,
    /// What the author did, for a sentence: "requests changes".
    deed: &'static str,
    /// The first author of the thread, if it was another one.
    begun_by: Option<String>,
    path: Option<String>,
    line: Option<u32>,
    thread: Option<String>,
    link: String,
}

/// Looks at a pull request once. May move the branch forward to commits of others.
pub async fn read_pull_request(
    place: &HookWorkspace,
    env: &[(String, String)],
    request: &ForgeRequest,
    cancel: &CancellationToken,
) -> Result<ForgeReading, ForgeFailure> {
    let client = ForgeClient::new(place, env, &request.pull_request, cancel)?;
    let pull = client.look().await?;
    let mut reading = pull.reading.clone();
    if reading.state != PullRequestState::Open {
        return Ok(reading);
    }
    let remote = own_branch(&client, &pull, request.remote.as_deref()).await?;
    let look = Look {
        client: &client,
        place,
        request,
        pull: &pull,
        remote: &remote,
    };
    let mut news = look.failed_checks().await?;
    news.extend(look.comments().await?);
    if reading.mergeable == Mergeable::Conflict {
        news.insert(0, look.conflict());
    }
    // Last, because these can change the folder.
    if let Some(commits) = taken_over::commits_of_others(&look).await? {
        news.insert(0, commits);
    }
    let own = taken_over::own_commits(&look).await?;
    (reading.to_verify, reading.unpushed) = (own.to_verify, own.unpushed);
    if look.lacks_only_the_base() && reading.to_verify.is_none() {
        news.push(look.behind());
    }
    reading.news = news;
    Ok(reading)
}

/// Posts an answer, unless the forge has it, or no longer has what it answers.
pub async fn answer_news(
    place: &HookWorkspace,
    env: &[(String, String)],
    answer: &ForgeAnswer,
    cancel: &CancellationToken,
) -> Result<(), ForgeFailure> {
    let client = ForgeClient::new(place, env, &answer.pull_request, cancel)?;
    let pull = client.look().await?;
    let mark = mark_of(&answer.source.id);
    let has = |is: &dyn Fn(&ForgeComment) -> bool| pull.comments.iter().any(is);
    let is_answered = has(&|comment| comment.is_own && last_line(&comment.body) == mark);
    // A comment that was deleted needs no answer.
    if is_answered || !has(&|comment| comment.id == answer.source.id) {
        return Ok(());
    }
    let body = format!("{}\n\n{mark}", inert(&answer.text));
    let thread = answer.source.thread.as_deref();
    match client.address.forge {
        Forge::GitHub => github::comment(&client, &pull.id, thread, &body).await,
        Forge::GitLab => gitlab::comment(&client, &pull.id, thread, &body).await,
    }
}

fn mark_of(id: &str) -> String {
    format!("{MARK}{} -->", id.replace('>', "_"))
}

fn last_line(body: &str) -> &str {
    body.trim_end().lines().next_back().unwrap_or_default()
}

/// Forges and bots take a line that begins with a slash as a command.
pub(super) fn inert(text: &str) -> String {
    let lines = text.lines().map(|line| match line.trim_start() {
        rest if rest.starts_with('/') => line.replacen('/', "&#47;", 1),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n").replace('\0', "")
}

pub(super) fn forge_error(reason: impl Into<String>) -> ForgeFailure {
    ForgeFailure {
        reason: reason.into(),
        until: None,
    }
}

/// An error of git as one of the forge.
fn of_git(error: BuiltinError) -> ForgeFailure {
    forge_error(error.message)
}

/// Fails unless this folder has the pull request's branch. Returns the remote.
async fn own_branch(
    client: &ForgeClient,
    pull: &WatchedPullRequest,
    remote: Option<&str>,
) -> Result<String, ForgeFailure> {
    let url = &client.address.url;
    if pull.is_foreign {
        return Err(forge_error(format!(
            "the branch of {url} is in another repository, and creel pushes only to its own: watch it in a clone of that one"
        )));
    }
    let here = client.runner.branch().await.map_err(of_git)?;
    if here.as_ref() != Some(&pull.branch) {
        let place = here.map_or("no branch is".to_owned(), |here| {
            format!("{} is", named(&here))
        });
        return Err(forge_error(format!(
            "{url} is about the branch {}, but {place} checked out here: `git switch {}`",
            named(&pull.branch),
            quoted(&pull.branch)
        )));
    }
    let remote = branch_status::remote(&client.runner, remote)
        .await
        .map_err(of_git)?;
    remote.ok_or_else(|| forge_error("the repository has no remote: `git remote add origin URL`"))
}

/// One look at an open pull request.
struct Look<'a> {
    client: &'a ForgeClient,
    place: &'a HookWorkspace,
    request: &'a ForgeRequest,
    pull: &'a WatchedPullRequest,
    remote: &'a str,
}

impl Look<'_> {
    fn knows(&self, id: &str) -> bool {
        self.request.known.iter().any(|known| known == id)
    }

    async fn failed_checks(&self) -> Result<Vec<ForgeNews>, ForgeFailure> {
        let reading = &self.pull.reading;
        let counted: Vec<&ForgeCheck> = reading.counted_checks().collect();
        let mut news = Vec::new();
        for (check, run) in reading.checks.iter().zip(&self.pull.runs) {
            let counts = counted.iter().any(|counted| std::ptr::eq(*counted, check));
            if check.result != CheckState::Failed || !counts {
                continue;
            }
            let source = NewsSource {
                title: check.name.clone(),
                ..source(NewsOrigin::Check, format!("{}/{}", check.name, run.id))
            };
            let text = if self.knows(&source.id) {
                String::new()
            } else {
                self.failed_check(check, run).await?
            };
            news.push(ForgeNews {
                source,
                text,
                trusted: true,
            });
        }
        Ok(news)
    }

    async fn failed_check(
        &self,
        check: &ForgeCheck,
        run: &ForgeCheckRun,
    ) -> Result<String, ForgeFailure> {
        let about = format!(
            "Commit {} of {}. The run: {}",
            short(&self.pull.reading.head),
            self.client.address.url,
            visible(&run.link)
        );
        let (name, summary) = (named(&check.name), plain_text(&run.summary));
        let first = summary.lines().find(|line| !line.trim().is_empty());
        let short_text = |note: &str| {
            let text = format!(
                "{name} failed: {}\n\n{about}\n{note}\n{}",
                first.unwrap_or("it says no more").trim(),
                summary.trim()
            );
            limited(text, self.request.output_limit, None)
        };
        let Some(job) = run.job else {
            return Ok(short_text("The forge has no log of it.\n"));
        };
        Ok(match self.client.log(job).await? {
            Ok(log) => {
                let limit = self.request.output_limit;
                let written = check_log::write(self.place, job, &log);
                check_log::text(&format!("{name} failed"), &about, &log, &written, limit)
            }
            Err(why) => short_text(&format!(
                "creel could not read its log ({}): try `{}`.\n",
                visible(&why),
                self.client.address.log_command(job)
            )),
        })
    }

    async fn comments(&self) -> Result<Vec<ForgeNews>, ForgeFailure> {
        let open = self.pull.comments.iter().filter(|comment| comment.is_open);
        let mut authors: Vec<(&str, bool)> = Vec::new();
        let mut news = Vec::new();
        for comment in open.filter(|comment| !comment.is_of_creel()) {
            let author = comment.author.as_deref().unwrap_or_default();
            let asked = authors.iter().find(|(known, _)| *known == author);
            let trusted = match self.is_named(author).or(asked.map(|(_, trusted)| *trusted)) {
                Some(trusted) => trusted,
                None if self.knows(&comment.id) => false,
                None => {
                    let may_push = match comment.may_push {
                        Some(may_push) => may_push,
                        None => github::may_push(self.client, author).await?,
                    };
                    authors.push((author, may_push));
                    may_push
                }
            };
            let source = NewsSource {
                author: comment.author.clone(),
                path: comment.path.clone(),
                line: comment.line,
                thread: comment.thread.clone(),
                ..source(comment.origin, comment.id.clone())
            };
            news.push(ForgeNews {
                source,
                text: limited(comment.text(), self.request.output_limit, None),
                trusted,
            });
        }
        Ok(news)
    }

    /// Whether the config alone decides about an author.
    fn is_named(&self, author: &str) -> Option<bool> {
        let reviewers = &self.request.reviewers;
        let is = |name: &str| reviewers.iter().any(|reviewer| reviewer == name);
        let same = |name: &String| name.trim_start_matches('@').eq_ignore_ascii_case(author);
        if is(EVERYONE) {
            Some(true)
        } else if author.is_empty() {
            Some(false)
        } else if reviewers.iter().any(same) && author != COLLABORATORS {
            Some(true)
        } else if is(COLLABORATORS) {
            None
        } else {
            Some(false)
        }
    }

    /// The newest base is all that the merge lacks: the forge merges only what contains it.
    fn lacks_only_the_base(&self) -> bool {
        let reading = &self.pull.reading;
        reading.mergeable == Mergeable::Behind
            && reading.is_green()
            && reading.is_approved()
            && !reading.is_draft
    }

    /// For the agent, if creel could not merge it.
    fn behind(&self) -> ForgeNews {
        let reading = &self.pull.reading;
        let (branch, base) = (named(&self.pull.branch), named(&reading.base));
        let (to, remote) = (quoted(&reading.base), quoted(self.remote));
        ForgeNews {
            source: source(
                NewsOrigin::Conflict,
                format!("behind/{}/{}", self.pull.base_commit, reading.head),
            ),
            text: format!(
                "{} can be merged as soon as the branch {branch} contains the newest {base}, and creel could not merge that.\n\
                 1. Get it: `git fetch {remote} {to}`.\n\
                 2. Merge it: `git merge --no-edit FETCH_HEAD`. Do not rebase: reviews stay with commits.\n\
                 3. Build and test, and repair what does not fit together.\n\
                 Do not push, and do not drop commits.",
                self.client.address.url
            ),
            trusted: true,
        }
    }

    fn conflict(&self) -> ForgeNews {
        let reading = &self.pull.reading;
        let (branch, base) = (named(&self.pull.branch), named(&reading.base));
        let (to, remote) = (quoted(&reading.base), quoted(self.remote));
        let text = format!(
            "The branch {branch} conflicts with {base}, so {} cannot be merged.\n\
             1. Get the newest state: `git fetch {remote} {to}`.\n\
             2. Merge it: `git merge FETCH_HEAD`. Do not rebase: reviews stay with commits.\n\
             3. Resolve the conflicts, keeping what both sides meant, with `git add -- FILE`, then `git commit --no-edit`.\n\
             4. Build and test, and see with `git status` that no merge is in progress.\n\
             Do not push, and do not drop commits.",
            self.client.address.url
        );
        let id = format!("conflict/{}/{}", self.pull.base_commit, reading.head);
        ForgeNews {
            source: source(NewsOrigin::Conflict, id),
            text,
            trusted: true,
        }
    }
}

fn source(origin: NewsOrigin, id: String) -> NewsSource {
    NewsSource {
        origin,
        id,
        title: String::new(),
        author: None,
        path: None,
        line: None,
        thread: None,
    }
}

impl ForgeComment {
    fn is_of_creel(&self) -> bool {
        self.is_own && last_line(&self.body).starts_with(MARK)
    }

    /// The author, the place and the words, which are quoted.
    fn text(&self) -> String {
        let name = |name: &Option<String>| {
            name.as_ref()
                .map_or("a deleted account".to_owned(), |name| {
                    format!("@{}", visible(name))
                })
        };
        let place = self.path.as_ref().map_or_else(String::new, |path| {
            let line = self
                .line
                .map_or_else(String::new, |line| format!(":{line}"));
            format!(" on {}", named(&format!("{path}{line}")))
        });
        let thread = match &self.begun_by {
            Some(_) => format!(" in the thread of {}", name(&self.begun_by)),
            None => String::new(),
        };
        let words = plain_text(self.body.trim());
        let words: String = words.lines().map(|line| format!("\n> {line}")).collect();
        format!(
            "{} {}{place}{thread} ({}){}\n{words}",
            name(&self.author),
            self.deed,
            visible(&self.link),
            if words.is_empty() { "." } else { ":" },
        )
    }
}

#[cfg(test)]
mod tests;
