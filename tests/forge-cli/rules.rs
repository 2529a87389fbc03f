//! What a forge concludes from the state of its pull request.

use std::collections::BTreeMap;

use crate::world::{Check, Trouble, World, now};

impl World {
    pub fn conflicts(&self) -> bool {
        let head = self.pull.as_ref().map_or("", |pull| &pull.head);
        self.git(&["merge-tree", "--write-tree", &self.base_tip(), head])
            .is_none()
    }

    pub fn is_behind(&self) -> bool {
        let head = self.pull.as_ref().map_or("", |pull| &pull.head);
        self.strict
            && self
                .git(&["merge-base", "--is-ancestor", &self.base_tip(), head])
                .is_none()
    }

    /// The newest run of each check.
    pub fn newest_checks(&self) -> Vec<&Check> {
        let all = self.checks();
        let is_newest = |at: usize| all[at + 1..].iter().all(|later| later.name != all[at].name);
        (0..all.len())
            .filter(|at| is_newest(*at))
            .map(|at| all[at])
            .collect()
    }

    /// Removes the trouble that is over.
    pub fn current_trouble(&mut self) -> Option<Trouble> {
        if let Some(Trouble::RateLimit { until, .. }) = self.trouble
            && until <= now()
        {
            self.trouble = None;
        }
        self.trouble.clone()
    }

    /// The newest decision of each reviewer.
    pub fn decisions(&self) -> BTreeMap<&str, &str> {
        let reviews = self.pull.as_ref().map_or(&[][..], |pull| &pull.reviews);
        let decided = reviews.iter().filter(|review| review.state != "COMMENTED");
        decided
            .map(|review| (review.author.as_str(), review.state.as_str()))
            .collect()
    }
}
