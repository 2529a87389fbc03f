//! Draws the home screen. No I/O, no decisions.
//!
//! # Invariants
//! - At every width, a row shows the sign, the name, what the session does, its iteration and its
//!   time.

use crossterm::event::KeyEvent;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{
    model::{
        BoardPart, HomeLine, HomeModal, HomeModel, HomeRow, HomeScope, MergeState, WorkerBoard,
    },
    new_session::NewSessionForm,
    preview,
};
use crate::{
    config::MotionMode,
    engine::time::TimeSpan,
    present::{
        session_chip::ChipRole,
        session_list::{ListedState, SessionGroup, short_path},
        style::spinner_frame,
        tables::queue_counts,
        text::{counted, plain, running_clock, short_span},
        usage,
    },
    tui::{
        keymap::{GlobalKey, HomeKey, WorkerKey},
        modals::frame::{KeyRow, key_in_row},
        text::{fit, wrap},
        theme::ThemeRole,
        view::{chip_role, facts},
    },
};

/// The smallest screen with room for a list.
const SMALLEST: (u16, u16) = (24, 6);
const NAME: usize = 24;
/// The longest name on a narrow screen.
const SHORT_NAME: usize = 18;
const PROJECT: usize = 28;
/// In columns. A narrower screen has the project below the list.
const WITH_PROJECT: u16 = 80;
/// In columns. A wider screen has the goals of the sessions in the list.
const WITH_GOAL: usize = 140;
/// In columns. A list that is wider has the retries of a worker's sessions.
const WITH_RETRIES: usize = 66;
const AGENT: usize = 14;
const HOST: usize = 16;

/// Prepares what lies over the list for drawing.
pub fn prepare(model: &mut HomeModel, area: Rect) {
    if model.size != (area.width, area.height) {
        model.size = (area.width, area.height);
        model.move_by(0);
    }
    let HomeModel { modal, look, .. } = model;
    match modal {
        Some(HomeModal::Help(help)) => help.prepare(&look.keymap, &look.theme, area),
        Some(HomeModal::NewSession(form)) => form.prepare(&look.theme),
        Some(HomeModal::Question(_) | HomeModal::Filter | HomeModal::Hint(..)) | None => {}
    }
}

pub fn draw(model: &HomeModel, area: Rect, buffer: &mut Buffer) {
    let theme = &model.look.theme;
    buffer.set_style(area, theme.style(ThemeRole::Text));
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = fit("Terminal too small", usize::from(area.width));
        theme.line(ThemeRole::Warning, text).render(area, buffer);
        return;
    }
    let line = |y: u16| Rect {
        y: area.y + y,
        height: 1,
        ..area
    };
    draw_header(model, line(0), buffer);
    let detail = u16::from(model.has_detail());
    let body = Rect {
        y: area.y + 1,
        height: area.height - 2 - detail,
        ..area
    };
    if model.has_detail() {
        draw_detail(model, line(area.height - 2), buffer);
    }
    let (list, beside) = preview::split(body);
    if let Some(beside) = beside.filter(|_| !model.rows().is_empty()) {
        preview::draw(model, beside, buffer);
    }
    if model.rows().is_empty() && model.worker.is_some() {
        draw_list(model, body, buffer);
    } else if model.rows().is_empty() {
        if model.has_queue() {
            queue_line(model, usize::from(body.width)).render(Rect { height: 1, ..body }, buffer);
        }
        draw_empty(model, body, buffer);
    } else {
        draw_list(model, list, buffer);
    }
    draw_footer(model, line(area.height - 1), buffer);
    match &model.modal {
        Some(HomeModal::Help(help)) => help.draw(&model.look.keymap, theme, area, buffer),
        Some(HomeModal::Question(question)) => question.draw(theme, area, buffer),
        Some(HomeModal::NewSession(form)) => form.draw(theme, area, buffer),
        Some(HomeModal::Filter | HomeModal::Hint(..)) | None => {}
    }
    model.look.replace_signs(buffer);
}

/// Whether a column belongs to the list, not to the preview.
pub fn is_in_list(area: Rect, column: u16) -> bool {
    column < preview::split(area).0.right()
}

