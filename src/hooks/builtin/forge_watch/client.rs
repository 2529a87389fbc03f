//! Calls the program of a forge, and says why it gave no answer.
//!
//! # Invariants
//! - A value of a query is a variable of it. A path is made only of checked names and numbers.
//! - Whatever a call prints, its answer is whole or it is an error.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{WatchedPullRequest, forge_error, github, gitlab};
use crate::{
    engine::{
        hooks::verdict::RunEnd,
        time::{TimeSpan, UnixTime},
        watch::forge::{FORGE_PATIENCE, ForgeFailure},
    },
    hooks::{
        builtin::{
            forge::Forge,
            outcome::{named, quoted},
            program::{ProgramCall, ProgramResult, ProgramRunner},
        },
        workspace::HookWorkspace,
    },
    process::{
        output::{FILE_CAP, TailBuffer},
        run::{OutputStream, ProcessGroup, ProcessObserver},
    },
};

/// The wait after a refusal that does not say how long.
const PAUSE: TimeSpan = TimeSpan::secs(60);
/// More answers than any pull request has.
const PAGES: usize = 50;

/// A list in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Nodes<T> {
    pub(super) nodes: Vec<T>,
    page_info: Option<PageInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
}

impl<T> Nodes<T> {
    pub(super) fn is_whole(&self) -> bool {
        let page = self.page_info.as_ref();
        page.is_none_or(|page| !page.has_next_page)
    }
}

/// Puts the nodes of the earlier pages first. False if the list is gone.
fn join(earlier: &Value, page: &mut Value, list: &str) -> bool {
    let place = format!("{list}/nodes");
    let Some(nodes) = earlier.pointer(&place).and_then(Value::as_array) else {
        return true;
    };
    let Some(later) = page.pointer_mut(&place).and_then(Value::as_array_mut) else {
        return false;
    };
    later.splice(0..0, nodes.iter().cloned());
    true
}

/// Where a pull request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hooks::builtin) struct PullRequestAddress {
    pub(super) url: String,
    pub(super) forge: Forge,
    host: String,
    /// `owner/name`, or with more groups.
    pub(super) project: String,
    pub(super) number: u64,
}

impl PullRequestAddress {
    /// The path of the URL says which forge it is, on any host.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let rest = url
            .strip_prefix("https://")
            .or(url.strip_prefix("http://"))?;
        let (host, path) = rest.split_once('/')?;
        let (forge, (project, number)) = match path.split_once("/-/merge_requests/") {
            Some(parts) => (Forge::GitLab, parts),
            None => (Forge::GitHub, path.split_once("/pull/")?),
        };
        let number = number.split(['/', '?', '#']).next()?.parse().ok()?;
        let parts: Vec<&str> = project.split('/').collect();
        let is_name =
            |name: &&str| !matches!(*name, "" | "." | "..") && name.chars().all(is_name_character);
        let fits = parts.len() >= 2 && (forge == Forge::GitLab || parts.len() == 2);
        let host_fits = host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-:".contains(c));
        (fits && parts.iter().all(is_name) && host_fits && !host.starts_with('-')).then(|| Self {
            url: url.to_owned(),
            forge,
            host: host.to_owned(),
            project: project.to_owned(),
            number,
        })
    }

    /// The command that shows a log to a person.
    pub(super) fn log_command(&self, job: u64) -> String {
        match self.forge {
            Forge::GitHub => format!("gh run view --job={job} --log-failed"),
            Forge::GitLab => format!("glab ci trace {job}"),
        }
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// A name that a path can contain. Bots on GitHub end with `[bot]`.
pub(super) fn is_account(name: &str) -> bool {
    let name = name.strip_suffix("[bot]").unwrap_or(name);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_name_character)
}

/// The program of a forge, for one pull request.
pub(in crate::hooks::builtin) struct ForgeClient {
    pub(super) runner: ProgramRunner,
    pub(super) address: PullRequestAddress,
}

