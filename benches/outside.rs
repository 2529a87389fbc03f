//! What a user pays for creel, measured from the outside: the program as it is installed, in a
//! terminal of 200x50, beside a shell loop, `tmux` and other supervisors.
//!
//! `cargo bench --bench outside` measures all figures. `CREEL_BIN` names another creel to measure,
//! an older one for example. `benches/README.md` explains the figures.

#[path = "support/measure.rs"]
mod measure;
#[path = "support/project.rs"]
mod project;
#[path = "support/terminal.rs"]
mod terminal;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use measure::{Figure, Finding, Result, Verdict, check, compare};
use project::{Project, creel};
use pty_process::blocking;
use terminal::{TerminalProgram, memory_kib, same_program};

/// How often a start is measured.
const STARTS: usize = 20;
/// Iterations of the shorter and of the longer session: their difference is free of start and end.
const SHORT: u32 = 10;
const LONG: u32 = 110;
/// Files of a usual repository, and of a large one.
const FILES: usize = 100;
const MANY_FILES: usize = 100_000;
/// What the agent says first.
const HELLO: &str = "hello-from-the-agent";
/// How long an idle screen is watched.
const IDLE: Duration = Duration::from_secs(10);
/// Bytes per second while an agent is silent: a spinner and a clock.
const SILENT_BYTES: u64 = 200;
/// The share of one core meanwhile, in percent.
const SILENT_PERCENT: f64 = 0.5;
/// Lines of 100 bytes: 100 MB.
const FLOOD_LINES: u32 = 1_000_000;
const FLOOD_LINE: &str = "The agent prints this line again and again, until a hundred megabytes have come out of it, to the end.";

/// How long a release build may take on two cores.
const BUILD: Duration = Duration::from_mins(6);

fn main() -> ExitCode {
    measure::run(&[
        Figure {
            name: "start",
            measure: start,
        },
        Figure {
            name: "iteration",
            measure: iteration,
        },
        Figure {
            name: "large",
            measure: large,
        },
        Figure {
            name: "idle",
            measure: idle,
        },
        Figure {
            name: "still",
            measure: still,
        },
        Figure {
            name: "flood",
            measure: flood,
        },
        Figure {
            name: "binary",
            measure: binary,
        },
        Figure {
            name: "build",
            measure: build,
        },
    ])
}

/// A repository of so many files, in folders of 100. Its agent appends to a file in every turn.
fn repository(files: usize) -> Result<Project> {
    let project = Project::empty()?;
    let agent = project.path().join("agent");
    fs::write(&agent, "#!/bin/sh\necho $$ >> log\necho turn $$\n")?;
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755))?;
    fs::write(project.path().join("log"), "start\n")?;
    fs::write(
        project.path().join("creel.yaml"),
        "prompt: x\nagent: demo\nstop: { settled: continue }\nagents: { demo: { command: ./agent } }\n",
    )?;
    for number in 0..files {
        let folder = project.path().join(format!("folder-{}", number / 100));
        if number.is_multiple_of(100) {
            fs::create_dir(&folder)?;
        }
        fs::write(folder.join(format!("file-{number}")), "text\n")?;
    }
    let git = |args: &[&str]| -> Result<()> {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x"])
            .args(args)
            .current_dir(project.path());
        check(
            git.stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?
                .success(),
            "git failed",
        )
    };
    git(&["init"])?;
    git(&["add", "."])?;
    git(&["commit", "-m", "x"])?;
    Ok(project)
}