/// The key that the screen shows at this position.
pub fn key_at(model: &HomeModel, area: Rect, column: u16, row: u16) -> Option<KeyEvent> {
    let last = area.bottom().saturating_sub(1);
    let kind = match &model.modal {
        Some(HomeModal::Help(_) | HomeModal::Filter | HomeModal::Hint(..)) | None
            if row == last =>
        {
            KeyRow::Hints
        }
        Some(HomeModal::NewSession(_)) if row == NewSessionForm::hint_row(area) => KeyRow::Hints,
        None if model.rows().is_empty() && row > area.y => KeyRow::Answer,
        Some(
            HomeModal::Help(_)
            | HomeModal::Filter
            | HomeModal::Hint(..)
            | HomeModal::NewSession(_)
            | HomeModal::Question(_),
        )
        | None => {
            return None;
        }
    };
    let mut buffer = Buffer::empty(area);
    draw(model, area, &mut buffer);
    key_in_row(&buffer, kind, column, row)
}

/// ` worker · 3 jobs · claude   12 done · 3 running · 2 blocked · 9 ready   $4.20 · 1h 08m`
/// What the header of a worker says on the right: at most this many counts, and what was used.
fn worker_counts(
    model: &HomeModel,
    worker: &WorkerBoard,
    most: usize,
    used: Option<&str>,
) -> Vec<Span<'static>> {
    let theme = &model.look.theme;
    let waiting = model.count(SessionGroup::NeedsYou);
    let queue = model.queue();
    let running = model.count(SessionGroup::Running);
    let counts = [
        (worker.done, "done", ThemeRole::Good),
        (running, "running", ThemeRole::Text),
        (queue.ready, "ready", ThemeRole::Text),
        (queue.waiting, "waiting", ThemeRole::Faint),
    ];
    let mut right = Vec::new();
    if waiting > 0 {
        let verb = if waiting == 1 { "needs" } else { "need" };
        right.push(theme.span(ThemeRole::Alert, format!(" {waiting} {verb} you ")));
    }
    let shown = counts.into_iter().filter(|(count, ..)| *count > 0);
    for (count, what, role) in shown.take(most) {
        let gap = if right.is_empty() { "" } else { " · " };
        right.push(theme.span(ThemeRole::Faint, gap));
        right.push(theme.span(role, format!("{count} {what}")));
    }
    if let Some(used) = used {
        right.push(theme.span(ThemeRole::Faint, format!("   {used}")));
    }
    right.push(Span::raw(" "));
    right
}

fn draw_worker_header(model: &HomeModel, worker: &WorkerBoard, area: Rect, buffer: &mut Buffer) {
    let theme = &model.look.theme;
    let (cost, took) = (model.worker_cost(), model.now.since(worker.started));
    let cost = usage::cost(cost);
    let took = short_span(TimeSpan(took.0 - took.0 % 60_000));
    let took = if took == "0s" { String::new() } else { took };
    let used: Vec<String> = cost
        .into_iter()
        .chain([took])
        .filter(|part| !part.is_empty())
        .collect();
    let used = Some(used.join(" · ")).filter(|used| !used.is_empty());
    let used = used.as_deref();
    // What matters least is left out first.
    let forms = [
        (4, used),
        (3, used),
        (2, used),
        (2, None),
        (1, None),
        (0, None),
    ];
    let mut forms = forms
        .map(|(most, used)| worker_counts(model, worker, most, used))
        .into_iter();
    let fits = |right: &Vec<Span<'static>>| {
        let width: usize = right.iter().map(Span::width).sum();
        width + " worker ".len() <= usize::from(area.width)
    };
    let right = forms.find(fits).unwrap_or_default();
    let width: usize = right.iter().map(Span::width).sum();
    let state = if worker.finishes {
        " · finishes its sessions"
    } else if worker.is_paused {
        " · ⏸ paused"
    } else if worker.drains {
        " · drains the queue"
    } else {
        ""
    };
    let jobs = counted(worker.jobs, "job");
    let agents = plain(&worker.agents.join(", "));
    let room = usize::from(area.width).saturating_sub(width + 1);
    let heads = [
        format!(" worker · {jobs} · {agents}{state}"),
        format!(" worker · {jobs}{state}"),
        format!(" worker{state}"),
    ];
    let head = heads
        .iter()
        .find(|head| head.width() <= room)
        .unwrap_or(&heads[2]);
    theme
        .line(ThemeRole::Heading, fit(head, room.max(7)))
        .render(area, buffer);
    let width = u16::try_from(width)
        .unwrap_or(area.width)
        .min(area.width.saturating_sub(8));
    Line::from(right).render(
        Rect {
            x: area.right() - width,
            width,
            ..area
        },
        buffer,
    );
}

