//! The probes of `creel doctor`.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::{
    cli::{
        agents::{self, InstalledAgent, VersionQuery, ask_all},
        doctor::{Finding, ProbeSubject},
        error::CliError,
        launch::readiness,
        target::{self, Project, remote_sessions::NatsServerConnection},
    },
    config::{PlanRequest, Settings},
    present::text::{counted, readable_size},
    process::{children, process_table::ProcessTable, programs, secrets},
    worktrees::{ProjectRepository, WorktreeError, git_in, may_have_git},
};

/// How long a program may take to print its version.
const VERSION: Duration = Duration::from_secs(8);
/// Less free space than this ends sessions soon.
const LITTLE: u64 = 1 << 30;
/// With less than this, nothing can be recorded.
const NOTHING: u64 = 16 << 20;
/// A screen needs at least this many columns and rows.
const SMALLEST: (u16, u16) = (40, 10);
/// The clock was right when this was released: 2026-01-01, in seconds since 1970.
const RELEASED: u64 = 1_767_225_600;
/// How far the clock of a file system may be from the clock of the machine.
const DRIFT: Duration = Duration::from_secs(5);

/// Files that an agent has once you have logged in, below the home folder.
const LOGINS: [(&str, &[&str]); 10] = [
    ("claude", &[".claude/.credentials.json"]),
    ("codex", &[".codex/auth.json"]),
    ("gemini", &[".gemini/oauth_creds.json"]),
    ("opencode", &[".local/share/opencode/auth.json"]),
    ("copilot", &[".copilot/config.json"]),
    ("qwen", &[".qwen/oauth_creds.json"]),
    ("goose", &[".config/goose/config.yaml"]),
    ("amp", &[".local/share/amp/secrets.json"]),
    ("pi", &[".pi/agent/auth.json"]),
    ("vibe", &[".vibe/.env"]),
];