impl ForgeClient {
    pub(super) fn new(
        place: &HookWorkspace,
        env: &[(String, String)],
        url: &str,
        cancel: &CancellationToken,
    ) -> Result<Self, ForgeFailure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let call = NEXT.fetch_add(1, Ordering::Relaxed);
        let runner = ProgramRunner {
            cwd: place.cwd.clone(),
            env: env.to_vec(),
            mark: format!("{}/forge-{call}", place.mark),
            cancel: cancel.clone(),
            deadline: Some(Instant::now() + Duration::from(FORGE_PATIENCE)),
        };
        Self::with(runner, url)
    }

    pub(in crate::hooks::builtin) fn with(
        runner: ProgramRunner,
        url: &str,
    ) -> Result<Self, ForgeFailure> {
        let Some(address) = PullRequestAddress::parse(url) else {
            return Err(forge_error(format!(
                "creel watches pull requests of GitHub (`https://HOST/OWNER/NAME/pull/1`) and merge requests of GitLab \
                 (`https://HOST/GROUP/NAME/-/merge_requests/1`), and {} is neither",
                named(url)
            )));
        };
        if !runner.finds(address.forge.program()) {
            return Err(forge_error(address.forge.not_found()));
        }
        Ok(Self { runner, address })
    }

    /// Reads the whole pull request.
    pub(in crate::hooks::builtin) async fn look(&self) -> Result<WatchedPullRequest, ForgeFailure> {
        match self.address.forge {
            Forge::GitHub => github::read(self).await,
            Forge::GitLab => gitlab::read(self).await,
        }
    }

    /// The pull request at this place of the answer, with all pages of its lists: each has a place
    /// and the variable of its cursor. What stands at `fixed` must stay the same from page to page. The
    /// account that asks is a part of it, if the query asks for it.
    pub(super) async fn whole<T: DeserializeOwned>(
        &self,
        query: &str,
        fields: &[String],
        root: &str,
        lists: &[(&'static str, &'static str)],
        fixed: &[&str],
    ) -> Result<T, ForgeFailure> {
        let mut whole: Option<Value> = None;
        let mut cursors = BTreeMap::new();
        for _ in 0..PAGES {
            let mut fields = fields.to_vec();
            let cursor = |(name, at): (&&str, &String)| format!("--raw-field={name}={at}");
            fields.extend(cursors.iter().map(cursor));
            let mut answer = self.graphql(query, &fields).await?;
            let mut page = answer
                .pointer_mut(root)
                .map(Value::take)
                .unwrap_or_default();
            if let (Some(page), Some(user)) = (page.as_object_mut(), answer.get("currentUser")) {
                page.insert("currentUser".to_owned(), user.clone());
            }
            let mut has_more = false;
            for (list, name) in lists {
                let info = page.pointer(&format!("{list}/pageInfo"));
                has_more |= info.is_some_and(|info| info["hasNextPage"] == true);
                if let Some(end) = info.and_then(|info| info["endCursor"].as_str()) {
                    cursors.insert(*name, end.to_owned());
                }
            }
            if let Some(earlier) = whole {
                let is_same = |at: &&str| page.pointer(at) == earlier.pointer(at);
                let is_joined = fixed.iter().all(is_same)
                    && lists
                        .iter()
                        .all(|(list, _)| join(&earlier, &mut page, list));
                if !is_joined {
                    return Err(forge_error(
                        "the pull request changed while creel read it; creel asks again",
                    ));
                }
            }
            if !has_more {
                return T::deserialize(page).map_err(|error| self.strange(&error.to_string()));
            }
            whole = Some(page);
        }
        Err(forge_error(format!(
            "{} has more checks and comments than creel reads: close it and open a new one",
            self.address.url
        )))
    }

    /// The `data` of the answer. The fields are its variables, as options.
    pub(super) async fn graphql(
        &self,
        query: &str,
        fields: &[String],
    ) -> Result<Value, ForgeFailure> {
        let query = format!("--raw-field=query={query}");
        let mut args = vec!["graphql", query.as_str()];
        args.extend(fields.iter().map(String::as_str));
        let body = self.api(&args).await?.map_err(|call| self.why(&call))?;
        let mut answer: Value =
            serde_json::from_str(&body).map_err(|error| self.strange(&error.to_string()))?;
        Ok(answer["data"].take())
    }

    /// An answer without its headers. The inner error is the failed call, for the caller to judge.
    pub(super) async fn api(
        &self,
        args: &[&str],
    ) -> Result<Result<String, ApiFailure>, ForgeFailure> {
        let mut all = vec!["--include"];
        all.extend(args);
        let (ran, bytes) = self.call(&all).await?;
        let output = String::from_utf8_lossy(&bytes).into_owned();
        let (headers, body) = output.split_once("\r\n\r\n").unwrap_or(("", &output));
        Ok(if ran.ok() {
            Ok(body.to_owned())
        } else {
            Err(ApiFailure {
                headers: headers.to_owned(),
                ran,
            })
        })
    }

    /// The log of a job, without terminal sequences. The inner error is why there is none.
    pub(super) async fn log(&self, job: u64) -> Result<Result<String, String>, ForgeFailure> {
        let path = match self.address.forge {
            Forge::GitHub => format!("repos/{}/actions/jobs/{job}/logs", self.address.project),
            Forge::GitLab => {
                let project = self.address.project.replace('/', "%2F");
                format!("projects/{project}/jobs/{job}/trace")
            }
        };
        let (ran, bytes) = self.call(&[&path]).await?;
        if ran.ok() {
            return Ok(Ok(super::check_log::plain(&String::from_utf8_lossy(
                &bytes,
            ))));
        }
        let failure = ApiFailure {
            headers: String::new(),
            ran,
        };
        if failure.is_passing() {
            return Err(self.why(&failure));
        }
        Ok(Err(failure.ran.complaint()))
    }

    async fn call(&self, args: &[&str]) -> Result<(ProgramResult, Vec<u8>), ForgeFailure> {
        let host = format!("--hostname={}", self.address.host);
        let mut all = vec!["api", host.as_str()];
        all.extend(args);
        let mut answer = ForgeOutput {
            bytes: TailBuffer::new(usize::try_from(FILE_CAP).unwrap_or(usize::MAX)),
        };
        let call = ProgramCall::new(self.address.forge.program(), &all);
        let ran = self.runner.run(&call, Some(&mut answer)).await;
        let ran = ran.map_err(|error| match error.end {
            RunEnd::TimedOut => self.unreachable("it did not answer in time"),
            RunEnd::Cut => forge_error("creel was asked to stop"),
            RunEnd::SpawnFailed(_) => forge_error(self.address.forge.not_found()),
            RunEnd::Exit(_) | RunEnd::Signal(_) => forge_error(error.message),
        })?;
        Ok((ran, answer.bytes.bytes()))
    }

    fn unreachable(&self, why: &str) -> ForgeFailure {
        forge_error(format!(
            "{} cannot be reached ({why}): check your connection; creel asks again",
            self.address.host
        ))
    }

    /// The answer makes no sense.
    pub(super) fn strange(&self, why: &str) -> ForgeFailure {
        forge_error(format!(
            "creel does not understand what {} says about {} ({why}): update `{}`",
            self.address.host,
            self.address.url,
            self.address.forge.program()
        ))
    }

    /// Why a call failed, and what to do.
    pub(super) fn why(&self, failure: &ApiFailure) -> ForgeFailure {
        let (program, host) = (self.address.forge.program(), &self.address.host);
        let complaint = failure.ran.complaint();
        if failure.is_limited() {
            return ForgeFailure {
                reason: format!(
                    "the rate limit of {host} is reached ({complaint}): creel waits until it is reset"
                ),
                until: Some(failure.until(now())),
            };
        }
        if failure.is_logged_out() {
            return forge_error(format!(
                "`{program}` is not logged in to {host} ({complaint}): log in with `{program} auth login --hostname={}`",
                quoted(host)
            ));
        }
        if failure.is_passing() {
            return self.unreachable(&complaint);
        }
        if failure.says(&["could not resolve to", "http 404", "not found"]) {
            return forge_error(format!(
                "{} does not exist, or your login at {host} may not see it ({complaint}): check the address",
                self.address.url
            ));
        }
        if failure.says(&["unknown flag", "unknown command"]) {
            return forge_error(format!(
                "this `{program}` is too old ({complaint}): update it"
            ));
        }
        forge_error(format!(
            "`{program} api` failed (exit {}): {complaint}; try `{program} api --hostname={} user`",
            failure.ran.code,
            quoted(host)
        ))
    }
}

fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime::default().after(since.unwrap_or_default().into())
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct ApiFailure {
    headers: String,
    ran: ProgramResult,
}

impl ApiFailure {
    fn says(&self, words: &[&str]) -> bool {
        let complaint = self.ran.stderr.to_lowercase();
        words.iter().any(|word| complaint.contains(word))
    }

    fn header(&self, name: &str) -> Option<i64> {
        let mut lines = self.headers.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
        value.trim().parse().ok()
    }

    fn is_limited(&self) -> bool {
        let spent = self.header("X-RateLimit-Remaining") == Some(0)
            && self.says(&["http 403", "http 429", "rate limit"]);
        spent || self.says(&["rate limit", "http 429", "too many requests"])
    }

    fn is_logged_out(&self) -> bool {
        self.ran.code == 4
            || self.says(&["auth login", "http 401", "requires you to be authenticated"])
    }

    /// Whether the same call can succeed later, without a change of the pull request.
    pub(super) fn is_passing(&self) -> bool {
        let gone = [
            "error connecting",
            "connection re",
            "no such host",
            "timeout",
            "deadline exceeded",
            "unreachable",
            "network is",
            "tls",
            "eof",
            "http 500",
            "http 502",
            "http 503",
            "http 504",
        ];
        self.is_limited() || self.is_logged_out() || self.says(&gone)
    }

    fn until(&self, now: UnixTime) -> UnixTime {
        let reset = self
            .header("X-RateLimit-Reset")
            .or(self.header("RateLimit-Reset"))
            .filter(|_| !self.says(&["secondary"]));
        match (self.header("Retry-After"), reset) {
            (Some(seconds), _) => UnixTime(now.0.saturating_add(seconds.saturating_mul(1000))),
            (None, Some(at)) if at.saturating_mul(1000) > now.0 => {
                UnixTime(at.saturating_mul(1000))
            }
            (None, Some(_) | None) => now.after(PAUSE),
        }
    }
}

/// Keeps the end of what a program prints to standard output.
struct ForgeOutput {
    bytes: TailBuffer,
}

impl ProcessObserver for ForgeOutput {
    fn started(&mut self, _group: ProcessGroup) {}

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        if stream == OutputStream::Stdout {
            self.bytes.push(bytes);
        }
    }
}

#[cfg(test)]
impl ApiFailure {
    pub(super) fn of(headers: &str, stderr: &str) -> Self {
        let ran = ProgramResult {
            code: 1,
            stderr: stderr.to_owned(),
            ..ProgramResult::default()
        };
        Self {
            headers: headers.to_owned(),
            ran,
        }
    }

    pub(super) fn ends(&self, now: UnixTime) -> Option<UnixTime> {
        self.is_limited().then(|| self.until(now))
    }
}