fn board_heading(model: &HomeModel, part: BoardPart, tasks: usize) -> Line<'static> {
    let theme = &model.look.theme;
    let all = match part {
        BoardPart::Merge => tasks,
        BoardPart::Next => model.queue().ready + model.queue().waiting,
    };
    let style = theme.style(ThemeRole::Heading).add_modifier(Modifier::BOLD);
    Line::from(vec![
        Span::styled(format!(" {}", part.title()), style),
        theme.span(ThemeRole::Faint, format!("  {all}")),
    ])
}

/// `  ✓ t11  Escape entities   merged as 4f2c1aa`
fn board_row(
    model: &HomeModel,
    part: BoardPart,
    nth: usize,
    width: usize,
) -> Option<Line<'static>> {
    let (theme, worker) = (&model.look.theme, model.worker.as_ref()?);
    let (task, sign, role) = match part {
        BoardPart::Merge => {
            let (task, state) = worker.merge.get(nth)?;
            match state {
                MergeState::Tested { .. } => {
                    (task, spinner(model).unwrap_or("▸"), ThemeRole::Running)
                }
                MergeState::Waits => (task, "⇄", ThemeRole::Faint),
                MergeState::Merged => (task, "✓", ThemeRole::Good),
            }
        }
        BoardPart::Next => {
            let task = worker.next.get(nth)?;
            (task, "·", ThemeRole::Faint)
        }
    };
    let (state, faint) = match worker.merge.get(nth).filter(|_| part == BoardPart::Merge) {
        Some((_, MergeState::Tested { since })) => {
            let time = running_clock(model.now.since(*since));
            (
                format!("  {} {time:>6}", plain(&task.note)),
                ThemeRole::Text,
            )
        }
        Some((_, MergeState::Waits | MergeState::Merged)) | None => {
            (format!("  {}", plain(&task.note)), ThemeRole::Faint)
        }
    };
    let note = fit(&state, width.saturating_sub(5));
    let name = fit(
        &plain(&task.name),
        width.saturating_sub(7 + note.width()).max(4),
    ) + "  ";
    let room = width.saturating_sub(5 + name.width() + note.width());
    Some(Line::from(vec![
        theme.span(role, format!("  {sign} ")),
        theme.span(ThemeRole::Text, name),
        theme.span(ThemeRole::Text, filled(&plain(&task.goal), room)),
        theme.span(faint, note),
    ]))
}

fn draw_header(model: &HomeModel, area: Rect, buffer: &mut Buffer) {
    if let Some(worker) = &model.worker {
        return draw_worker_header(model, worker, area, buffer);
    }
    let theme = &model.look.theme;
    let (waiting, runs) = (
        model.count(SessionGroup::NeedsYou),
        model.count(SessionGroup::Running),
    );
    let mut counts = vec![theme.span(ThemeRole::Text, format!("{runs} running"))];
    if waiting > 0 {
        let verb = if waiting == 1 { "needs" } else { "need" };
        counts.push(theme.span(ThemeRole::Faint, " · "));
        counts.push(theme.span(ThemeRole::Alert, format!(" {waiting} {verb} you ")));
    }
    let today = model.cost_today();
    if let Some(today) = usage::cost(today) {
        counts.push(theme.span(ThemeRole::Faint, format!(" · {today} today")));
    }
    counts.push(Span::raw(" "));
    let right: usize = counts.iter().map(Span::width).sum();
    let room = usize::from(area.width).saturating_sub(right + 1);
    let place = match model.scope {
        HomeScope::Machine => "",
        HomeScope::Fleet => " · all machines",
    };
    let filter = if model.filter.is_empty() {
        String::new()
    } else {
        format!("   /{}", plain(&model.filter))
    };
    let filter = fit(&filter, room.saturating_sub(7 + place.width()));
    Line::from(vec![
        theme.span(ThemeRole::Heading, format!(" creel{place}")),
        theme.span(ThemeRole::Key, filter),
    ])
    .render(area, buffer);
    let width = u16::try_from(right).unwrap_or(area.width).min(area.width);
    Line::from(counts).render(
        Rect {
            x: area.right() - width,
            width,
            ..area
        },
        buffer,
    );
}

