//! The fakes of `gh` and `glab`: they show and change the pull request in a folder.
//!
//! ```text
//! forge-cli gh|glab FOLDER ARGUMENTS…
//! ```
//!
//! They know the calls that creel makes and answer as the real programs do: their streams, their
//! exit codes, and the shapes of both APIs. Any other call is an error that names it. Each call is
//! a line of `FOLDER/calls`. What a test can set up is in `tests/it/support/forge.rs`.

mod github;
mod gitlab;
mod rules;
mod world;

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};
use world::{Trouble, World};

/// How a call ends.
struct Reply {
    out: String,
    err: String,
    code: u8,
}

impl Reply {
    fn ok(out: impl Into<String>) -> Self {
        Self {
            out: out.into(),
            err: String::new(),
            code: 0,
        }
    }

    fn failed(err: impl Into<String>) -> Self {
        Self {
            out: String::new(),
            err: err.into(),
            code: 1,
        }
    }

    fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

/// The arguments of a call.
struct Call {
    words: Vec<String>,
    /// `--name=value`; `true` without a value.
    options: BTreeMap<String, String>,
    /// The fields of `api`.
    fields: BTreeMap<String, String>,
}

impl Call {
    fn parse(args: &[String]) -> Self {
        let (mut words, mut options, mut fields) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for arg in args {
            let Some(option) = arg.strip_prefix("--") else {
                words.push(arg.clone());
                continue;
            };
            let (name, value) = option.split_once('=').unwrap_or((option, "true"));
            if matches!(name, "raw-field" | "field") {
                let (key, value) = value.split_once('=').expect("a field has a value");
                let is_number = value.parse::<u64>().is_ok();
                assert!(
                    name == "raw-field" || is_number,
                    "a typed field that is no number: {arg}"
                );
                fields.insert(key.to_owned(), value.to_owned());
            } else {
                options.insert(name.to_owned(), value.to_owned());
            }
        }
        Self {
            words,
            options,
            fields,
        }
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// The answer of an API, with its headers if they were asked for.
    fn http(&self, program: &str, status: u16, headers: &[(&str, String)], body: &str) -> Reply {
        let mut out = String::new();
        if self.options.contains_key("include") {
            let reason = if status < 300 { "OK" } else { "Error" };
            out.push_str(&format!("HTTP/2.0 {status} {reason}\n"));
            out.push_str("Content-Type: application/json; charset=utf-8\r\n");
            for (name, value) in headers {
                out.push_str(&format!("{name}: {value}\r\n"));
            }
            out.push_str("\r\n");
        }
        out.push_str(body);
        let answer: Value = serde_json::from_str(body).unwrap_or_default();
        let messages = answer["errors"].as_array().into_iter().flatten();
        let said: Vec<&str> = messages
            .filter_map(|error| error["message"].as_str())
            .collect();
        let err = match answer["message"].as_str() {
            Some(message) => format!("{message} (HTTP {status})"),
            None if !said.is_empty() => said.join("\n"),
            None if status > 299 => format!("HTTP {status}"),
            None => String::new(),
        };
        if err.is_empty() {
            Reply::ok(out)
        } else {
            Reply {
                out,
                err: format!("{program}: {err}\n"),
                code: 1,
            }
        }
    }

    /// The whole text of a page, with the cursor that follows it.
    fn page(&self, all: &[Value], cursor: &str, size: usize) -> Value {
        let from: usize = self.field(cursor).parse().unwrap_or(0);
        let to = all.len().min(from + size);
        let nodes = all.get(from..to).unwrap_or_default().to_vec();
        let end = (!nodes.is_empty()).then(|| to.to_string());
        json!({ "nodes": nodes, "pageInfo": { "hasNextPage": to < all.len(), "endCursor": end } })
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let program = args.next().expect("gh or glab");
    let folder = PathBuf::from(args.next().expect("a folder"));
    let args: Vec<String> = args.collect();
    count(&folder, &args);
    let call = Call::parse(&args);
    let reply = World::change(&folder, |world| answer(world, &program, &call));
    let printed = io::stdout().write_all(reply.out.as_bytes());
    let complained = io::stderr().write_all(reply.err.as_bytes());
    printed.and(complained).expect("open streams");
    ExitCode::from(reply.code)
}

fn count(folder: &Path, args: &[String]) {
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("calls"))
        .expect("a list of calls");
    let line = format!("{}\n", json!(args));
    file.write_all(line.as_bytes()).expect("a line");
}

fn answer(world: &mut World, program: &str, call: &Call) -> Reply {
    let is_api = call.words().first() == Some(&"api");
    if world.program != program {
        let name = if program == "gh" { "GitHub" } else { "GitLab" };
        return Reply::failed(format!(
            "none of the git remotes configured for this repository point to a known {name} host. Please use `{program} \
             auth login` to authenticate and configure a new host for {program}.\n"
        ));
    }
    if is_api && call.option("hostname") != world.host {
        return Reply::failed(format!("error connecting to {}\n", call.option("hostname")));
    }
    if let Some(trouble) = world.current_trouble() {
        return refused(world, &trouble, call, is_api);
    }
    let reply = if program == "gh" {
        github::answer(world, call)
    } else {
        gitlab::answer(world, call)
    };
    reply.unwrap_or_else(|| {
        Reply::failed(format!(
            "unknown command {:?} for \"{program}\"\n",
            call.words
        ))
        .with_code(2)
    })
}

fn refused(world: &World, trouble: &Trouble, call: &Call, is_api: bool) -> Reply {
    let is_github = world.program == "gh";
    match trouble {
        Trouble::LoggedOut if is_github => Reply::failed(
            "To get started with GitHub CLI, please run:  gh auth login\nAlternatively, populate the GH_TOKEN environment \
             variable with a GitHub API authentication token.\n",
        )
        .with_code(4),
        Trouble::LoggedOut => call.http("glab", 401, &[], r#"{"message":"401 Unauthorized"}"#),
        Trouble::Unreachable if is_github => Reply::failed(format!(
            "error connecting to {}\ncheck your internet connection or https://githubstatus.com\n",
            world.host
        )),
        Trouble::Unreachable => Reply::failed(format!(
            "Post \"https://{0}/api/graphql\": dial tcp: lookup {0}: no such host\n",
            world.host
        )),
        Trouble::RateLimit { .. } if is_github && !is_api => {
            Reply::failed("GraphQL: API rate limit exceeded for user ID 1.\n")
        }
        Trouble::RateLimit { until, is_secondary: true } if is_github => call.http(
            "gh",
            403,
            &[("Retry-After", until.saturating_sub(world::now()).to_string())],
            r#"{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}"#,
        ),
        Trouble::RateLimit { until, .. } if is_github => call.http(
            "gh",
            200,
            &[("X-Ratelimit-Remaining", "0".to_owned()), ("X-Ratelimit-Reset", until.to_string())],
            r#"{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded for user ID 1."}]}"#,
        ),
        Trouble::RateLimit { until, .. } => call.http(
            "glab",
            429,
            &[("Ratelimit-Reset", until.to_string()), ("Retry-After", until.saturating_sub(world::now()).to_string())],
            "Retry later\n",
        ),
    }
}

/// Opens a pull request, or says why not.
fn create(
    world: &mut World,
    branch: &str,
    base: &str,
    title: &str,
    body: String,
) -> Result<String, String> {
    if let Some(pull) = &world.pull
        && pull.state == "OPEN"
    {
        return Err(format!(
            "a pull request for branch {branch:?} into branch {base:?} already exists:\n{}\n",
            world.url()
        ));
    }
    let Some(head) = world.tip(branch) else {
        return Err(format!(
            "pull request create failed: Head sha can't be blank, {branch} is not on the remote\n"
        ));
    };
    let number = world.fresh();
    world.pull = Some(world::Pull {
        number,
        branch: branch.to_owned(),
        base: base.to_owned(),
        title: title.to_owned(),
        body,
        state: "OPEN".to_owned(),
        head,
        ..world::Pull::default()
    });
    Ok(world.url())
}

/// Merges at this commit only.
fn merge(world: &mut World, commit: &str) -> Result<(), String> {
    if commit != world.pull().head {
        return Err(
            "Head branch was modified. Review and try the merge again. (mergePullRequest)\n"
                .to_owned(),
        );
    }
    if world.pull().is_draft {
        return Err("Pull request is still a draft\n".to_owned());
    }
    if world.merge_queue {
        world.pull().is_queued = true;
        return Ok(());
    }
    if world.is_behind() {
        return Err(
            "the base branch policy prohibits the merge: the head branch is not up to date\n"
                .to_owned(),
        );
    }
    world.merge().map_err(|why| format!("{why}\n"))
}

fn file(path: &str) -> String {
    fs::read_to_string(path).expect("a file with a body")
}
