//! Finds out which process connects to the control socket.
//!
//! Owns the list of processes that were seen alive. Does not decide what they are allowed to do:
//! see [`crate::engine::actor`].
//!
//! A process that has exited before creel looks cannot be identified, and an agent could exit that
//! fast on purpose. So creel treats it as the agent, unless the same process has connected before:
//! a screen may exit before the session has read its last key.

use std::collections::VecDeque;

use crate::{
    engine::actor::ActorKind,
    socket::process_origin::{self, ProcessOrigin},
};

/// How many processes to remember.
const MOST_REMEMBERED: usize = 256;

/// The processes that have connected, the latest last.
#[derive(Debug, Default)]
pub(super) struct PeerProcesses {
    seen: VecDeque<(i32, Option<ActorKind>)>,
}

impl PeerProcesses {
    /// The session's own agent or hook, if the process belongs to one. Call this as soon as it
    /// connects.
    pub(super) fn of_process(&mut self, pid: Option<i32>, session: &str) -> Option<ActorKind> {
        let pid = pid.filter(|pid| *pid > 0)?;
        self.remember(pid, process_origin::of_process(pid, session))
    }

    fn remember(&mut self, pid: i32, kin: ProcessOrigin) -> Option<ActorKind> {
        let by = match kin {
            ProcessOrigin::Session(by) => Some(by),
            ProcessOrigin::Stranger => None,
            ProcessOrigin::Gone => {
                let before = self.seen.iter().find(|(seen, _)| *seen == pid);
                return before.map_or(Some(ActorKind::Agent), |(_, by)| *by);
            }
        };
        self.seen.retain(|(seen, _)| *seen != pid);
        self.seen.push_back((pid, by));
        if self.seen.len() > MOST_REMEMBERED {
            self.seen.pop_front();
        }
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_gone_before_creel_looks_is_treated_as_the_agent() {
        assert_eq!(
            PeerProcesses::default().remember(7, ProcessOrigin::Gone),
            Some(ActorKind::Agent)
        );
    }

    #[test]
    fn a_screen_that_was_seen_before_is_still_the_users_after_it_left() {
        let mut peers = PeerProcesses::default();
        assert_eq!(peers.remember(7, ProcessOrigin::Stranger), None);
        assert_eq!(
            peers.remember(8, ProcessOrigin::Session(ActorKind::Hook)),
            Some(ActorKind::Hook)
        );
        assert_eq!(peers.remember(7, ProcessOrigin::Gone), None);
        assert_eq!(
            peers.remember(8, ProcessOrigin::Gone),
            Some(ActorKind::Hook)
        );
    }

    #[test]
    fn the_latest_user_of_a_process_number_counts_and_the_list_is_bounded() {
        let mut peers = PeerProcesses::default();
        peers.remember(7, ProcessOrigin::Stranger);
        peers.remember(7, ProcessOrigin::Session(ActorKind::Agent));
        assert_eq!(
            peers.remember(7, ProcessOrigin::Gone),
            Some(ActorKind::Agent)
        );
        for pid in 10..400 {
            peers.remember(pid, ProcessOrigin::Stranger);
        }
        assert_eq!(peers.seen.len(), MOST_REMEMBERED);
        assert_eq!(
            peers.remember(11, ProcessOrigin::Gone),
            Some(ActorKind::Agent),
            "forgotten"
        );
    }
}
