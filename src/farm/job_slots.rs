//! How many sessions a worker runs at once, and what all of them may use.
//!
//! # Invariants
//! - A session that waits for the user does not take a slot. When the user answers, it continues
//!   even if all slots were taken in between, and no other session starts until there is room again.
//! - One session can always run, whatever else the machine does.
//! - No more sessions of an agent exist at once than the user allows.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::{
    engine::queue::worker_rules::{FailureStreak, MachineFault},
    farm::worker_budget::WorkerBudget,
};

/// A session starts only if this share of the machine's memory is available.
const FREE_MEMORY: f64 = 0.05;

#[derive(Debug, Clone, Copy, Default)]
struct SlotCounts {
    /// Slots that are taken, also by a loop that only looks for a task.
    working: usize,
    waiting: usize,
    /// Sessions, those that wait included.
    sessions: usize,
    /// Whether no session should start any more.
    is_closed: bool,
    /// Whether no session should start for now.
    is_paused: bool,
    /// Whether the worker ends when the queue has no task left.
    drains: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PauseOrder {
    Pause,
    Unpause,
}

#[derive(Debug)]
pub(crate) struct JobSlots {
    jobs: usize,
    max_load: Option<f64>,
    counts: watch::Sender<SlotCounts>,
    /// The sessions that failed in a row because of the machine, in all slots.
    failures: Mutex<FailureStreak>,
    /// How many sessions of an agent can exist at once.
    agent_limits: BTreeMap<String, usize>,
    /// How many sessions each agent has.
    agents: Mutex<BTreeMap<String, usize>>,
    pub(super) budget: WorkerBudget,
}

/// A place for a session, until this is dropped.
#[derive(Debug)]
pub(super) struct JobSlot<'a> {
    slots: &'a JobSlots,
    agent: Option<String>,
    has_session: bool,
    waits: bool,
}

impl JobSlots {
    pub(crate) fn new(
        jobs: usize,
        max_load: Option<f64>,
        agent_limits: BTreeMap<String, usize>,
        budget: WorkerBudget,
    ) -> Self {
        Self {
            jobs,
            max_load,
            counts: watch::Sender::new(SlotCounts::default()),
            failures: Mutex::default(),
            agent_limits,
            agents: Mutex::default(),
            budget,
        }
    }

    /// Whether another session of an agent can start.
    pub(super) fn has_room_for(&self, agent: &str) -> bool {
        let agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let running = agents.get(agent).copied().unwrap_or_default();
        self.agent_limits
            .get(agent)
            .is_none_or(|most| running < *most)
    }

    /// A slot for a session, if there is one and the machine is not busy.
    pub(super) fn take(&self) -> Option<JobSlot<'_>> {
        let SlotCounts {
            working, is_paused, ..
        } = *self.counts.borrow();
        if is_paused || working >= self.jobs || (working > 0 && self.is_machine_busy()) {
            return None;
        }
        self.counts.send_if_modified(|counts| {
            counts.working += 1;
            false
        });
        Some(JobSlot {
            slots: self,
            agent: None,
            has_session: false,
            waits: false,
        })
    }

    /// Notes whether the machine made a session fail. True if it did so too often in a row.
    pub(super) fn note(&self, fault: Option<MachineFault>) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        *failures = failures.after(fault);
        failures.is_too_long()
    }

    /// How many sessions work, and how many wait for the user.
    pub(super) fn in_use(&self) -> (usize, usize) {
        let counts = self.counts.borrow();
        (counts.sessions - counts.waiting, counts.waiting)
    }

    /// How many loops are needed, so that one is free for each slot.
    pub(super) fn loops(&self) -> usize {
        self.jobs + self.counts.borrow().waiting
    }

    /// Waits until a slot may have become free, or another loop may be needed.
    pub(super) async fn changed(&self) {
        let mut counts = self.counts.subscribe();
        let _ = counts.changed().await;
    }

    /// Starts no session until it is unpaused.
    pub(super) fn set_paused(&self, order: PauseOrder) {
        let is_paused = order == PauseOrder::Pause;
        self.counts
            .send_modify(|counts| counts.is_paused = is_paused);
    }

    /// The worker ends when the queue has no task left. A paused one starts sessions again.
    pub(super) fn drain(&self) {
        self.counts.send_modify(|counts| {
            counts.drains = true;
            counts.is_paused = false;
        });
    }

    pub(super) fn drains(&self) -> bool {
        self.counts.borrow().drains
    }

    pub(super) fn close(&self) {
        self.counts.send_modify(|counts| counts.is_closed = true);
    }

    pub(super) async fn closed(&self) {
        let _ = self
            .counts
            .subscribe()
            .wait_for(|counts| counts.is_closed)
            .await;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.counts.borrow().is_closed
    }

    fn is_machine_busy(&self) -> bool {
        let is_loaded = self
            .max_load
            .is_some_and(|most| load().is_some_and(|load| load > most));
        is_loaded || free_memory().is_some_and(|share| share < FREE_MEMORY)
    }
}

