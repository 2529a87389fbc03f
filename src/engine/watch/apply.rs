//! Stores the events of a watched pull request.

use crate::engine::{
    event::{PromptReason, WatchEvent},
    hooks::point::HookPoint,
    ids::RunId,
    pending::{IncomingItem, ItemSource},
    session::{SessionState, phase::Phase},
    submit::{kind::PipelineKind, state::PipelineRun},
    time::UnixTime,
    turn::apply::leave_turn,
    watch::{
        Watch,
        event::ForgeRead,
        forge::{ForgeNews, ForgeReading, NewsSource},
    },
};

pub(crate) fn apply_watch(session: &mut SessionState, at: UnixTime, event: &WatchEvent) {
    match event {
        WatchEvent::Started {
            pull_request,
            head,
            answer,
            held,
        } => {
            if let Some(watch) = started(session, at, pull_request, head.as_ref()) {
                watch.held.clone_from(held);
                if answer.is_some() {
                    watch.answer.clone_from(answer);
                    watch.in_round = false;
                }
            }
        }
        WatchEvent::Read(read) => forge_read(session, at, read),
        WatchEvent::Failed { reason, next, .. } => {
            if let Some(watch) = session.pipelines.watch_mut() {
                watch.problem = Some(reason.clone());
                watch.next = *next;
            }
        }
        WatchEvent::Answered {
            id, also, error, ..
        } => {
            let Some(watch) = session.pipelines.watch_mut() else {
                return;
            };
            for id in also.iter().chain([id]) {
                let tries = watch.answers.entry(id.clone()).or_default();
                *tries = if error.is_some() {
                    *tries + 1
                } else {
                    u32::MAX
                };
            }
        }
    }
}

fn started<'a>(
    session: &'a mut SessionState,
    at: UnixTime,
    pull_request: &str,
    head: Option<&String>,
) -> Option<&'a mut Watch> {
    let rounds = session.plan().submit.watch.rounds;
    leave_turn(session);
    let left = session.pipelines.left_watch.take();
    let left = left.filter(|watch| watch.pull_request == pull_request);
    let run = session.pipelines.pipeline_run.as_deref_mut()?;
    let begun = || {
        let mut watch = left.unwrap_or_else(|| {
            Box::new(Watch {
                limit: rounds,
                ..Watch::default()
            })
        });
        // What the forge said before the session was left may be long past.
        (watch.began, watch.reading, watch.problem) = (at, None, None);
        watch
    };
    let mut watch = run.watch.take().unwrap_or_else(begun);
    pull_request.clone_into(&mut watch.pull_request);
    // A submit that pushed nothing leaves what was verified before.
    watch.head = head.cloned().or(watch.head);
    watch.changed = at;
    watch.next = at;
    watch.is_known = false;
    // The next push is a submit, also after a merge that was not possible.
    run.pipeline = PipelineKind::Submit;
    run.passed = true;
    (run.used, run.unheard) = (0, false);
    session.phase = Phase::Watching;
    Some(run.watch.insert(watch))
}

/// The agent works while the session waits: the hooks of a submit follow its turn, also if the work
/// was about to be merged.
pub(crate) fn turn_of_a_watch_sent(session: &mut SessionState, reason: PromptReason, again: bool) {
    let run = session.pipelines.pipeline_run.as_deref_mut();
    let Some(run) = run.filter(|run| run.watch.is_some()) else {
        return;
    };
    let begins = matches!(reason, PromptReason::News | PromptReason::Message);
    if begins || run.pipeline == PipelineKind::Merge {
        run.pipeline = PipelineKind::Submit;
        (run.repaired, run.unheard) = (true, true);
        run.submit_anew();
    }
    if let Some(watch) = run.watch.as_mut().filter(|_| reason == PromptReason::News) {
        watch.head_before.clone_from(&watch.head);
        watch.in_round = true;
        watch.rounds += u32::from(!again);
    }
}

impl PipelineRun {
    /// All checks run for the work as it is now.
    pub(crate) fn submit_anew(&mut self) {
        (self.passed, self.used) = (false, 0);
        // What the user skipped was skipped for the work as it was.
        self.skipped.clear();
        self.waived.clear();
    }
}

fn forge_read(session: &mut SessionState, at: UnixTime, read: &ForgeRead) {
    let iteration = session.iterations.current;
    let Some(watch) = session.pipelines.watch_mut() else {
        return;
    };
    watch.checked = Some(at);
    watch.is_known = true;
    watch.next = read.next;
    watch.problem = None;
    // What the user has approved is what the gate has shown.
    watch.seen.retain(|item| !read.updated.contains(item));
    if read.changed {
        watch.changed = at;
    }
    watch.reading = Some(ForgeReading {
        news: Vec::new(),
        ..read.reading.clone()
    });
    if read.changed {
        session.pipelines.wanted = None;
    }
    for ForgeNews {
        source,
        text,
        trusted,
    } in &read.reading.news
    {
        session.pending.catch(IncomingItem {
            source: ItemSource {
                run: RunId::default(),
                point: HookPoint::AfterSubmit,
                hook: source.label(*trusted),
                iteration,
                news: Some(Box::new(source.clone())),
            },
            text: text.clone(),
            skipped: !trusted,
        });
    }
}

impl NewsSource {
    /// What it is called in lists: `comment by alice, src/a.rs:3`.
    fn label(&self, trusted: bool) -> String {
        let what = match self.title.as_str() {
            "" => self.origin.name(),
            title => title,
        };
        let by = self.author.as_deref().map(|author| format!(" by {author}"));
        let stranger = if trusted { "" } else { " (may not push)" };
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let place = self.path.as_deref().map(|path| format!(", {path}{line}"));
        [by.as_deref(), Some(stranger), place.as_deref()]
            .into_iter()
            .flatten()
            .fold(what.to_owned(), |label, part| label + part)
    }
}