fn headless(project: &Project, args: &[&str]) -> Command {
    let home = project.home();
    let mut command = Command::new(creel());
    command
        .args(["run", "--headless", "--trust"])
        .args(args)
        .current_dir(project.path());
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"));
    command.env("XDG_CONFIG_HOME", home.join("config"));
    command
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("CREEL_SESSION");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// A number of each thread of these processes, from a file in the thread's folder, as a sum.
fn sum_over_threads(pids: &[u32], file: &str, number: impl Fn(&str) -> u64) -> u64 {
    let threads = pids
        .iter()
        .flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")))
        .flatten()
        .flatten();
    threads
        .map(|thread| number(&fs::read_to_string(thread.path().join(file)).unwrap_or_default()))
        .sum()
}

/// The processor time of processes.
fn processor_time(pids: &[u32]) -> Duration {
    let nanoseconds = |text: &str| {
        text.split_whitespace()
            .next()
            .and_then(|field| field.parse().ok())
            .unwrap_or(0)
    };
    Duration::from_nanos(sum_over_threads(pids, "schedstat", nanoseconds))
}

/// How often the threads of processes have begun to run.
fn wake_ups(pids: &[u32]) -> u64 {
    let switches = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| line.contains("voluntary_ctxt_switches"));
        lines
            .filter_map(|line| line.split_whitespace().next_back()?.parse::<u64>().ok())
            .sum()
    };
    sum_over_threads(pids, "status", switches)
}

/// The first frame and the agent's first line, compared with the first output of a shell.
fn start() -> Result<Vec<Finding>> {
    let project = Project::new(&format!("'echo {HELLO}; exec sleep 60'"))?;
    let shell = || {
        let shell = blocking::Command::new("bash").args(["-c", "echo hello"]);
        TerminalProgram::start(shell)?.until(|text| text.contains("hello"))
    };
    let frame = || {
        project
            .on_screen(&[])?
            .until(|text| !text.trim().is_empty())
    };
    let line = || project.on_screen(&[])?.until(|text| text.contains(HELLO));
    let printed = || {
        let started = Instant::now();
        let mut child = headless(&project, &[]).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut lines = output.lines();
        let found = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(HELLO)));
        let took = started.elapsed();
        end(&mut child)?;
        check(found.is_some(), "the agent said nothing")?;
        Ok(took)
    };
    Ok(vec![
        compare(STARTS, frame, shell)?.finding("first frame", "bash's first output", 6.0),
        compare(STARTS, line, shell)?.finding(
            "the agent's first line on the screen",
            "bash's first output",
            11.0,
        ),
        compare(STARTS, printed, shell)?.finding(
            "the same with --headless",
            "bash's first output",
            7.5,
        ),
    ])
}

fn end(child: &mut std::process::Child) -> Result<()> {
    Command::new("kill").arg(child.id().to_string()).status()?;
    child.wait()?;
    Ok(())
}

/// One iteration in a repository, compared with one turn of a shell loop over the same agent.
fn iteration() -> Result<Vec<Finding>> {
    let project = repository(FILES)?;
    let each = |run: &dyn Fn(u32) -> Result<Duration>| -> Result<Duration> {
        let short = run(SHORT)?;
        Ok(run(LONG)?.saturating_sub(short) / (LONG - SHORT))
    };
    let shell = |times: u32| {
        fs::write(project.path().join("log"), "start\n")?;
        let started = Instant::now();
        let script = format!("for n in $(seq {times}); do ./agent > /dev/null; done");
        Command::new("bash")
            .args(["-c", &script])
            .current_dir(project.path())
            .status()?;
        Ok(started.elapsed())
    };
    let headless = |times: u32| limited(&project, times);
    let on_screen = |times: u32| {
        fs::write(project.path().join("log"), "start\n")?;
        let mut screen = project.on_screen(&["-n", &times.to_string()])?;
        screen.until(|text| text.contains("iteration limit") || text.contains("limit of"))
    };
    let mut findings = Vec::new();
    for (name, run) in [
        (
            "on the screen",
            &on_screen as &dyn Fn(u32) -> Result<Duration>,
        ),
        ("with --headless", &headless),
    ] {
        let compared = compare(6, || each(run), || each(&shell))?;
        let above = compared.ours.saturating_sub(compared.theirs);
        let verdict = if above <= Duration::from_millis(2) {
            Verdict::Ok
        } else {
            Verdict::Missed
        };
        let text = format!(
            "{}, {:.2} ms above it, allowed 2 ms",
            compared.tell(&format!("an iteration {name}"), "the shell loop"),
            above.as_secs_f64() * 1e3
        );
        findings.push(Finding { text, verdict });
    }
    Ok(findings)
}