/// The widths of the columns. A column without room has the width 0.
#[derive(Debug, Clone, Copy)]
struct HomeColumns {
    name: usize,
    project: usize,
    user: usize,
    host: usize,
    branch: usize,
    agent: usize,
    iteration: usize,
    retries: usize,
    time: usize,
    age: usize,
    cost: usize,
    what: usize,
    goal: usize,
}

/// The texts of a row, in the order of the columns.
struct RowTexts<'a> {
    row: &'a HomeRow,
    project: String,
    iteration: String,
    retries: String,
    time: String,
    age: String,
    cost: String,
}

impl<'a> RowTexts<'a> {
    fn of(model: &HomeModel, row: &'a HomeRow) -> Self {
        let session = &row.session;
        let known = session.max_iterations > 0;
        Self {
            row,
            project: short_path(&session.project, model.home_dir.as_deref()),
            iteration: if known {
                format!("{}/{}", session.iteration, session.max_iterations)
            } else {
                String::new()
            },
            retries: match (session.group(), session.retries) {
                (SessionGroup::Ended, _) | (_, (_, 0)) => String::new(),
                (SessionGroup::NeedsYou | SessionGroup::Running, (used, limit)) => {
                    facts::dots(used, limit)
                }
            },
            time: session.time(model.now, &model.look.zone),
            age: session.age(model.now, &model.look.zone),
            cost: usage::cost(session.cost).unwrap_or_default(),
        }
    }
}

impl HomeColumns {
    /// As wide as the rows in sight need, as far as there is room.
    fn of(texts: &[RowTexts<'_>], model: &HomeModel, width: usize) -> Self {
        let widest = |text: &dyn Fn(&RowTexts<'_>) -> usize, most: usize| {
            let widest = texts.iter().map(text).max().unwrap_or(0).min(most);
            if widest == 0 { 0 } else { widest + 2 }
        };
        let fleet = model.scope == HomeScope::Fleet;
        let of = |wanted: bool, column: usize| if wanted { column } else { 0 };
        let is_narrow = width < usize::from(WITH_PROJECT);
        let small = if width < 100 { SHORT_NAME } else { NAME };
        // What a session does is more important than the whole path of its project.
        let project = match width {
            0..100 => 14,
            100..160 => 20,
            160.. => PROJECT,
        };
        let with_retries = if model.worker.is_some() {
            WITH_RETRIES
        } else {
            WITH_GOAL
        };
        let mut columns = Self {
            name: widest(&|one| one.row.session.name.width(), small),
            // A worker has one project.
            project: of(
                !is_narrow && model.worker.is_none(),
                widest(&|one| one.project.width(), project),
            ),
            user: of(
                fleet && width >= 100,
                widest(&|one| one.row.session.user.width(), HOST),
            ),
            host: of(
                fleet,
                widest(
                    &|one| one.row.session.host.width(),
                    if width < 100 { 10 } else { HOST },
                ),
            ),
            branch: of(
                width >= 120,
                widest(&|one| one.row.session.branch.width(), NAME),
            ),
            agent: of(
                width >= 90,
                widest(&|one| one.row.session.agent.width(), AGENT),
            ),
            iteration: widest(&|one| one.iteration.width(), 9),
            retries: of(
                width >= with_retries,
                widest(&|one| one.retries.width(), 10),
            ),
            time: widest(&|one| one.time.width(), 16),
            age: of(width >= 120, widest(&|one| one.age.width(), 10)),
            cost: of(width >= 110, widest(&|one| one.cost.width(), 9)),
            what: 0,
            goal: 0,
        };
        // The cursor, the sign and a margin on the right.
        let fixed = 5 + [
            columns.name,
            columns.project,
            columns.user,
            columns.host,
            columns.branch,
            columns.agent,
        ]
        .into_iter()
        .chain([columns.iteration, columns.retries, columns.time])
        .chain([columns.age, columns.cost])
        .sum::<usize>();
        columns.what = width.saturating_sub(fixed);
        // What is left on a wide screen says what each session is for.
        let with_goal = if model.worker.is_some() {
            usize::from(WITH_PROJECT)
        } else {
            WITH_GOAL
        };
        if width >= with_goal && texts.iter().any(|one| !one.row.session.goal.is_empty()) {
            let words = |one: &RowTexts<'_>| {
                one.row
                    .session
                    .words(model.now, &model.look.zone)
                    .text
                    .width()
            };
            let needed = widest(&words, columns.what * 2 / 3);
            (columns.goal, columns.what) = (columns.what.saturating_sub(needed), needed);
        }
        columns
    }
}

