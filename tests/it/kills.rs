//! The kill soak: real sessions are killed at random moments, and nothing is left running, lost or
//! sent twice.
//!
//! A few dozen kills run with the suite. `CREEL_KILLS=10000` asks for more, `CREEL_KILL_SEED`
//! repeats the moments of an earlier soak, which every failure prints. See CONTRIBUTING.md.

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::support::{PATIENCE, lives, project::Project, terminal::Terminal};

/// How many kills there are with a screen, and how many without.
const KILLS: usize = 20;
/// How many kills a session must survive before it may end.
const PER_SESSION: usize = 10;
/// How long the soak waits for a condition: other tests may use the processor.
const LONG: Duration = Duration::from_mins(1);

/// An agent and hooks that always have something running: in their process group, in the
/// background, and outside both. The agent completes when the file `done` exists.
const CONFIG: &str = r#"
prompt: GOAL
agent: sh
max_iterations: 1000000
stop: { no_progress: 0, thrashing: 0, circuit_breaker: 0 }
agents:
  sh:
    command: |
      cat > /dev/null; env -i setsid sleep 5 & sleep 5 &
      sleep 0.03; date +%s%N | tee work; [ ! -e done ] || echo "<promise>COMPLETE</promise>"
hooks:
  pre_iteration: [{ name: before, command: 'sleep 0.01; sleep 5 & date +%s%N', pipe_output: true }]
  stop: [{ name: check, command: 'sleep 0.01' }]
  post_iteration: [{ name: after, command: 'env -i setsid sleep 5 & date +%s%N', pipe_output: true }]
  session_end: [{ name: bye, command: 'sleep 0.01' }]
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    /// A signal to the process that the shell started.
    Parent(Signal),
    /// A signal to the process that runs the session.
    Session(Signal),
    /// The shell above is killed.
    Shell,
    /// The shell and its whole job are killed at once: no process is left to clean up before the
    /// next session does.
    Job,
    /// The terminal is closed: the kernel sends HUP to the whole job.
    Terminal,
}

const ON_A_SCREEN: [Blow; 10] = [
    Blow::Parent(Signal::KILL),
    Blow::Parent(Signal::KILL),
    Blow::Parent(Signal::TERM),
    Blow::Parent(Signal::QUIT),
    Blow::Parent(Signal::HUP),
    Blow::Session(Signal::KILL),
    Blow::Session(Signal::TERM),
    Blow::Shell,
    Blow::Job,
    Blow::Terminal,
];
const HEADLESS: [Blow; 6] = [
    Blow::Session(Signal::KILL),
    Blow::Session(Signal::KILL),
    Blow::Session(Signal::TERM),
    Blow::Session(Signal::QUIT),
    Blow::Session(Signal::HUP),
    Blow::Job,
];

/// Reproducible random numbers (xorshift).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// creel started by a shell, with a screen or without.
enum Running {
    Screen(Terminal),
    Headless(Child),
}

impl Running {
    fn start(project: &Project, has_screen: bool) -> Self {
        let begun = !project.records().is_empty();
        let verb: &[&str] = if begun {
            &["resume", "s"]
        } else {
            &["run", "--trust", "-s", "s"]
        };
        let creel = project.command(verb);
        let mut shell = Command::new("sh");
        // The `exit` keeps the shell from replacing itself with creel.
        shell
            .arg("-c")
            .arg("\"$0\" \"$@\"; exit $?")
            .arg(creel.get_program())
            .args(creel.get_args());
        shell
            .current_dir(project.root())
            .env_remove("CREEL_SESSION");
        shell.envs(
            creel
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        if has_screen {
            return Self::Screen(Terminal::start(shell, (120, 40)));
        }
        shell
            .arg("--headless")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self::Headless(shell.process_group(0).spawn().expect("a shell"))
    }

    fn shell(&self) -> i32 {
        let pid = match self {
            Self::Screen(terminal) => terminal.pid(),
            Self::Headless(child) => child.id(),
        };
        i32::try_from(pid).expect("a number")
    }

    /// The process that the shell started, once it exists.
    fn parent(&self) -> Option<i32> {
        child_of(self.shell())
    }

    /// The process that runs the session, once it exists.
    fn session(&self) -> Option<i32> {
        match self {
            Self::Screen(_) => child_of(self.parent()?),
            Self::Headless(_) => self.parent(),
        }
    }

    /// Kills. Returns whether the target existed.
    fn strike(&self, blow: Blow) -> bool {
        let send = |pid: Option<i32>, signal| {
            pid.and_then(Pid::from_raw)
                .is_some_and(|pid| kill_process(pid, signal).is_ok())
        };
        let job = Pid::from_raw(self.shell());
        let send_to_job = |signal| job.is_some_and(|pid| kill_process_group(pid, signal).is_ok());
        match blow {
            Blow::Parent(signal) => send(self.parent(), signal),
            Blow::Session(signal) => send(self.session(), signal),
            Blow::Shell => send(Some(self.shell()), Signal::KILL),
            Blow::Job => send_to_job(Signal::KILL),
            Blow::Terminal => send_to_job(Signal::HUP),
        }
    }

    fn end(mut self) {
        match &mut self {
            Self::Screen(terminal) => drop(terminal.wait()),
            Self::Headless(child) => drop(child.wait()),
        }
    }
}

fn child_of(pid: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// All processes whose working directory is in the project, and whether the environment of each
/// shows that a session started it. A process keeps its working directory when it leaves its group
/// and clears its environment.
fn living(root: &Path) -> BTreeMap<i32, bool> {
    let all = fs::read_dir("/proc").expect("a process table").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let here = pids.filter(|pid| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(root))
    });
    let marked = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(b"CREEL_MARK="))
    };
    here.filter(|pid| lives(*pid))
        .map(|pid| (pid, marked(&pid)))
        .collect()
}

