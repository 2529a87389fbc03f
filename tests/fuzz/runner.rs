//! Runs one target: its corpus, then mutations of it, until the count or the time is reached.

use std::{
    cell::Cell,
    collections::HashSet,
    env, fs, panic,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::mutator::{Random, mutate};

/// An input that takes longer hangs. Inputs take microseconds, so a busy machine cannot cause this.
pub const TOO_LONG: Duration = Duration::from_mins(1);
/// In bytes. A process that needs more fails.
pub const TOO_MUCH: u64 = 2 << 30;
/// How many mutations run in the suite …
const MUTATIONS: u64 = 2_000;
/// … unless the machine is too busy for them.
const AT_MOST: Duration = Duration::from_secs(6);
/// How many inputs are kept because they had a new outcome.
const KEPT: usize = 4_000;
/// How many attempts there are to shorten a failing input.
const ATTEMPTS: usize = 4_000;

/// Returns a short description of the outcome: an input with a new one is worth mutating. Panics if
/// a property fails.
pub type Target = fn(&[u8]) -> String;

/// The input that is running now, for the watchdog thread.
type Current = Arc<Mutex<Option<(Vec<u8>, Instant)>>>;

thread_local! {
    /// Whether this thread catches panics, and shows them only once their input is short.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic was.
    static PLACE: Cell<String> = const { Cell::new(String::new()) };
}

fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                PLACE.set(
                    info.location()
                        .map(|place| format!("{place}: "))
                        .unwrap_or_default(),
                );
            } else {
                usual(info);
            }
        }));
    });
}

/// Fuzzes one target, configured by the environment.
pub fn fuzz(name: &'static str, target: Target) {
    quiet_panics();
    let chosen = env::var("CREEL_FUZZ_TARGET").ok();
    if chosen.is_some_and(|chosen| !chosen.split(',').any(|one| one.trim() == name)) {
        return;
    }
    let current = Current::default();
    let watched = Arc::downgrade(&current);
    thread::spawn(move || {
        while let Some(current) = watched.upgrade() {
            watch(name, &current);
            drop(current);
            thread::sleep(Duration::from_millis(100));
        }
    });
    if let Some(path) = env::var_os("CREEL_FUZZ_INPUT") {
        let input = fs::read(&path).expect("the input can be read");
        println!(
            "{name}: {}",
            execute(target, &input, &current).unwrap_or_else(|why| panic!("{name}: {why}"))
        );
        return;
    }
    let corpus = corpus(name);
    for (path, input) in &corpus {
        if let Err(why) = execute(target, input, &current) {
            panic!("{name}: the corpus fails at {}: {why}", path.display());
        }
    }
    run(
        name,
        target,
        corpus.into_iter().map(|(_, input)| input).collect(),
        &current,
    );
}

fn run(name: &str, target: Target, mut pool: Vec<Vec<u8>>, current: &Current) {
    let number = |variable: &str| {
        env::var(variable)
            .ok()
            .map(|text| text.parse().expect("a number"))
    };
    let seconds: Option<u64> = number("CREEL_FUZZ_SECONDS");
    let seed = number("CREEL_FUZZ_SEED").unwrap_or(1);
    let (mut random, began) = (Random::new(seed), Instant::now());
    let mut classes: HashSet<String> = pool.iter().map(|input| target(input)).collect();
    let mut executions = 0;
    let is_over = |executions: u64| match seconds {
        Some(seconds) => began.elapsed() > Duration::from_secs(seconds),
        None => executions >= MUTATIONS || began.elapsed() > AT_MOST,
    };
    while !is_over(executions) {
        let (one, two) = (random.below(pool.len()), random.below(pool.len()));
        let input = mutate(&mut random, &pool[one], &pool[two]);
        executions += 1;
        match execute(target, &input, current) {
            Ok(class) => {
                if pool.len() < KEPT && classes.insert(class) {
                    pool.push(input);
                }
            }
            Err(why) => fail(name, target, input, &why, current),
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "{name}: {executions} executions in {took:.1} s, {} kinds of outcome, seed {seed}",
        classes.len()
    );
}

/// The target's description, or the message of its panic.
fn execute(target: Target, input: &[u8], current: &Current) -> Result<String, String> {
    let set = |now| *current.lock().unwrap_or_else(PoisonError::into_inner) = now;
    set(Some((input.to_vec(), Instant::now())));
    QUIET.set(true);
    let result = panic::catch_unwind(|| target(input));
    QUIET.set(false);
    set(None);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        format!("{}{text}", PLACE.take())
    })
}

fn fail(name: &str, target: Target, input: Vec<u8>, why: &str, current: &Current) -> ! {
    let short = shorten(target, input, current);
    let path = keep(name, &short);
    let why = execute(target, &short, current)
        .err()
        .unwrap_or_else(|| why.to_owned());
    panic!("{name}: {why}\n{}", replay(name, &path));
}

fn replay(name: &str, path: &Path) -> String {
    let path = path.display();
    format!(
        "run it alone: CREEL_FUZZ_TARGET={name} CREEL_FUZZ_INPUT={path} cargo test --test fuzz -- --nocapture"
    )
}

fn keep(name: &str, input: &[u8]) -> PathBuf {
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{name}-{hash:016x}"));
    fs::write(&path, input).expect("the failing input can be kept");
    path
}

/// The shortest failing input found by removing smaller and smaller pieces.
fn shorten(target: Target, mut input: Vec<u8>, current: &Current) -> Vec<u8> {
    let mut attempts = 0;
    let mut piece = input.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < input.len() && attempts < ATTEMPTS {
            attempts += 1;
            let end = (at + piece).min(input.len());
            let without = [&input[..at], &input[end..]].concat();
            if execute(target, &without, current).is_err() {
                input = without;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    input
}

/// Ends the test program if an input hangs or needs too much memory: a thread cannot be stopped.
fn watch(name: &str, current: &Current) {
    let current = current.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((input, since)) = &*current else {
        return;
    };
    let hangs = since.elapsed() > TOO_LONG;
    if hangs || resident().is_some_and(|bytes| bytes > TOO_MUCH) {
        let what = if hangs {
            "an input hangs"
        } else {
            "too much memory is used"
        };
        eprintln!("{name}: {what}\n{}", replay(name, &keep(name, input)));
        std::process::exit(1);
    }
}

/// The memory of this process, if the system reports it.
fn resident() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    statm
        .split(' ')
        .nth(1)?
        .parse::<u64>()
        .ok()
        .map(|pages| pages * 4096)
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(name);
    let entries = fs::read_dir(&folder)
        .expect("the target has a corpus")
        .map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.sort();
    let read = |path: PathBuf| {
        let input = fs::read(&path).expect("a file of the corpus");
        (path, input)
    };
    paths.into_iter().map(read).collect()
}