fn draw_list(model: &HomeModel, area: Rect, buffer: &mut Buffer) {
    let lines = model.in_view();
    let texts: Vec<RowTexts<'_>> = lines
        .iter()
        .filter_map(|line| match line {
            HomeLine::Session(n) => model.rows().get(*n).map(|row| RowTexts::of(model, row)),
            HomeLine::Heading(_) | HomeLine::Queue | HomeLine::Board(..) | HomeLine::Task(..) => {
                None
            }
        })
        .collect();
    let columns = HomeColumns::of(&texts, model, usize::from(area.width));
    let mut texts = texts.iter();
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        let place = Rect {
            y,
            height: 1,
            ..area
        };
        match line {
            HomeLine::Heading(group) => heading(model, group).render(place, buffer),
            HomeLine::Queue => queue_line(model, usize::from(place.width)).render(place, buffer),
            HomeLine::Board(part, tasks) => {
                board_heading(model, part, tasks).render(place, buffer);
            }
            HomeLine::Task(part, nth) => {
                if let Some(line) = board_row(model, part, nth, usize::from(place.width)) {
                    line.render(place, buffer);
                }
            }
            HomeLine::Session(n) => {
                let Some(texts) = texts.next() else { continue };
                let line = row_line(model, texts, columns, n == model.position());
                if n == model.position() {
                    buffer.set_style(place, model.look.theme.style(ThemeRole::Selected));
                }
                line.render(place, buffer);
            }
        }
    }
}

/// What the session under the cursor should do, and where if the list does not say it.
fn draw_detail(model: &HomeModel, area: Rect, buffer: &mut Buffer) {
    let Some(session) = model.chosen().map(|row| &row.session) else {
        return;
    };
    let width = usize::from(area.width).saturating_sub(2);
    let project = tail(
        &short_path(&session.project, model.home_dir.as_deref()),
        width.min(PROJECT),
    );
    let place = if area.width < WITH_PROJECT {
        project
    } else {
        String::new()
    };
    // The list may have no room for the question.
    let waiting = session.group() == SessionGroup::NeedsYou && usize::from(area.width) < WITH_GOAL;
    let question = if waiting {
        session.words(model.now, &model.look.zone).text
    } else {
        String::new()
    };
    let parts = [
        (place, ThemeRole::Faint),
        (question, ThemeRole::Gate),
        (session.goal.clone(), ThemeRole::Text),
    ];
    let (mut spans, mut left) = (vec![Span::raw(" ")], width);
    for (text, role) in parts.into_iter().filter(|(text, _)| !text.is_empty()) {
        let gap = if spans.len() > 1 { " · " } else { "" };
        let text = fit(&text, left.saturating_sub(gap.width()));
        left = left.saturating_sub(gap.width() + text.width());
        spans.extend([
            model.look.theme.span(ThemeRole::Faint, gap),
            model.look.theme.span(role, text),
        ]);
    }
    Line::from(spans).render(area, buffer);
}