impl JobSlot<'_> {
    pub(super) fn has_room_for(&self, agent: &str) -> bool {
        self.slots.has_room_for(agent)
    }

    /// Keeps room for a session of an agent. False if there is none.
    pub(super) fn reserve(&mut self, agent: &str) -> bool {
        if !self.slots.has_room_for(agent) {
            return false;
        }
        let mut agents = self
            .slots
            .agents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *agents.entry(agent.to_owned()).or_default() += 1;
        self.agent = Some(agent.to_owned());
        true
    }

    /// Notes that a session has started.
    pub(super) fn begin(&mut self) {
        self.has_session = true;
        self.slots.counts.send_if_modified(|counts| {
            counts.sessions += 1;
            false
        });
    }

    /// Notes whether the session waits for the user.
    pub(super) fn set_waiting(&mut self, waits: bool) {
        if waits == std::mem::replace(&mut self.waits, waits) {
            return;
        }
        self.slots.counts.send_modify(|counts| {
            if waits {
                counts.working -= 1;
                counts.waiting += 1;
            } else {
                counts.waiting -= 1;
                counts.working += 1;
            }
        });
    }
}

impl Drop for JobSlot<'_> {
    fn drop(&mut self) {
        if let Some(agent) = &self.agent {
            let mut agents = self
                .slots
                .agents
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(running) = agents.get_mut(agent) {
                *running = running.saturating_sub(1);
            }
        }
        let (waits, sessions, jobs) = (self.waits, usize::from(self.has_session), self.slots.jobs);
        // Loops try slots all the time: only one that another loop can wait for is news.
        self.slots.counts.send_if_modified(|counts| {
            let is_news = waits || counts.working >= jobs;
            let count = if waits {
                &mut counts.waiting
            } else {
                &mut counts.working
            };
            *count -= 1;
            counts.sessions -= sessions;
            is_news
        });
    }
}

/// The load average of the last minute. None if this system does not report it in `/proc`.
pub(crate) fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg")
        .ok()?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

/// The share of memory that is available.
fn free_memory() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    Some(field("MemAvailable:")? / field("MemTotal:")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::policy::Budget;

    fn slots(jobs: usize, max_load: Option<f64>, limits: &[(&str, usize)]) -> JobSlots {
        let limits = limits
            .iter()
            .map(|(agent, most)| ((*agent).to_owned(), *most));
        JobSlots::new(
            jobs,
            max_load,
            limits.collect(),
            WorkerBudget::new(Budget::default()),
        )
    }

    #[test]
    fn an_agent_has_as_many_sessions_as_the_user_allows() {
        let slots = slots(3, None, &[("claude", 1)]);
        let (mut one, mut two) = (slots.take().expect("a slot"), slots.take().expect("a slot"));
        assert!(one.reserve("claude") && !two.reserve("claude") && two.reserve("codex"));
        assert!(slots.has_room_for("codex") && !slots.has_room_for("claude"));
        drop(one);
        assert!(slots.has_room_for("claude"));
    }

    #[test]
    fn a_session_that_waits_for_the_user_makes_room_for_another() {
        let slots = slots(2, None, &[]);
        let mut one = slots.take().expect("a slot");
        assert_eq!(slots.in_use(), (0, 0), "it has no session yet");
        one.begin();
        assert_eq!(slots.in_use(), (1, 0));
        let two = slots.take().expect("a slot");
        assert!(slots.take().is_none());
        one.set_waiting(true);
        assert_eq!((slots.loops(), slots.in_use()), (3, (0, 1)));
        let three = slots.take().expect("the slot of the session that waits");
        one.set_waiting(false);
        assert_eq!(slots.loops(), 2);
        drop(two);
        assert!(slots.take().is_none(), "two sessions work");
        drop(three);
        assert!(slots.take().is_some());
    }

    #[test]
    fn a_paused_worker_starts_nothing_and_keeps_what_runs() {
        let slots = slots(2, None, &[]);
        let one = slots.take();
        slots.set_paused(PauseOrder::Pause);
        assert!(one.is_some() && slots.take().is_none());
        slots.set_paused(PauseOrder::Unpause);
        assert!(slots.take().is_some());
        assert!(!slots.drains());
        slots.set_paused(PauseOrder::Pause);
        slots.drain();
        assert!(slots.drains());
        assert!(
            slots.take().is_some(),
            "paused, it would never work off the queue"
        );
    }

    #[test]
    fn a_busy_machine_gets_one_session() {
        let slots = slots(3, Some(-1.0), &[]);
        let one = slots.take();
        assert!(one.is_some());
        assert!(slots.take().is_none() || load().is_none());
    }
}