fn free_space(bytes: u64) -> String {
    const GIGABYTE: u64 = 1_000_000_000;
    if bytes < GIGABYTE {
        readable_size(bytes)
    } else {
        format!("{} GB", bytes / GIGABYTE)
    }
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn root_of(subject: &ProbeSubject) -> PathBuf {
    let here = || std::env::current_dir().unwrap_or_default();
    subject
        .project
        .as_ref()
        .map_or_else(|_| here(), |project| project.root.clone())
}

/// The version of a program on `PATH`. None: it is not there. An error says how it failed.
fn version_of(program: &str, arguments: &str) -> Option<Result<String, String>> {
    let program = programs::on_path(program, Path::new("/"), &search_path())?;
    let query = VersionQuery {
        program,
        arguments: arguments.to_owned(),
    };
    let asked = ask_all(BTreeSet::from([query]), VERSION);
    let answer = asked.ok().flatten()?.into_values().next();
    Some(match answer {
        Some(answer) => match answer.problem() {
            Some(problem) => Err(problem),
            None => Ok(answer.version().unwrap_or_default().to_owned()),
        },
        None => Ok("of unknown version".to_owned()),
    })
}

pub(super) fn git(subject: &ProbeSubject) -> Vec<Finding> {
    const AREA: &str = "git";
    let root = root_of(subject);
    let is_repository = may_have_git(&root);
    let version = match version_of("git", "--version") {
        Some(Ok(version)) => version,
        Some(Err(problem)) => {
            return vec![Finding::broken(
                AREA,
                format!("git fails: {problem}"),
                "repair or reinstall git",
            )];
        }
        None if is_repository => {
            let text = "git is not on PATH, but this project is a repository";
            return vec![Finding::broken(AREA, text, "install git")];
        }
        None => {
            let advice = "install git for worktrees, diffs, submits and merges";
            return vec![Finding::limited(AREA, "git is not on PATH", advice)];
        }
    };
    let mut found = vec![Finding::works(AREA, format!("git {version}"))];
    found.push(identity(&root));
    found.push(
        match ProjectRepository::of(&root).map(|repository| usable(&repository)) {
            Ok(Ok(())) => Finding::works(AREA, "worktrees are possible here"),
            Ok(Err(why)) => Finding::limited(
                AREA,
                format!("no worktrees here: {why}"),
                "commit once, then `--worktree` works",
            ),
            Err(WorktreeError::NoRepository(_)) => {
                let text = "this folder is no repository: no worktrees, no submit, no merge";
                Finding::limited(AREA, text, "`git init` makes it one")
            }
            Err(error) => Finding::of_error(
                AREA,
                &error.to_string(),
                "`git status` must work in this folder",
            ),
        },
    );
    found
}

fn identity(root: &Path) -> Finding {
    let answer = git_in(root, &["var", "GIT_COMMITTER_IDENT"]);
    let line = answer
        .ok()
        .filter(|answer| answer.is_ok)
        .map(|answer| answer.line().to_owned());
    match line.as_deref().and_then(|line| line.rsplit_once("> ")) {
        Some((who, _)) => Finding::works("git", format!("commits are by {who}>")),
        None => Finding::limited(
            "git",
            "git does not know your name, so commits fail",
            "git config --global user.name \"Your Name\"\ngit config --global user.email you@example.com",
        ),
    }
}

fn usable(repository: &ProjectRepository) -> Result<(), String> {
    let has_commit = repository
        .commit("HEAD")
        .map_err(|error| error.to_string())?
        .is_some();
    if !has_commit {
        return Err("the repository has no commit yet".to_owned());
    }
    repository
        .check_worktrees()
        .map_err(|error| error.to_string())
}

pub(super) fn config(subject: &ProbeSubject) -> Vec<Finding> {
    const AREA: &str = "config";
    let project = match &subject.project {
        Ok(project) => project,
        Err(mistakes) => {
            let advice = "correct it; `creel config example` shows every key";
            return vec![Finding::broken(AREA, mistakes.clone(), advice)];
        }
    };
    let Some(path) = &project.settings.path else {
        let text = "no config in this folder or above: sessions have no checks";
        return vec![Finding::limited(AREA, text, "write one with `creel init`")];
    };
    let path = path.display();
    let mut found = vec![if project.is_trusted() {
        Finding::works(AREA, format!("{path} is valid and trusted"))
    } else {
        let text = format!("{path} is valid. You have not trusted it yet, so nothing in it runs");
        Finding::limited(AREA, text, "read it, then run `creel trust`")
    }];
    let warnings = project.settings.warnings.len();
    if warnings > 0 {
        let text = counted(warnings, "warning");
        found.push(Finding::limited(AREA, text, "`creel check` shows them"));
    }
    let plan = project.settings.plan(PlanRequest::default());
    // The probe of the agents says what is wrong with them.
    if let Ok(plan) = plan
        && let Ok(Some(problems)) = readiness::problems(project, Ok(&plan), None)
    {
        let advice = "`creel check` shows what needs it";
        found.extend(
            problems
                .into_iter()
                .map(|problem| Finding::of_error(AREA, &problem, advice)),
        );
    }
    found
}

pub(super) fn agents(subject: &ProbeSubject) -> Vec<Finding> {
    const AREA: &str = "agents";
    // Mistakes of the config are reported with the config.
    let Ok(Project { root, settings, .. }) = &subject.project else {
        return Vec::new();
    };
    let mut found: Vec<Finding> = match agents::installed(settings, root) {
        Ok(Some(installed)) => installed
            .iter()
            .map(|agent| agent_finding(settings, agent))
            .collect(),
        Ok(None) => Vec::new(),
        Err(error) => vec![Finding::of_error(AREA, error.message(), "try again")],
    };
    match settings.plan(PlanRequest::default()) {
        Ok(plan) => found.push(Finding::works(
            AREA,
            format!("this project uses {}", plan.agent),
        )),
        Err(error) => found.push(Finding::of_error(
            AREA,
            &error.to_string(),
            "`creel agents` lists all, with how to install them",
        )),
    }
    found
}

fn agent_finding(settings: &Settings, agent: &InstalledAgent) -> Finding {
    let InstalledAgent {
        name,
        version,
        problem,
        login,
    } = agent;
    let shown = match version {
        Some(version) => format!("{name} {version}"),
        None => name.clone(),
    };
    if let Some(problem) = problem {
        return Finding::limited(
            "agents",
            format!("{shown} does not start: {}", secrets::masked(problem)),
            format!("start `{name}` yourself"),
        );
    }
    match (seen_login(settings, name), login) {
        (Some(seen), _) => Finding::works(
            "agents",
            format!("{shown}, logged in as far as creel can see ({seen})"),
        ),
        (None, Some(login)) => Finding::limited(
            "agents",
            format!("{shown}; creel sees no login, which can be elsewhere, such as in a keychain"),
            format!("if its turns fail: {login}"),
        ),
        (None, None) => Finding::works("agents", shown),
    }
}

/// Where an agent's login is. Neither the file nor the variable has to be valid.
fn seen_login(settings: &Settings, name: &str) -> Option<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let files = LOGINS
        .iter()
        .find(|(agent, _)| *agent == name)
        .map(|(_, files)| *files);
    let file = files
        .into_iter()
        .flatten()
        .find(|file| home.as_ref().is_some_and(|home| home.join(file).is_file()));
    if let Some(file) = file {
        return Some(format!("~/{file}"));
    }
    let known = settings.known.iter().find(|agent| agent.name == name)?;
    let names = known.ways.first()?.spec.facts()?.env.clone();
    let reads = |variable: &str| {
        names.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => variable.starts_with(beginning),
            None => variable == name,
        })
    };
    let is_login = |variable: &str| variable.ends_with("_KEY") || variable.ends_with("_TOKEN");
    let mut variables = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    variables.find_map(|(variable, _)| {
        let variable = variable.into_string().ok()?;
        (is_login(&variable) && reads(&variable)).then(|| format!("${variable}"))
    })
}