/// What the queues have to do.
fn queue_line(model: &HomeModel, width: usize) -> Line<'static> {
    let theme = &model.look.theme;
    let counts = queue_counts(model.queue()).unwrap_or_default();
    let counts = fit(&counts, width.saturating_sub(" QUEUE  ".len()));
    Line::from(vec![
        Span::styled(
            " QUEUE",
            theme.style(ThemeRole::Heading).add_modifier(Modifier::BOLD),
        ),
        theme.span(ThemeRole::Faint, format!("  {counts}")),
    ])
}

fn heading(model: &HomeModel, group: SessionGroup) -> Line<'static> {
    let theme = &model.look.theme;
    let role = match group {
        SessionGroup::NeedsYou => ThemeRole::Gate,
        SessionGroup::Running | SessionGroup::Ended => ThemeRole::Heading,
    };
    let count = model.row_count(group);
    Line::from(vec![
        Span::styled(
            format!(" {}", group.title()),
            theme.style(role).add_modifier(Modifier::BOLD),
        ),
        theme.span(ThemeRole::Faint, format!("  {count}")),
    ])
}

fn row_line(
    model: &HomeModel,
    texts: &RowTexts<'_>,
    columns: HomeColumns,
    is_chosen: bool,
) -> Line<'static> {
    let theme = &model.look.theme;
    let session = &texts.row.session;
    let words = session.words(model.now, &model.look.zone);
    let sign = if words.role == ChipRole::Working {
        spinner(model).unwrap_or(words.sign)
    } else {
        words.sign
    };
    let left = |text: &str, width: usize| filled(&fit(text, width.saturating_sub(2)), width);
    let right = |text: &str, width: usize| {
        let text = fit(text, width.saturating_sub(2));
        format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
    };
    let faint = theme.style(ThemeRole::Faint);
    let strong = theme.style(ThemeRole::Text).add_modifier(Modifier::BOLD);
    let what = match words.role {
        ChipRole::NeedsUser => theme.style(ThemeRole::Gate),
        ChipRole::Failed
        | ChipRole::Forced
        | ChipRole::Limit
        | ChipRole::Waiting
        | ChipRole::Paused => theme.style(chip_role(words.role)),
        ChipRole::Working | ChipRole::Hook | ChipRole::Complete | ChipRole::Stopped => {
            theme.style(ThemeRole::Text)
        }
    };
    let sign_style = match words.role {
        ChipRole::NeedsUser => theme.style(ThemeRole::Gate),
        ChipRole::Working
        | ChipRole::Hook
        | ChipRole::Waiting
        | ChipRole::Paused
        | ChipRole::Complete
        | ChipRole::Forced
        | ChipRole::Failed
        | ChipRole::Stopped
        | ChipRole::Limit => theme.style(chip_role(words.role)),
    };
    let project = tail(&texts.project, columns.project.saturating_sub(2));
    let what_text = if matches!(session.state, ListedState::Unread) {
        "…".to_owned()
    } else {
        words.text
    };
    let line = Line::from(vec![
        theme.span(ThemeRole::BorderFocused, if is_chosen { "▌" } else { " " }),
        // Some signs are two columns wide.
        Span::styled(filled(&format!(" {sign}"), 3), sign_style),
        Span::styled(
            left(
                &middle_cut(&plain(&session.name), columns.name.saturating_sub(2)),
                columns.name,
            ),
            strong,
        ),
        Span::styled(left(&project, columns.project), faint),
        Span::styled(left(&session.user, columns.user), faint),
        Span::styled(left(&session.host, columns.host), faint),
        // The column after it brings its own gap, unless it is the branch's or the agent's.
        Span::styled(
            if columns.agent + columns.branch + columns.goal == 0 {
                filled(&what_text, columns.what)
            } else {
                left(&what_text, columns.what)
            },
            what,
        ),
        theme.span(ThemeRole::Text, left(&plain(&session.goal), columns.goal)),
        Span::styled(left(&session.branch, columns.branch), faint),
        Span::styled(left(&session.agent, columns.agent), faint),
        Span::styled(right(&texts.iteration, columns.iteration), faint),
        Span::styled(
            right(&texts.retries, columns.retries),
            theme.style(if session.retries.0 > 0 {
                ThemeRole::Warning
            } else {
                ThemeRole::Faint
            }),
        ),
        Span::styled(right(&texts.time, columns.time), faint),
        Span::styled(right(&texts.age, columns.age), faint),
        Span::styled(right(&texts.cost, columns.cost), faint),
    ]);
    if is_chosen {
        theme.selected(line)
    } else {
        line
    }
}

