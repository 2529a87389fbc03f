//! Tasks of the same priority, type and allowed agents form a [`DispatchGroup`]. A worker asks the
//! groups that it can serve, the highest priority first. Groups of the same priority take turns;
//! within a group, the oldest task comes first.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::queue::task_spec::TaskSpec;

/// Tasks that the same workers can do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DispatchGroup {
    /// 0 is the highest.
    pub priority: u8,
    pub kind: Option<String>,
    /// The agents that can work on them. Empty means all agents.
    pub agents: BTreeSet<String>,
}

impl DispatchGroup {
    pub fn of(order: &TaskSpec) -> Self {
        Self {
            priority: order.priority,
            kind: order.kind.clone(),
            agents: order.agents.clone(),
        }
    }
}

/// Which groups this process has received tasks of, so that groups of the same priority take turns.
#[derive(Debug, Default)]
pub(super) struct GroupTurns {
    /// The count of received tasks when a task of the group was received last.
    last: BTreeMap<DispatchGroup, u64>,
    taken: u64,
}

impl GroupTurns {
    /// The groups in the order in which to ask them.
    pub(super) fn in_order(
        &self,
        groups: impl Iterator<Item = DispatchGroup>,
    ) -> Vec<DispatchGroup> {
        let last = |group: &DispatchGroup| self.last.get(group).copied().unwrap_or_default();
        let mut groups: Vec<_> = groups
            .map(|group| (group.priority, last(&group), group))
            .collect();
        groups.sort();
        groups.into_iter().map(|(_, _, group)| group).collect()
    }

    pub(super) fn note(&mut self, group: DispatchGroup) {
        self.taken += 1;
        self.last.insert(group, self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_comes_first_and_groups_of_the_same_priority_take_turns() {
        let group = |priority, kind: &str| DispatchGroup {
            priority,
            kind: Some(kind.into()),
            agents: BTreeSet::new(),
        };
        let groups = [group(2, "a"), group(1, "z"), group(1, "m")];
        let mut turns = GroupTurns::default();
        let kinds = |turns: &GroupTurns| {
            let groups = turns.in_order(groups.iter().cloned());
            groups
                .into_iter()
                .filter_map(|group| group.kind)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(kinds(&turns), "m z a");
        turns.note(group(1, "m"));
        assert_eq!(kinds(&turns), "z m a");
        turns.note(group(1, "z"));
        assert_eq!(kinds(&turns), "m z a");
    }
}