pub(super) fn terminal(subject: &ProbeSubject) -> Vec<Finding> {
    const AREA: &str = "terminal";
    let out = std::io::stdout();
    if !out.is_terminal() {
        return vec![Finding::works(
            AREA,
            "output is not a terminal: sessions print lines",
        )];
    }
    let value = |name: &str| std::env::var(name).unwrap_or_default();
    let term = value("TERM");
    if term.is_empty() || term == "dumb" {
        let text = format!("TERM is `{term}`: no screen, only lines");
        return vec![Finding::limited(
            AREA,
            text,
            "set TERM to what your terminal is, such as xterm-256color",
        )];
    }
    let mut found = Vec::new();
    match rustix::termios::tcgetwinsize(&out) {
        Ok(size) if size.ws_col < SMALLEST.0 || size.ws_row < SMALLEST.1 => {
            let text = format!(
                "{}x{} is too small for the screen",
                size.ws_col, size.ws_row
            );
            found.push(Finding::limited(
                AREA,
                text,
                format!("enlarge it to at least {}x{}", SMALLEST.0, SMALLEST.1),
            ));
        }
        Ok(size) => found.push(Finding::works(
            AREA,
            format!("{term}, {}x{}", size.ws_col, size.ws_row),
        )),
        Err(error) => found.push(Finding::limited(
            AREA,
            format!("its size is not known: {error}"),
            "use another terminal",
        )),
    }
    let has_no_color = !value("NO_COLOR").is_empty();
    let has_all = matches!(value("COLORTERM").as_str(), "truecolor" | "24bit");
    found.push(Finding::works(
        AREA,
        match (has_no_color, has_all, term.contains("256color")) {
            (true, _, _) => "no colors, as NO_COLOR asks",
            (false, true, _) => "all colors",
            (false, false, true) => "256 colors",
            (false, false, false) => "16 colors; a terminal with more sets COLORTERM=truecolor",
        },
    ));
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .map(value)
        .find(|value| !value.is_empty());
    let is_utf8 = locale
        .as_ref()
        .is_none_or(|locale| locale.to_lowercase().replace('-', "").contains("utf8"));
    found.push(if is_utf8 {
        Finding::works(AREA, "UTF-8")
    } else {
        let text = format!(
            "the locale `{}` is not UTF-8: creel draws with ASCII",
            locale.unwrap_or_default()
        );
        Finding::limited(AREA, text, "export LANG=C.UTF-8")
    });
    if let Ok(project) = &subject.project {
        found.push(Finding::works(
            AREA,
            if project.settings.ui.mouse {
                "the mouse works on the screen; `ui: { mouse: false }` leaves it to the terminal"
            } else {
                "the mouse is off in the config"
            },
        ));
    }
    if !value("TMUX").is_empty() {
        found.push(match version_of("tmux", "-V") {
            Some(Ok(version)) => Finding::works(
                AREA,
                format!(
                    "inside tmux {version}; notifications pass with `set -g allow-passthrough on`"
                ),
            ),
            Some(Err(_)) | None => Finding::works(
                AREA,
                "inside tmux; notifications pass with `set -g allow-passthrough on`",
            ),
        });
    }
    found
}

pub(super) fn nats(subject: &ProbeSubject) -> Vec<Finding> {
    const AREA: &str = "nats";
    let ProbeSubject { args, project } = subject;
    let configured = project
        .as_ref()
        .ok()
        .filter(|project| project.settings.servers.nats.is_some());
    match configured {
        None if args.nats.url.is_none() => return Vec::new(),
        Some(project) if args.nats.url.is_none() && !project.is_trusted() => {
            let text = "not tried: you have not trusted the config that names the server yet";
            return vec![Finding::limited(
                AREA,
                text,
                "read the config, then run `creel trust`",
            )];
        }
        None | Some(_) => {}
    }
    let began = std::time::Instant::now();
    let reached = NatsServerConnection::meant(&args.nats, &args.config);
    let server = match reached {
        Ok(Some(server)) => server,
        Ok(None) => return Vec::new(),
        Err(error) => {
            return vec![Finding::of_error(
                AREA,
                error.message(),
                "start the server, or correct `nats:`",
            )];
        }
    };
    let took = began.elapsed().as_millis();
    // Not by the client's own type of the reply, which differs between versions of servers.
    let stored = server.wait(async {
        let asked = server.client.request("$JS.API.INFO", "".into()).await;
        let reply = asked.map_err(|error| CliError::failed(error.to_string()))?;
        let account: Value = serde_json::from_slice(&reply.payload).unwrap_or_default();
        match account["error"]["description"].as_str() {
            Some(why) => Err(CliError::failed(why)),
            None if account.is_object() => Ok(()),
            None => Err(CliError::failed("creel does not understand its reply")),
        }
    });
    vec![match stored {
        Ok(()) => Finding::works(
            AREA,
            format!(
                "{} answers in {took} ms, with JetStream",
                server.nats.shown()
            ),
        ),
        Err(error) => Finding::broken(
            AREA,
            format!(
                "{} has no JetStream for you: {}",
                server.nats.shown(),
                error.into_message()
            ),
            "start the server with `-js`, and allow the user `$JS.API.>`",
        ),
    }]
}