/// A name that is too long without its middle: names of one project often differ only at the end.
fn middle_cut(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let half = width / 2;
    let mut end = String::new();
    for c in name.chars().rev() {
        if end.width() + c.width().unwrap_or(0) > half {
            break;
        }
        end.insert(0, c);
    }
    // The beginning with its ellipsis.
    format!("{}{end}", fit(name, width.saturating_sub(end.width())))
}

/// The text in exactly this width.
fn filled(text: &str, width: usize) -> String {
    let text = fit(text, width);
    let gap = " ".repeat(width.saturating_sub(text.width()));
    text + &gap
}

/// The end of a path that fits, from a whole folder's name on if possible.
fn tail(path: &str, width: usize) -> String {
    if path.width() <= width {
        return path.to_owned();
    }
    let ends = path
        .char_indices()
        .filter(|(_, c)| *c == '/')
        .map(|(at, _)| &path[at..]);
    let end = ends.into_iter().find(|end| end.width() < width);
    match end {
        Some(end) => format!("…{end}"),
        None => fit(path.rsplit('/').next().unwrap_or(path), width),
    }
}

/// The frame of the spinner at this moment. None if nothing is to move.
fn spinner(model: &HomeModel) -> Option<&'static str> {
    (model.look.motion == MotionMode::Full).then(|| spinner_frame(model.now))
}

/// What to do where there is no session to show.
fn draw_empty(model: &HomeModel, area: Rect, buffer: &mut Buffer) {
    let theme = &model.look.theme;
    let (text, key) = (theme.style(ThemeRole::Text), theme.style(ThemeRole::Key));
    let press = |action: HomeKey, about: &str| {
        vec![
            (format!("  {:6}", model.look.keymap.key(action)), key),
            (about.to_owned(), text),
        ]
    };
    let words = |words: &str| vec![(words.to_owned(), text)];
    let paragraphs = match (model.is_loaded, model.is_empty(), model.scope) {
        (false, ..) => vec![words("Looking for sessions…")],
        (true, false, _) => {
            vec![words(&format!(
                "No session matches `{}`. Press esc to show all.",
                plain(&model.filter)
            ))]
        }
        (true, true, HomeScope::Fleet) => {
            vec![words(
                "No session has used this server in the last day. `creel run --nats URL` publishes one.",
            )]
        }
        (true, true, HomeScope::Machine) => {
            let mut lines = vec![
                words("creel runs a coding agent in a loop until the work is done."),
                words(
                    "After each turn your checks run. If one fails, its output goes back to the agent.",
                ),
                words("You decide where a human should: at limits, permissions and the end."),
                words("All your sessions appear here; those that need you come first."),
                Vec::new(),
                press(HomeKey::Demo, "watch the demo; nothing to install"),
            ];
            if !model.has_config {
                lines.push(press(HomeKey::Init, "write a creel.yaml for this folder"));
            }
            lines.push(press(HomeKey::New, "start a session"));
            lines
        }
    };
    let inside = Rect {
        x: area.x + 1,
        y: area.y + 1,
        width: area.width - 2,
        height: area.height.saturating_sub(1),
    };
    let lines = paragraphs
        .iter()
        .flat_map(|pieces| wrap(pieces, usize::from(inside.width), 0));
    for (y, line) in (inside.y..inside.bottom()).zip(lines) {
        line.render(
            Rect {
                y,
                height: 1,
                ..inside
            },
            buffer,
        );
    }
}

