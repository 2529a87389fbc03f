//! creel beside other programs that run an agent or a process in the terminal, as far as they are
//! installed.
//!
//! `cargo bench --bench peers` compares with those that it finds on `PATH`, and names those that it
//! does not find.

#[path = "support/measure.rs"]
mod measure;
#[path = "support/project.rs"]
mod project;
#[path = "support/terminal.rs"]
mod terminal;

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use measure::{Figure, Finding, Result, Verdict, check, compare};
use project::Project;
use terminal::{TerminalProgram, at_home, memory_kib, same_program};

/// How often each start is measured.
const STARTS: usize = 10;
const HELLO: &str = "hello-from-the-agent";

/// Another program, and how it is told to run a shell command.
struct Peer {
    program: &'static str,
    arguments: fn(&str) -> Vec<String>,
}

const PEERS: [Peer; 3] = [
    Peer {
        program: "mprocs",
        arguments: |command| vec![command.to_owned()],
    },
    Peer {
        program: "tmux",
        arguments: |command| vec!["-L".into(), socket(), "new".into(), command.to_owned()],
    },
    Peer {
        program: "zellij",
        arguments: |command| ["run", "--", "sh", "-c", command].map(str::to_owned).into(),
    },
];

/// The socket of the next `tmux`, which would otherwise use a server that runs already.
fn socket() -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    format!("{}{}", sockets(), STARTED.fetch_add(1, Ordering::Relaxed))
}

/// How the names of all these sockets begin.
fn sockets() -> String {
    format!("creel-bench-{}-", std::process::id())
}

fn main() -> ExitCode {
    measure::run(&[Figure {
        name: "peers",
        measure: peers,
    }])
}

fn peers() -> Result<Vec<Finding>> {
    let project = Project::new(&format!("'echo {HELLO}; exec sleep 60'"))?;
    let mut findings = Vec::new();
    for peer in PEERS {
        let Some(program) = on_path(peer.program) else {
            let text = format!("{} is not on PATH: not compared", peer.program);
            findings.push(Finding {
                text,
                verdict: Verdict::Information,
            });
            continue;
        };
        let start = || -> Result<TerminalProgram> {
            let command = at_home(&program, &project.path(), project.home());
            TerminalProgram::start(
                command.args((peer.arguments)(&format!("echo {HELLO}; exec sleep 60"))),
            )
        };
        let frame = |mut screen: TerminalProgram| screen.until(|text| !text.trim().is_empty());
        let line = |mut screen: TerminalProgram| screen.until(|text| text.contains(HELLO));
        let first = compare(
            STARTS,
            || frame(project.on_screen(&[])?),
            || frame(start()?),
        )?;
        let said = compare(STARTS, || line(project.on_screen(&[])?), || line(start()?))?;
        findings.push(first.finding("first frame: creel", peer.program, 1.0));
        findings.push(said.finding("the agent's first line: creel", peer.program, 1.5));
        end_servers()?;
        let (ours, theirs) = (memory(project.on_screen(&[])?)?, memory(start()?)?);
        let text = format!(
            "resident memory: creel {ours} KiB; {}: {theirs} KiB",
            peer.program
        );
        findings.push(Finding {
            text,
            verdict: Verdict::Information,
        });
        end_servers()?;
    }
    Ok(findings)
}

/// The servers of `tmux`, which are not children of the programs that were started.
fn servers() -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        found.extend(line.contains(&sockets()).then_some(pid));
    }
    Ok(found)
}

fn end_servers() -> Result<()> {
    for pid in servers()? {
        std::process::Command::new("kill")
            .arg(pid.to_string())
            .status()?;
    }
    Ok(())
}

fn memory(mut screen: TerminalProgram) -> Result<u64> {
    screen.until(|text| text.contains(HELLO))?;
    screen.watch(Duration::from_secs(1));
    let mut pids = same_program(screen.pid());
    check(!pids.is_empty(), "the program has ended")?;
    pids.extend(servers()?);
    pids.sort_unstable();
    pids.dedup();
    memory_kib(&pids, "VmRSS:")
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