pub(super) fn system(_: &ProbeSubject) -> Vec<Finding> {
    const AREA: &str = "system";
    let mut found = Vec::new();
    if ProcessTable::of_system() == ProcessTable::ProcFs {
        found.push(Finding::works(AREA, "/proc shows all processes"));
    } else {
        let text = "no /proc: creel finds processes of sessions only by their groups";
        found.push(Finding::limited(AREA, text, "on Linux, mount /proc"));
    }
    children::adopt_orphans();
    found.push(if children::is_subreaper() {
        Finding::works(
            AREA,
            "processes that leave their group are found (child subreaper)",
        )
    } else {
        let text = "no child subreaper: a process that leaves its group can outlive its session";
        Finding::limited(
            AREA,
            text,
            "creel needs Linux for it; elsewhere `creel run` ends what it finds",
        )
    });
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    if now.as_secs() < RELEASED {
        let text = "the clock is before 2026: certificates and times of usage limits are wrong";
        found.push(Finding::broken(AREA, text, "set the clock of the machine"));
    }
    found
}

pub(super) fn storage(subject: &ProbeSubject) -> Vec<Finding> {
    let mut found = Vec::new();
    match target::state_dir() {
        Ok(dir) => found.extend(folder("state folder", &dir)),
        Err(error) => found.push(Finding::of_error(
            "storage",
            error.message(),
            "creel stores trust and logs there",
        )),
    }
    let root = root_of(subject);
    let own = root.join(".creel");
    // Behind a link, it is not creel's folder.
    let is_own = own.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    let place = if is_own { own } else { root };
    found.extend(folder("project", &place));
    found
}

/// Whether a folder can be written, how much fits, and whether its clock is right.
fn folder(name: &str, dir: &Path) -> Vec<Finding> {
    const AREA: &str = "storage";
    let place = dir.display();
    let file = dir.join(format!(".creel-doctor-{}", std::process::id()));
    let before = SystemTime::now();
    let written = fs::create_dir_all(dir)
        .and_then(|()| {
            let mut options = OpenOptions::new();
            let mut made = options.write(true).create_new(true).open(&file)?;
            made.write_all(b"creel doctor\n")
        })
        .and_then(|()| fs::metadata(&file)?.modified());
    let removed = fs::remove_file(&file);
    let stamped = match written {
        Ok(stamped) if removed.is_ok() => stamped,
        Ok(_) => {
            return vec![Finding::broken(
                AREA,
                format!("{name} {place}: files there cannot be removed"),
                "correct its permissions",
            )];
        }
        Err(error) => {
            let text = format!("{name} {place} cannot be written: {error}");
            return vec![Finding::broken(
                AREA,
                text,
                "correct its permissions, or free space on its disk",
            )];
        }
    };
    let drift = stamped
        .duration_since(before)
        .unwrap_or_else(|early| early.duration());
    let mut found = Vec::new();
    if drift > DRIFT {
        let text = format!(
            "{name} {place}: its file system's clock differs by {} s",
            drift.as_secs()
        );
        found.push(Finding::limited(
            AREA,
            text,
            "let both machines get their time from the same server",
        ));
    }
    found.push(match rustix::fs::statvfs(dir) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let text = format!("{name} {place} can be written, {} free", free_space(free));
            if free < NOTHING || (disk.f_files > 0 && disk.f_favail == 0) {
                Finding::broken(
                    AREA,
                    text,
                    "free space on its disk: sessions cannot be recorded",
                )
            } else if free < LITTLE {
                Finding::limited(
                    AREA,
                    text,
                    "free space on its disk; `creel prune` deletes old sessions",
                )
            } else {
                Finding::works(AREA, text)
            }
        }
        Err(error) => Finding::limited(
            AREA,
            format!("{name} {place} can be written; its free space is not known: {error}"),
            "look with `df`",
        ),
    });
    found
}
