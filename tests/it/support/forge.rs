//! A forge with one pull request, shown by fakes of `gh` and `glab` (`tests/forge-cli`).
//!
//! Its branches are those of the [`Repo`]'s bare remote: what is pushed there is on the forge, and
//! what the forge merges is there.

use std::{fs, path::PathBuf};

use super::{example, repo::Repo};

#[path = "../../forge-cli/world.rs"]
mod world;

use world::{Trouble, World};

/// The id of a comment, a review, a thread or the run of a check.
pub type ForgeId = u64;

pub struct FakeForge {
    folder: PathBuf,
}

impl FakeForge {
    /// A repository on GitHub without a pull request, and `gh` on the `PATH`.
    pub fn github(repo: &Repo) -> Self {
        Self::new(repo, "gh", "github.com", "acme/app")
    }

    /// A project on a GitLab of its own, and `glab` on the `PATH`.
    pub fn gitlab(repo: &Repo) -> Self {
        Self::new(repo, "glab", "git.example.com", "acme/tools/app")
    }

    fn new(repo: &Repo, program: &str, host: &str, project: &str) -> Self {
        let folder = repo.at("forge");
        fs::create_dir_all(&folder).expect("a folder");
        let script = format!(
            "#!/bin/sh\nexec '{}' {program} '{}' \"$@\"\n",
            example("forge-cli").display(),
            folder.display()
        );
        repo.program(program, &script);
        let forge = Self { folder };
        forge.change(|world| {
            *world = World {
                program: program.to_owned(),
                host: host.to_owned(),
                project: project.to_owned(),
                viewer: "me".to_owned(),
                origin: repo.remote(),
                page: 100,
                ..World::default()
            };
        });
        forge.may("me", "admin");
        forge
    }

    fn change<T>(&self, with: impl FnOnce(&mut World) -> T) -> T {
        World::change(&self.folder, with)
    }

    /// Opens a pull request of a branch that the remote has. Returns its address.
    pub fn open(&self, branch: &str) -> String {
        self.change(|world| {
            world.pull = Some(world::Pull {
                number: 7,
                branch: branch.to_owned(),
                base: "main".to_owned(),
                title: "Work".to_owned(),
                state: "OPEN".to_owned(),
                head: world.tip(branch).expect("a pushed branch"),
                ..world::Pull::default()
            });
            world.next = 100;
        });
        self.url()
    }

    pub fn url(&self) -> String {
        self.change(|world| world.url())
    }

    /// OPEN, MERGED or CLOSED.
    pub fn state(&self) -> String {
        self.change(|world| world.pull().state.clone())
    }

    pub fn body(&self) -> String {
        self.change(|world| world.pull().body.clone())
    }

    pub fn head(&self) -> String {
        self.change(|world| world.pull().head.clone())
    }

    /// The commit of the base branch.
    pub fn base(&self) -> String {
        self.change(|world| world.base_tip())
    }

    /// Gives an account a permission: read, triage, write, maintain or admin.
    pub fn may(&self, account: &str, permission: &str) {
        self.change(|world| world.permissions.insert(account.into(), permission.into()));
    }

    pub fn bot(&self, account: &str) {
        self.change(|world| world.bots.push(account.into()));
    }

    /// Only these checks count.
    pub fn requires(&self, names: &[&str]) {
        self.change(|world| world.required = names.iter().map(|name| (*name).to_owned()).collect());
    }

    /// These checks pass at once on every commit that is pushed from now on.
    pub fn always_pass(&self, names: &[&str]) {
        self.change(|world| world.passing = names.iter().map(|name| (*name).to_owned()).collect());
    }

    /// A new run of a check of the newest commit, in the words of GitHub; empty while it runs.
    pub fn check(&self, name: &str, conclusion: &str) -> ForgeId {
        self.change(|world| world.check(name, conclusion, None))
    }

    pub fn passes(&self, name: &str) -> ForgeId {
        self.check(name, "SUCCESS")
    }

    pub fn fails(&self, name: &str, log: &str) -> ForgeId {
        self.change(|world| world.check(name, "FAILURE", Some(log)))
    }

    /// A check of another service, which has no log.
    pub fn status_fails(&self, name: &str, description: &str) -> ForgeId {
        self.change(|world| {
            let id = world.check(name, "FAILURE", None);
            let check = world.pull().checks.last_mut().expect("a check");
            check.status = Some(description.to_owned());
            id
        })
    }

    /// A comment below the pull request.
    pub fn comment(&self, author: &str, body: &str) -> ForgeId {
        self.change(|world| {
            let remark = world.remark(author, body);
            world.pull().comments.push(remark.clone());
            remark.id
        })
    }

    /// Begins a thread on a line. Returns the thread and its first comment.
    pub fn thread(&self, author: &str, path: &str, line: u32, body: &str) -> (ForgeId, ForgeId) {
        self.change(|world| {
            let (id, remark) = (world.fresh(), world.remark(author, body));
            let comment = remark.id;
            world.pull().threads.push(world::Thread {
                id,
                path: path.to_owned(),
                line,
                is_resolved: false,
                comments: vec![remark],
            });
            (id, comment)
        })
    }

    pub fn reply(&self, thread: ForgeId, author: &str, body: &str) -> ForgeId {
        self.change(|world| {
            let remark = world.remark(author, body);
            let mut threads = world.pull().threads.iter_mut();
            let thread = threads.find(|known| known.id == thread).expect("a thread");
            thread.comments.push(remark.clone());
            remark.id
        })
    }