/// A message to the user, the filter, or the keys that do something now.
fn draw_footer(model: &HomeModel, area: Rect, buffer: &mut Buffer) {
    let theme = &model.look.theme;
    let typed = match &model.modal {
        Some(HomeModal::Filter) => Some(("/", &model.filter, "   enter keep   esc show all")),
        Some(HomeModal::Hint(_, hint)) => {
            Some((" hint: ", hint, "   enter start it   esc leave it"))
        }
        Some(HomeModal::Help(_) | HomeModal::Question(_) | HomeModal::NewSession(_)) | None => None,
    };
    if let Some((label, text, hint)) = typed {
        let room = usize::from(area.width).saturating_sub(1 + label.width());
        let text = tail(&plain(text), room);
        let left = room.saturating_sub(text.width());
        Line::from(vec![
            theme.span(ThemeRole::Key, label),
            theme.span(ThemeRole::Text, text),
            Span::raw("▏"),
            theme.span(
                ThemeRole::Faint,
                if left > hint.width() { hint } else { "" },
            ),
        ])
        .render(area, buffer);
        return;
    }
    if let Some(toast) = &model.toast {
        let text = fit(&format!(" {}", plain(&toast.text)), usize::from(area.width));
        theme.line(toast.role, text).render(area, buffer);
        return;
    }
    // Each of these says itself which keys it accepts.
    if model.modal.is_some() {
        return;
    }
    let hint = |key: HomeKey| {
        (
            model.look.keymap.key(key),
            format!(" {}  ", words(model, key)),
        )
    };
    let help = (model.look.keymap.key(GlobalKey::Help), " keys  ".to_owned());
    let width = |(key, about): &(String, String)| key.width() + about.width();
    let always = [help, hint(HomeKey::Quit)];
    let mut left =
        usize::from(area.width).saturating_sub(1 + always.iter().map(width).sum::<usize>());
    let mut spans = vec![Span::raw(" ")];
    let of_worker = model.worker_keys().into_iter().map(|key| {
        let words = match key {
            WorkerKey::Pause if model.worker.as_ref().is_some_and(|it| it.is_paused) => "unpause",
            WorkerKey::Pause => "pause",
            WorkerKey::Drain => "drain",
            WorkerKey::Hint => "hint",
            WorkerKey::Retry => "start again",
            WorkerKey::Merge => "merge now",
        };
        (model.look.keymap.key(key), format!(" {words}  "))
    });
    // Of a worker's screen, its own keys come after those that open something.
    let (first, rest): (Vec<HomeKey>, Vec<HomeKey>) = model
        .useful_keys()
        .into_iter()
        .partition(|key| matches!(key, HomeKey::Open | HomeKey::Answer));
    let own = first.into_iter().map(hint).chain(of_worker);
    let keys =
        own.chain(rest.into_iter().map(hint))
            .filter(|hint| match left.checked_sub(width(hint)) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            });
    for (key, about) in keys.collect::<Vec<_>>().into_iter().chain(always) {
        spans.push(theme.span(ThemeRole::Key, key));
        spans.push(theme.span(ThemeRole::Text, about));
    }
    Line::from(spans).render(area, buffer);
}

/// What a key does, in everyday words.
fn words(model: &HomeModel, key: HomeKey) -> &'static str {
    let over = model
        .chosen()
        .is_some_and(|row| row.session.group() == SessionGroup::Ended);
    match key {
        HomeKey::Open if over || model.chosen_task().is_some() => "replay",
        HomeKey::Resume if model.chosen_task().is_some() => "start again",
        HomeKey::Open => "open",
        HomeKey::Answer => "answer",
        HomeKey::New if model.size.0 < 80 => "new",
        HomeKey::New => "new session",
        HomeKey::Stop => "stop",
        HomeKey::Resume => "resume",
        HomeKey::Report => "report",
        HomeKey::Filter => "filter",
        HomeKey::Remove => "remove",
        HomeKey::Demo => "demo",
        HomeKey::Init => "write a config",
        HomeKey::Quit if model.worker.is_some() => "leave",
        HomeKey::Quit => "quit",
    }
}
