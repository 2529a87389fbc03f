//! The screen's performance figures, each a ratio of two times from the same run.
//!
//! `cargo bench --bench screen` measures all of them, `cargo bench --bench screen -- frame` one.

#[path = "support/graph.rs"]
mod graph;
#[path = "support/measure.rs"]
mod measure;
#[path = "support/memory.rs"]
mod memory;

use std::{
    cell::{Cell, RefCell},
    fs,
    io::{BufWriter, Write as _},
    path::Path,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use crossterm::event::{KeyCode, KeyEvent};
use measure::{Figure, Finding, Result, Verdict, check, compare, median};
use memory::{forget_peak, peak_memory_kib};
use ratatui::{buffer::Buffer, layout::Rect};

use creel::{
    config::ThemeName as Choice,
    engine::{
        budget::CostTotal,
        event::{Event, IterationOutcome, RetryEvent, SessionEvent, TurnEvent},
        ids::TurnId,
        time::UnixTime,
    },
    journal::{Record, RecordSpan, RecordTail},
    present::{
        session_chip::CurrentActivity,
        session_list::{ListedSession, ListedState},
    },
    sessions::{SessionChange, SessionKey},
    tui::{
        home::{
            model::{HomeModel, HomeScope},
            view as home_view,
        },
        keymap::Keymap,
        model::{Pane, ScreenMode, ScreenModel},
        request::ScreenEvent,
        theme::ScreenTheme,
        update::update,
        view,
    },
};

/// A long stream and a short one.
const LONG: usize = 1_000_000;
const SHORT: usize = 1_000;
/// Many tasks and few.
const MANY: u32 = 10_000;
const FEW: u32 = 100;
/// The iterations of a session that runs for a night.
const ITERATIONS: u32 = 500;
/// How many frames scroll over them.
const SCROLLED: u32 = 200;
/// Bytes of agent text.
const TEXT: usize = 100_000_000;
/// How much the memory may grow meanwhile.
const MEMORY_KIB: u64 = 128 * 1024;
/// The time between two frames, as on the real screen.
const FRAME: Duration = Duration::from_millis(16);

fn main() -> ExitCode {
    measure::run(&[
        Figure {
            name: "home",
            measure: home,
        },
        // The long stream comes last: it leaves the memory large.
        Figure {
            name: "absorb",
            measure: absorb,
        },
        Figure {
            name: "first",
            measure: first,
        },
        Figure {
            name: "tasks",
            measure: tasks,
        },
        Figure {
            name: "iterations",
            measure: iterations,
        },
        Figure {
            name: "frame",
            measure: frame,
        },
    ])
}

fn model(size: (u16, u16)) -> ScreenModel {
    let mut model = ScreenModel::new(
        Keymap::standard(),
        ScreenTheme::chosen(Choice::Dark, false),
        ScreenMode::Live,
    );
    model.size = size;
    model
}

fn draw(model: &mut ScreenModel, feed: Option<&RecordTail>) {
    let area = Rect {
        x: 0,
        y: 0,
        width: model.size.0,
        height: model.size.1,
    };
    let mut buffer = Buffer::empty(area);
    view::prepare(model, area, &|spot| {
        feed.and_then(|feed| feed.again(spot).ok())
    });
    view::draw(model, area, &mut buffer);
    std::hint::black_box(&buffer);
}

fn said(seq: u64, turn: u64, text: String) -> Record {
    let event = Event::Turn(TurnEvent::AgentSaid {
        iteration: 1,
        turn: TurnId(turn),
        text,
    });
    Record {
        v: 1,
        seq,
        at: UnixTime(0),
        session: "bench".into(),
        event,
        chain: None,
    }
}

/// A screen over a journal of this many records, in turns of a hundred.
struct Long {
    model: ScreenModel,
    feed: RecordTail,
}

impl Long {
    fn new(lines: usize, folder: &Path) -> Result<RefCell<Self>> {
        let journal = folder.join(format!("{lines}.jsonl"));
        let mut out = BufWriter::new(fs::File::create(&journal)?);
        for n in 0..lines as u64 {
            let text = format!("line {n} of what the agent says, with `code` and **more**\n");
            out.write_all(said(n + 1, n / 100, text).to_line().as_bytes())?;
        }
        out.flush()?;
        let mut long = Self {
            model: model((120, 40)),
            feed: RecordTail::open(&journal)?,
        };
        while let Some((spot, record)) = long.feed.next_placed()? {
            long.model.take(spot, &record);
        }
        Ok(RefCell::new(long))
    }

    fn frames(&mut self) -> Duration {
        let started = Instant::now();
        for n in 0..200 {
            self.model.take(
                RecordSpan {
                    offset: 0,
                    length: 0,
                },
                &said(n, u64::MAX, format!("new line {n}\n")),
            );
            draw(&mut self.model, Some(&self.feed));
        }
        started.elapsed()
    }
}

/// A frame over a long stream compared with one over a short stream. A record arrives before each,
/// so that no frame repeats the last one.
fn frame() -> Result<Vec<Finding>> {
    let folder = tempfile::tempdir()?;
    let (long, short) = (
        Long::new(LONG, folder.path())?,
        Long::new(SHORT, folder.path())?,
    );
    let measure = || {
        compare(
            9,
            || Ok(long.borrow_mut().frames()),
            || Ok(short.borrow_mut().frames()),
        )
    };
    let at_the_end = measure()?;
    // And while the user reads at the beginning: that text is on disk by now.
    long.borrow_mut().model.stream.to_top();
    short.borrow_mut().model.stream.to_top();
    let at_the_top = measure()?;
    Ok(vec![
        at_the_end.finding("200 frames over 1,000,000 lines", "over 1,000 lines", 1.5),
        at_the_top.finding("the same, scrolled to the top", "over 1,000 lines", 1.5),
    ])
}

/// Scrolling through a session of many iterations compared with one of few, and jumping through it.
fn iterations() -> Result<Vec<Finding>> {
    let (many, few) = (
        RefCell::new(iterated(ITERATIONS)),
        RefCell::new(iterated(ITERATIONS / 50)),
    );
    let compared = compare(9, || Ok(scroll_frames(&many)), || Ok(scroll_frames(&few)))?;
    let (all, slowest) = scrolled(&mut many.borrow_mut());
    let each = all / SCROLLED;
    Ok(vec![
        compared.finding(
            "200 frames while scrolling over 500 iterations",
            "over 10 iterations",
            1.5,
        ),
        Finding {
            text: format!(
                "each of these frames took {each:?}, the slowest {slowest:?}, allowed {FRAME:?} for each"
            ),
            // One frame can be slow because of something else on the machine.
            verdict: if each <= FRAME {
                Verdict::Ok
            } else {
                Verdict::Missed
            },
        },
    ])
}

/// A screen of a session with this many iterations, each with text, a retry and a check.
fn iterated(count: u32) -> ScreenModel {
    let mut model = model((120, 40));
    let mut seq = 0;
    let mut take = |event: Event| {
        seq += 1;
        let at = UnixTime(i64::try_from(seq).unwrap_or(0) * 1_000);
        let record = Record {
            at,
            event,
            ..said(seq, 1, String::new())
        };
        let spot = RecordSpan {
            offset: 0,
            length: 0,
        };
        model.take(spot, &record);
    };
    for iteration in 1..=count {
        take(Event::Session(SessionEvent::IterationStarted { iteration }));
        for line in 0..40 {
            take(Event::Turn(TurnEvent::AgentSaid {
                iteration,
                turn: TurnId(u64::from(iteration)),
                text: format!("line {line} of iteration {iteration}\n\n"),
            }));
        }
        take(Event::Retry(RetryEvent::Counted {
            used: 1,
            limit: 5,
            hook: "tests".into(),
            reason: "2 of 212 tests failed".into(),
            no_progress: false,
            feedback: None,
        }));
        take(Event::Session(SessionEvent::IterationCompleted {
            iteration,
            outcome: IterationOutcome::Done,
        }));
    }
    model
}

/// Frames while the user scrolls up, and the slowest of them. A short session has fewer rows: at its
/// beginning the frames only stay the same, so that the comparison is a strict one.
fn scrolled(model: &mut ScreenModel) -> (Duration, Duration) {
    let (started, mut slowest) = (Instant::now(), Duration::ZERO);
    model.stream.to_end();
    draw(model, None);
    for _ in 0..SCROLLED {
        let frame = Instant::now();
        let key = KeyEvent::from(KeyCode::Up);
        update(model, ScreenEvent::Key(key), &|_| None);
        draw(model, None);
        slowest = slowest.max(frame.elapsed());
    }
    (started.elapsed(), slowest)
}

fn scroll_frames(model: &RefCell<ScreenModel>) -> Duration {
    scrolled(&mut model.borrow_mut()).0
}

/// A frame with a tree of many tasks compared with one with few; then the same with a changed task
/// before each frame.
fn tasks() -> Result<Vec<Finding>> {
    let (many, few) = (RefCell::new(planned(MANY)?), RefCell::new(planned(FEW)?));
    let still = compare(
        9,
        || Ok(task_frames(&many, |_| {})),
        || Ok(task_frames(&few, |_| {})),
    )?;
    // The cost of a changed task for the screen: all tasks are arranged again.
    let change = |model: &mut ScreenModel| model.board.forget();
    let changing = compare(
        5,
        || Ok(task_frames(&many, change)),
        || Ok(task_frames(&few, change)),
    )?;
    Ok(vec![
        still.finding(
            "200 frames with a tree of 10,000 tasks",
            "with 100 tasks",
            1.5,
        ),
        Finding {
            text: changing.tell("the same, a task changed before each", "with 100 tasks"),
            verdict: Verdict::Information,
        },
    ])
}

/// A screen that shows a tree of tasks.
fn planned(tasks: u32) -> Result<ScreenModel> {
    let mut model = model((120, 40));
    for record in graph::session(tasks)?.1 {
        model.take(
            RecordSpan {
                offset: 0,
                length: 0,
            },
            &record,
        );
    }
    model.panes.focus = Pane::Tasks;
    model.board.turn();
    Ok(model)
}

fn task_frames(model: &RefCell<ScreenModel>, before: impl Fn(&mut ScreenModel)) -> Duration {
    let mut model = model.borrow_mut();
    let started = Instant::now();
    for _ in 0..200 {
        before(&mut model);
        draw(&mut model, None);
    }
    started.elapsed()
}

/// The first frame of a large screen, from parsing the keys to the last cell.
fn first() -> Result<Vec<Finding>> {
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("journal.jsonl");
    fs::write(
        &journal,
        said(1, 1, "# Hello\n\n- one\n- two\n".into()).to_line(),
    )?;
    let one = || {
        let started = Instant::now();
        let mut model = model((200, 60));
        let mut feed = RecordTail::open(&journal)?;
        while let Some((spot, record)) = feed.next_placed()? {
            model.take(spot, &record);
        }
        draw(&mut model, Some(&feed));
        Ok(started.elapsed())
    };
    let mut times = (0..21).map(|_| one()).collect::<Result<Vec<Duration>>>()?;
    times.sort();
    let median = times[times.len() / 2];
    let verdict = if median <= Duration::from_millis(5) {
        Verdict::Ok
    } else {
        Verdict::Missed
    };
    let text = format!(
        "the first frame at 200x60: {:.2} ms, allowed 5.00 ms",
        median.as_secs_f64() * 1_000.0
    );
    Ok(vec![Finding { text, verdict }])
}

/// 100 MB of agent text through the journal onto the screen, compared with `tmux` showing the same
/// from `cat`.
fn absorb() -> Result<Vec<Finding>> {
    let folder = tempfile::tempdir()?;
    let (journal, plain) = (
        folder.path().join("journal.jsonl"),
        folder.path().join("plain.txt"),
    );
    write_text(&journal, &plain)?;
    forget_peak();
    let before = peak_memory_kib()?;
    let grown = Cell::new(0);
    let ours = || {
        let started = Instant::now();
        show(&journal)?;
        grown.set(grown.get().max(peak_memory_kib()?.saturating_sub(before)));
        Ok(started.elapsed())
    };
    let has_tmux = Command::new("tmux").arg("-V").output().is_ok();
    let speed = if has_tmux {
        compare(5, ours, || tmux(&plain))?.finding(
            "100 MB on the screen",
            "tmux showing the same",
            1.0,
        )
    } else {
        let took = ours()?;
        let text = format!(
            "100 MB on the screen: {:.0} ms; there is no tmux to compare with",
            took.as_secs_f64() * 1_000.0
        );
        Finding {
            text,
            verdict: Verdict::Information,
        }
    };
    let verdict = if grown.get() <= MEMORY_KIB {
        Verdict::Ok
    } else {
        Verdict::Missed
    };
    let text = format!(
        "memory grew by {} KiB meanwhile, allowed {MEMORY_KIB} KiB",
        grown.get()
    );
    Ok(vec![speed, Finding { text, verdict }])
}

fn show(journal: &Path) -> Result<()> {
    let mut model = model((120, 40));
    let mut feed = RecordTail::open(journal)?;
    let mut drawn = Instant::now();
    while let Some((spot, record)) = feed.next_placed()? {
        model.take(spot, &record);
        if drawn.elapsed() >= FRAME {
            draw(&mut model, Some(&feed));
            drawn = Instant::now();
        }
    }
    draw(&mut model, Some(&feed));
    Ok(())
}

/// A terminal of the same size that shows the same text, until it has read all of it.
fn tmux(plain: &Path) -> Result<Duration> {
    let name = format!("creel-bench-{}", std::process::id());
    let script = format!("cat '{}'; tmux -L {name} wait-for -S done", plain.display());
    let started = Instant::now();
    let mut run = Command::new("tmux");
    run.args([
        "-L",
        &name,
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        "120",
        "-y",
        "40",
        &script,
    ]);
    check(
        run.env_remove("TMUX").status()?.success(),
        "tmux does not start",
    )?;
    Command::new("tmux")
        .args(["-L", &name, "wait-for", "done"])
        .status()?;
    let took = started.elapsed();
    let _ = Command::new("tmux")
        .args(["-L", &name, "kill-server"])
        .output();
    Ok(took)
}

fn write_text(journal: &Path, plain: &Path) -> Result<()> {
    let (mut records, mut text) = (
        BufWriter::new(fs::File::create(journal)?),
        BufWriter::new(fs::File::create(plain)?),
    );
    let piece: String = (0..40)
        .map(|n| format!("{n} some words that an agent could have said about its work so far\n"))
        .collect();
    let mut written = 0;
    let mut seq = 0;
    while written < TEXT {
        seq += 1;
        records.write_all(said(seq, seq / 400, piece.clone()).to_line().as_bytes())?;
        text.write_all(piece.as_bytes())?;
        written += piece.len();
    }
    records.flush()?;
    text.flush()?;
    Ok(())
}

/// How long a frame of the home screen may take.
const HOME_FRAME: Duration = Duration::from_millis(2);
/// Running sessions on it, and ended ones.
const RUNNING: usize = 200;
const ENDED: usize = 5_000;

fn home_session(n: usize, state: ListedState) -> SessionChange {
    let at = UnixTime(i64::try_from(n).unwrap_or(0) * 1_000);
    let project = format!("/home/me/src/project-{}", n % 20);
    let listed = ListedSession {
        agent: "claude".into(),
        iteration: 3,
        max_iterations: 10,
        cost: CostTotal {
            known: 0.42,
            turns: 1,
            ..CostTotal::default()
        },
        started: Some(at),
        state,
        ..ListedSession::unread(&format!("session-{n}"), &project, at)
    };
    SessionChange::Seen(
        SessionKey::Here(format!("{project}/.creel/sessions/{n}").into()),
        Box::new(listed),
    )
}

fn home_of(ended: usize) -> RefCell<HomeModel> {
    let works = |n: usize| {
        let since = Some(UnixTime(i64::try_from(n).unwrap_or(0)));
        let activity = CurrentActivity::Works {
            since,
            last_update: since,
            silent: false,
            step: None,
            then: None,
        };
        home_session(
            n,
            ListedState::Runs {
                activity,
                reason: String::new(),
            },
        )
    };
    let all = (0..RUNNING)
        .map(works)
        .chain((0..ended).map(|n| home_session(RUNNING + n, ListedState::Unread)));
    let mut model = HomeModel::new(
        Keymap::standard(),
        ScreenTheme::chosen(Choice::Dark, false),
        HomeScope::Machine,
    );
    model.size = (200, 50);
    model.take_all(all.collect());
    RefCell::new(model)
}

/// 200 frames of the home screen, each a quarter of a second later than the one before.
fn home_frames(model: &RefCell<HomeModel>, change: impl Fn(&mut HomeModel, usize)) -> Duration {
    let mut model = model.borrow_mut();
    let area = Rect {
        x: 0,
        y: 0,
        width: model.size.0,
        height: model.size.1,
    };
    let started = Instant::now();
    for n in 0..200 {
        change(&mut model, n);
        model.now = UnixTime(model.now.0 + 250);
        let mut buffer = Buffer::empty(area);
        home_view::prepare(&mut model, area);
        home_view::draw(&model, area, &mut buffer);
        std::hint::black_box((&buffer, model.next_tick(), model.unread_in_view()));
    }
    started.elapsed()
}

/// A frame of the home screen with 200 running sessions; then with 5,000 ended ones as well.
fn home() -> Result<Vec<Finding>> {
    let (few, many) = (home_of(0), home_of(ENDED));
    let frame = median(
        (0..9).map(|_| home_frames(&few, |_, _| {}) / 200),
        Duration::cmp,
    );
    let still = compare(
        9,
        || Ok(home_frames(&many, |_, _| {})),
        || Ok(home_frames(&few, |_, _| {})),
    )?;
    let change = |model: &mut HomeModel, n: usize| {
        let paused = ListedState::Runs {
            activity: CurrentActivity::Paused { by: String::new() },
            reason: String::new(),
        };
        model.take(vec![home_session(n % RUNNING, paused)]);
    };
    let changing = home_frames(&many, change) / 200;
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1_000.0);
    Ok(vec![
        Finding {
            text: format!(
                "a frame with 200 running sessions: {}, allowed {}",
                ms(frame),
                ms(HOME_FRAME)
            ),
            verdict: if frame <= HOME_FRAME {
                Verdict::Ok
            } else {
                Verdict::Missed
            },
        },
        still.finding(
            "200 frames with 200 running and 5,000 ended sessions",
            "with 200 running ones",
            1.5,
        ),
        Finding {
            text: format!("a frame after a change of one of them: {}", ms(changing)),
            verdict: Verdict::Information,
        },
    ])
}