/// How long a session of so many iterations takes.
fn limited(project: &Project, iterations: u32) -> Result<Duration> {
    fs::write(project.path().join("log"), "start\n")?;
    let started = Instant::now();
    // A session that reaches its limit has an exit code of its own.
    headless(project, &["-n", &iterations.to_string()]).status()?;
    Ok(started.elapsed())
}

/// One iteration in a large repository, compared with one `git status` there.
fn large() -> Result<Vec<Finding>> {
    let project = repository(MANY_FILES)?;
    let iteration =
        || Ok(limited(&project, 2 * SHORT)?.saturating_sub(limited(&project, SHORT)?) / SHORT);
    let status = || {
        let started = Instant::now();
        let mut git = Command::new("git");
        git.args(["status", "--porcelain"])
            .current_dir(project.path())
            .stdout(Stdio::null());
        check(git.status()?.success(), "git failed")?;
        Ok(started.elapsed())
    };
    let compared = compare(4, iteration, status)?;
    Ok(vec![compared.finding(
        "an iteration with 100,000 files",
        "`git status`",
        1.3,
    )])
}

/// Memory, processor time and output while the agent is silent.
fn idle() -> Result<Vec<Finding>> {
    let project = Project::new("'exec sleep 60'")?;
    let mut screen = project.on_screen(&[])?;
    screen.until(|text| !text.trim().is_empty())?;
    screen.watch(Duration::from_secs(1));
    let pids = same_program(screen.pid());
    let before = processor_time(&pids);
    let printed = screen.watch(IDLE);
    let used = processor_time(&pids).saturating_sub(before);
    let memory = memory_kib(&pids, "VmRSS:")?;
    drop(screen);
    let mut child = headless(&project, &[]).spawn()?;
    std::thread::sleep(Duration::from_secs(1));
    let alone = memory_kib(&[child.id()], "VmRSS:")?;
    end(&mut child)?;
    let limited = |text: String, value: u64, limit: u64| Finding {
        text: format!("{text}, allowed {limit}"),
        verdict: if value <= limit {
            Verdict::Ok
        } else {
            Verdict::Missed
        },
    };
    let percent = used.as_secs_f64() * 100.0 / IDLE.as_secs_f64();
    let verdict = if percent <= SILENT_PERCENT {
        Verdict::Ok
    } else {
        Verdict::Missed
    };
    let (seconds, bytes) = (IDLE.as_secs(), SILENT_BYTES * IDLE.as_secs());
    Ok(vec![
        limited(
            format!(
                "resident memory on the screen ({} processes): {memory} KiB",
                pids.len()
            ),
            memory,
            15 << 10,
        ),
        limited(
            format!("resident memory with --headless: {alone} KiB"),
            alone,
            10 << 10,
        ),
        limited(
            format!("bytes in {seconds} s of silence: {printed}"),
            printed as u64,
            bytes,
        ),
        Finding {
            text: format!("processor: {percent:.2} %, allowed {SILENT_PERCENT} %"),
            verdict,
        },
    ])
}

/// A session at a gate, and one that has ended: creel prints nothing, and none of its threads wakes
/// up.
fn still() -> Result<Vec<Finding>> {
    let done = "'echo \"<promise>COMPLETE</promise>\"'";
    let blocks = "max_hook_retries: 0\nhooks: { stop: [{ name: check, command: 'exit 2' }] }\n";
    let states = [
        ("at a gate", blocks, "enter answer"),
        ("at the end", "", "COMPLETE 0:"),
    ];
    let mut findings = Vec::new();
    for (name, config, shows) in states {
        let project = Project::new(done)?;
        let file = project.path().join("creel.yaml");
        fs::write(&file, format!("{}{config}", fs::read_to_string(&file)?))?;
        let mut screen = project.on_screen(&[])?;
        screen.until(|text| text.contains(shows))?;
        screen.watch(Duration::from_secs(2));
        let pids = same_program(screen.pid());
        let before = wake_ups(&pids);
        let printed = screen.watch(IDLE);
        let woken = wake_ups(&pids) - before;
        let verdict = if printed == 0 && woken == 0 {
            Verdict::Ok
        } else {
            Verdict::Missed
        };
        let text = format!(
            "{name}, in {} s, {} processes: {printed} bytes, {woken} wake-ups, allowed 0 of both",
            IDLE.as_secs(),
            pids.len()
        );
        findings.push(Finding { text, verdict });
    }
    Ok(findings)
}