struct Soak {
    project: Project,
    root: PathBuf,
    dice: Dice,
    has_screen: bool,
    seed: u64,
    round: usize,
}

impl Soak {
    #[track_caller]
    fn until(&self, what: &str, blow: Option<Blow>, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + LONG.max(PATIENCE);
        while !holds() {
            let names: Vec<String> = living(&self.root)
                .keys()
                .map(|pid| {
                    fs::read_to_string(format!("/proc/{pid}/cmdline"))
                        .unwrap_or_default()
                        .replace('\0', " ")
                })
                .collect();
            assert!(
                Instant::now() < deadline,
                "seed {}, kill {}, {blow:?}: waited in vain: {what}; there are {names:?}",
                self.seed,
                self.round
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// One session: killed again and again, then allowed to finish.
    fn session(&mut self, kills: usize, blows: &[Blow]) {
        for _ in 0..kills {
            self.round += 1;
            let blow = blows
                [usize::try_from(self.dice.below(blows.len() as u64)).expect("a small number")];
            self.kill(blow);
        }
        fs::write(self.root.join("done"), "").expect("a file");
        let ended = self.project.creel(&["resume", "s", "--headless"]);
        assert_eq!(
            ended.code, 0,
            "seed {}, kill {}: {}",
            self.seed, self.round, ended.err
        );
        self.until("nothing is left at the end", None, || {
            living(&self.root).is_empty()
        });
        self.check(true);
    }

    fn kill(&mut self, blow: Blow) {
        let before = self.project.records().len();
        let left = living(&self.root);
        let running = Running::start(&self.project, self.has_screen);
        // If the last kill left something running, the new session must get far enough to end it.
        let least = if left.is_empty() { 0 } else { 3 };
        let records = usize::try_from(least + self.dice.below(20)).expect("a small number");
        self.until("the session goes on", Some(blow), || {
            self.project.records().len() >= before + records
        });
        let marked = left
            .iter()
            .filter(|(_, marked)| **marked)
            .map(|(pid, _)| *pid);
        for pid in marked {
            self.until("what the last one left is ended", Some(blow), || {
                !living(&self.root).contains_key(&pid)
            });
        }
        let moment = Instant::now() + Duration::from_micros(self.dice.below(3000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        self.until("there is something to strike", Some(blow), || {
            running.strike(blow)
        });
        running.end();
        // No process is left to clean up after these. Only the environment shows the next session
        // which processes are its own.
        let nobody_left =
            blow == Blow::Job || !self.has_screen && blow == Blow::Session(Signal::KILL);
        self.until("nothing is left", Some(blow), || {
            let left = living(&self.root);
            left.is_empty() || nobody_left && left.keys().all(|pid| !is_creel(*pid))
        });
        self.check(false);
    }

    /// The journal is complete, and each item was delivered at most once.
    fn check(&self, to_the_end: bool) {
        let records = self.project.records();
        let place = format!("seed {}, kill {}", self.seed, self.round);
        assert!(
            records
                .iter()
                .zip(1..)
                .all(|(record, seq)| record["seq"] == seq),
            "{place}: the journal has gaps"
        );
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for record in &records {
            let items: Vec<u64> = match record["kind"].as_str() {
                Some("pending_added") => {
                    times
                        .entry(record["item"].as_u64().expect("a number"))
                        .or_default();
                    continue;
                }
                Some("delivered") => record["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_u64)
                    .collect(),
                _ => continue,
            };
            for item in items {
                *times.entry(item).or_default() += 1;
            }
        }
        let allowed = if to_the_end { 1..=1 } else { 0..=1 };
        assert!(
            times.values().all(|times| allowed.contains(times)),
            "{place}: {times:?}"
        );
    }
}

fn is_creel(pid: i32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("creel"))
}

pub(crate) fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {value}"))
    })
}

/// Of the dice.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("after 1970")
        .as_nanos();
    number("CREEL_KILL_SEED").unwrap_or(u64::try_from(now & u128::from(u64::MAX)).expect("it fits"))
        | 1
}

fn soak(has_screen: bool, blows: &[Blow]) {
    let asked = number("CREEL_KILLS").map(|kills| usize::try_from(kills / 2).expect("a number"));
    let seed = seed();
    let mut dice = Dice(seed);
    let mut round = 0;
    let kills = asked.unwrap_or(KILLS);
    while round < kills {
        let project = Project::with(CONFIG);
        let root = project.root();
        let mut soak = Soak {
            project,
            root,
            dice,
            has_screen,
            seed,
            round,
        };
        soak.session(PER_SESSION.min(kills - round), blows);
        (dice, round) = (soak.dice, soak.round);
    }
}

#[test]
fn sessions_on_a_screen_survive_kills_at_random_moments() {
    soak(true, &ON_A_SCREEN);
}

#[test]
fn headless_sessions_survive_kills_at_random_moments() {
    soak(false, &HEADLESS);
}