    pub fn resolve(&self, thread: ForgeId) {
        self.change(|world| {
            let mut threads = world.pull().threads.iter_mut();
            threads
                .find(|known| known.id == thread)
                .expect("a thread")
                .is_resolved = true;
        });
    }

    /// Changes the text of a comment or a review.
    pub fn edit(&self, comment: ForgeId, body: &str) {
        self.change(|world| {
            each_remark(world, &mut |remark| {
                if remark.id == comment {
                    body.clone_into(&mut remark.body);
                }
            });
        });
    }

    pub fn delete(&self, comment: ForgeId) {
        self.change(|world| {
            let pull = world.pull();
            pull.comments.retain(|remark| remark.id != comment);
            for thread in &mut pull.threads {
                thread.comments.retain(|remark| remark.id != comment);
            }
            pull.threads.retain(|thread| !thread.comments.is_empty());
        });
    }

    pub fn approve(&self, author: &str) -> ForgeId {
        self.review(author, "APPROVED", "")
    }

    pub fn request_changes(&self, author: &str, body: &str) -> ForgeId {
        self.review(author, "CHANGES_REQUESTED", body)
    }

    /// `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`.
    pub fn review(&self, author: &str, state: &str, body: &str) -> ForgeId {
        self.change(|world| {
            let review = world::Remark {
                state: state.to_owned(),
                ..world.remark(author, body)
            };
            world.pull().reviews.push(review.clone());
            review.id
        })
    }

    pub fn dismiss(&self, review: ForgeId) {
        self.change(|world| {
            let mut reviews = world.pull().reviews.iter_mut();
            let review = reviews.find(|known| known.id == review).expect("a review");
            "DISMISSED".clone_into(&mut review.state);
        });
    }

    pub fn review_required(&self) {
        self.change(|world| world.review_required = true);
    }

    pub fn draft(&self, is_draft: bool) {
        self.change(|world| world.pull().is_draft = is_draft);
    }

    pub fn foreign(&self) {
        self.change(|world| world.pull().is_foreign = true);
    }

    pub fn close(&self) {
        self.change(|world| "CLOSED".clone_into(&mut world.pull().state));
    }

    /// A person merges.
    pub fn merge(&self) -> String {
        self.change(|world| {
            world.merge().expect("it can be merged");
            world.pull().merged.clone().expect("a commit")
        })
    }

    /// A merge needs the newest base.
    pub fn strict(&self) {
        self.change(|world| world.strict = true);
    }

    /// From now on merges wait in a queue.
    pub fn merge_queue(&self) {
        self.change(|world| world.merge_queue = true);
    }

    /// The queue merges what is in it.
    pub fn finish_queue(&self) -> bool {
        self.change(|world| {
            let is_queued = world.pull().is_queued;
            if is_queued {
                world.merge().expect("it can be merged");
            }
            is_queued
        })
    }

    /// Every list comes in pages of this size.
    pub fn pages_of(&self, size: usize) {
        self.change(|world| world.page = size);
    }

    pub fn rate_limit(&self, seconds: u64) {
        self.limit(seconds, false);
    }

    pub fn secondary_rate_limit(&self, seconds: u64) {
        self.limit(seconds, true);
    }

    fn limit(&self, seconds: u64, is_secondary: bool) {
        let until = world::now() + seconds;
        self.trouble(Some(Trouble::RateLimit {
            until,
            is_secondary,
        }));
    }

    pub fn logged_out(&self) {
        self.trouble(Some(Trouble::LoggedOut));
    }

    pub fn unreachable(&self) {
        self.trouble(Some(Trouble::Unreachable));
    }

    /// It answers again.
    pub fn recovers(&self) {
        self.trouble(None);
    }

    fn trouble(&self, trouble: Option<Trouble>) {
        self.change(|world| world.trouble = trouble);
    }

    /// What creel wrote, oldest first: the thread, if it is in one, and the text.
    pub fn answers(&self) -> Vec<(Option<ForgeId>, String)> {
        self.change(|world| {
            let viewer = world.viewer.clone();
            let pull = world.pull();
            let general = pull.comments.iter().map(|remark| (None, remark));
            let threads = pull.threads.iter().flat_map(|thread| {
                thread
                    .comments
                    .iter()
                    .map(|remark| (Some(thread.id), remark))
            });
            let all = general.chain(threads).filter(|(_, remark)| {
                remark.author == viewer && remark.body.contains("<!-- creel")
            });
            let mut all: Vec<_> = all.collect();
            all.sort_by_key(|(_, remark)| remark.id);
            all.into_iter()
                .map(|(thread, remark)| (thread, remark.body.clone()))
                .collect()
        })
    }

    /// The calls of its program, with their arguments.
    pub fn calls(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a call"))
            .collect()
    }

    pub fn forget_calls(&self) {
        fs::write(self.folder.join("calls"), "").expect("a file");
    }
}

fn each_remark(world: &mut World, with: &mut dyn FnMut(&mut world::Remark)) {
    let pull = world.pull();
    let threads = pull
        .threads
        .iter_mut()
        .flat_map(|thread| &mut thread.comments);
    let all = threads.chain(&mut pull.reviews).chain(&mut pull.comments);
    all.for_each(with);
}