/// An agent that prints 100 MB, compared with `tmux` showing the same.
fn flood() -> Result<Vec<Finding>> {
    let project = Project::new("'cat flood; echo; echo the-flood-is-over'")?;
    fs::write(
        project.path().join("flood"),
        format!("{FLOOD_LINE}\n").repeat(FLOOD_LINES as usize),
    )?;
    let mut screen = project.on_screen(&["-n", "1"])?;
    let mut peak = 0;
    let pids = same_program(screen.pid());
    // The card at the end covers the agent's last words.
    let took = screen.until(|text| text.contains("LIMIT"))?;
    let pids = if pids.len() > 1 {
        pids
    } else {
        same_program(screen.pid())
    };
    for pid in &pids {
        peak += memory_kib(&[*pid], "VmHWM:").unwrap_or(0);
    }
    let used = processor_time(&pids);
    drop(screen);
    let tmux = tmux_flood(&project.path())?;
    let ratio = took.as_secs_f64() / tmux.as_secs_f64();
    Ok(vec![
        Finding {
            text: format!(
                "100 MB of agent output on the screen: {:.2} s; tmux: {:.2} s; ratio {ratio:.2}, allowed 0.3",
                took.as_secs_f64(),
                tmux.as_secs_f64()
            ),
            verdict: if ratio <= 0.3 {
                Verdict::Ok
            } else {
                Verdict::Missed
            },
        },
        Finding {
            text: format!("processor: {:.2} s", used.as_secs_f64()),
            verdict: Verdict::Information,
        },
        Finding {
            text: format!("peak of its memory: {peak} KiB, allowed {}", 25 << 10),
            verdict: if peak <= 25 << 10 {
                Verdict::Ok
            } else {
                Verdict::Missed
            },
        },
    ])
}

fn tmux_flood(folder: &Path) -> Result<Duration> {
    let socket = folder.join("tmux");
    let command = blocking::Command::new("tmux")
        .arg("-S")
        .arg(&socket)
        .args(["new", "cat flood; echo the-flood-is-over; sleep 5"])
        .current_dir(folder)
        .env("TERM", "xterm-256color")
        .env_remove("TMUX");
    let took = TerminalProgram::start(command)?.until(|text| text.contains("the-flood-is-over"));
    Command::new("tmux")
        .arg("-S")
        .arg(&socket)
        .arg("kill-server")
        .status()?;
    took
}

fn binary() -> Result<Vec<Finding>> {
    let bytes = fs::metadata(creel())?.len();
    let megabytes = f64::from(u32::try_from(bytes)?) / 1e6;
    let verdict = if bytes <= 12_000_000 {
        Verdict::Ok
    } else {
        Verdict::Missed
    };
    Ok(vec![Finding {
        text: format!("the program: {megabytes:.1} MB, allowed 12 MB"),
        verdict,
    }])
}

/// A release build from scratch. It takes minutes, so it is measured only if it is named.
fn build() -> Result<Vec<Finding>> {
    if !std::env::args().any(|argument| argument == "build") {
        let text =
            "not measured, since it takes minutes: cargo bench --bench outside -- build".to_owned();
        return Ok(vec![Finding {
            text,
            verdict: Verdict::Information,
        }]);
    }
    let target = tempfile::tempdir()?;
    let started = Instant::now();
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--release",
            "--locked",
            "--bin",
            "creel",
            "--target-dir",
        ])
        .arg(target.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()?;
    check(status.success(), "cargo could not build creel")?;
    let took = started.elapsed();
    let verdict = if took <= BUILD {
        Verdict::Ok
    } else {
        Verdict::Missed
    };
    let text = format!(
        "a release build from scratch: {} s, allowed {} s",
        took.as_secs(),
        BUILD.as_secs()
    );
    Ok(vec![Finding { text, verdict }])
}
