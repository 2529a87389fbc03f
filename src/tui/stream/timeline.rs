//! The whole session in a row of signs: what each turn came to, gates and waits.
//!
//! # Invariants
//! - A frame costs the same in a short session and in a long one: the cells are made again only when
//!   there is a new step or another width.

use std::rc::Rc;

use super::SessionStream;
use crate::{
    engine::{
        actor::ActorKind,
        event::{
            Event, GateEvent, IterationOutcome, RetryEvent, SessionEvent, TurnEvent,
            UsageLimitEvent,
        },
        ids::GateId,
    },
    tui::theme::ThemeRole,
};

/// What a step came to. Where several share a cell, the last of these that occurs counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimelineMark {
    /// A check blocked the turn, and a later turn of the iteration passed.
    Retried,
    Passed,
    Waited,
    Failed,
    Forced,
    Gate,
}

impl TimelineMark {
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Retried | Self::Failed => "✗",
            Self::Passed => "✓",
            Self::Waited => "◷",
            Self::Forced => "⚠",
            Self::Gate => "◆",
        }
    }

    pub const fn role(self) -> ThemeRole {
        match self {
            Self::Retried | Self::Failed => ThemeRole::Bad,
            Self::Passed => ThemeRole::Good,
            Self::Waited | Self::Forced => ThemeRole::Warning,
            Self::Gate => ThemeRole::Gate,
        }
    }
}

/// A cell of the row, and the block at which its first step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineCell {
    pub mark: TimelineMark,
    pub block: usize,
}

#[derive(Debug, Default)]
pub(super) struct SessionTimeline {
    steps: Vec<TimelineCell>,
    /// The first step of the iteration.
    iteration: usize,
    /// The open gate, and its step.
    gate: Option<(GateId, usize)>,
    /// The cells that were made last, and their width.
    made: Option<(usize, Rc<Vec<TimelineCell>>)>,
}

impl SessionTimeline {
    /// Counts a record that is in this block.
    pub(super) fn take(&mut self, event: &Event, block: usize) {
        if let Event::Session(SessionEvent::IterationStarted { .. }) = event {
            self.iteration = self.steps.len();
        } else if let Event::Session(SessionEvent::IterationCompleted { outcome, .. }) = event {
            self.end_iteration(*outcome, block);
        } else if let Event::Retry(RetryEvent::Counted { .. }) = event {
            self.add(TimelineMark::Failed, block);
        } else if let Event::Turn(TurnEvent::Failed { .. }) = event {
            self.add(TimelineMark::Failed, block);
        } else if let Event::UsageLimit(UsageLimitEvent::Reached(_) | UsageLimitEvent::Outage(_)) =
            event
        {
            self.add(TimelineMark::Waited, block);
        } else if let Event::Gate(GateEvent::Opened { gate, .. }) = event {
            self.gate = Some((*gate, self.steps.len()));
            self.add(TimelineMark::Gate, block);
        } else if let Event::Gate(GateEvent::Answered { gate, by, .. }) = event {
            self.answered(*gate, by.by);
        }
    }

    fn add(&mut self, mark: TimelineMark, block: usize) {
        self.steps.push(TimelineCell { mark, block });
        self.made = None;
    }

    fn end_iteration(&mut self, outcome: IterationOutcome, block: usize) {
        let mark = match outcome {
            IterationOutcome::Done => TimelineMark::Passed,
            IterationOutcome::Forced => TimelineMark::Forced,
            IterationOutcome::Failed => TimelineMark::Failed,
        };
        let own = self.iteration.min(self.steps.len());
        for step in &mut self.steps[own..] {
            if outcome == IterationOutcome::Done && step.mark == TimelineMark::Failed {
                step.mark = TimelineMark::Retried;
            }
        }
        // A turn that failed has its own step.
        let last = self.steps[own..].last().map(|last| last.mark);
        if outcome != IterationOutcome::Failed || last != Some(TimelineMark::Failed) {
            self.add(mark, block);
        }
    }

    /// A gate that a policy answered did not need the user.
    fn answered(&mut self, gate: GateId, by: ActorKind) {
        let open = self.gate.take_if(|(open, _)| *open == gate);
        if let Some((_, step)) = open.filter(|_| by == ActorKind::Policy)
            && step + 1 == self.steps.len()
        {
            self.steps.pop();
            self.made = None;
        }
    }

    fn cells(&mut self, width: usize) -> Rc<Vec<TimelineCell>> {
        if let Some((_, made)) = self.made.as_ref().filter(|(made, _)| *made == width) {
            return Rc::clone(made);
        }
        let made = Rc::new(joined(&self.steps, width));
        self.made = Some((width, Rc::clone(&made)));
        made
    }
}

/// As many cells as there is room for. Each has the most important of its steps.
fn joined(steps: &[TimelineCell], width: usize) -> Vec<TimelineCell> {
    let count = steps.len().min(width);
    (0..count)
        .filter_map(|cell| {
            let of = |cell: usize| cell * steps.len() / count;
            let own = &steps[of(cell)..of(cell + 1)];
            let first = own.first()?;
            let mark = own.iter().map(|step| step.mark).max()?;
            Some(TimelineCell {
                mark,
                block: first.block,
            })
        })
        .collect()
}

impl SessionStream {
    /// The session in at most this many cells.
    pub fn timeline(&mut self, width: usize) -> Rc<Vec<TimelineCell>> {
        self.timeline.cells(width)
    }

    pub fn has_timeline(&self) -> bool {
        !self.timeline.steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(steps: &[TimelineMark], width: usize) -> String {
        let steps: Vec<TimelineCell> = steps
            .iter()
            .enumerate()
            .map(|(block, mark)| TimelineCell { mark: *mark, block })
            .collect();
        let cells = joined(&steps, width);
        cells.iter().map(|cell| cell.mark.sign()).collect()
    }

    #[test]
    fn what_matters_most_is_left_where_steps_share_a_cell() {
        use TimelineMark::{Failed, Forced, Gate, Passed, Retried};
        let steps = [
            Passed, Retried, Passed, Failed, Failed, Gate, Forced, Passed,
        ];
        assert_eq!(shown(&steps, 20), "✓✗✓✗✗◆⚠✓");
        assert_eq!(shown(&steps, 4), "✓✗◆⚠");
        assert_eq!(shown(&steps, 1), "◆");
        assert_eq!(shown(&steps, 0), "");
    }
}
