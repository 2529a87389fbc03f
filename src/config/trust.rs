//! Which configs are trusted to run their commands.
//!
//! A config in a freshly cloned project runs nothing. creel stores the full content that the user
//! trusted outside of the project, and the next run compares every byte. So no change goes
//! unnoticed, and no digest has to be trusted.
//!
//! # Invariants
//! - Trust is for a path and a content. If either changes, the user is asked again.
//! - Changes to the store are exclusive: sessions that start at the same time lose nothing.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    config::ConfigDocument,
    engine::{
        hooks::point::HookPoint,
        policy::{
            AgentSpec, HookAction, HookSpec, RuleCheck, RuleSpec, SessionPlan, StepAction,
            StopHook, StopHookKind, WorkflowStep,
        },
    },
};

/// How many contents to remember for one path, so that switching branches does not ask again.
const REMEMBERED: usize = 20;

#[derive(Debug, Clone)]
pub struct TrustStore {
    folder: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct TrustEntry {
    /// As [`text`] returns it.
    place: String,
    contents: Vec<Vec<(String, String)>>,
}

impl TrustStore {
    pub fn new(state_dir: &Path) -> Self {
        Self {
            folder: state_dir.join("trust"),
        }
    }

    pub fn trusts(&self, place: &Path, documents: &[ConfigDocument]) -> bool {
        self.read(place)
            .is_some_and(|entry| entry.contents.contains(&content(documents)))
    }

    pub fn trust(&self, place: &Path, documents: &[ConfigDocument]) -> io::Result<()> {
        let content = content(documents);
        if self
            .read(place)
            .is_some_and(|entry| entry.contents.last() == Some(&content))
        {
            return Ok(());
        }
        let _alone = self.lock()?;
        let mut entry = self.read(place).unwrap_or_else(|| TrustEntry {
            place: text(place),
            contents: Vec::new(),
        });
        entry.contents.retain(|known| *known != content);
        entry.contents.push(content);
        let surplus = entry.contents.len().saturating_sub(REMEMBERED);
        entry.contents.drain(..surplus);
        write(&self.file(place), &entry)
    }

    /// Returns whether there was anything to remove.
    pub fn untrust(&self, place: &Path) -> io::Result<bool> {
        let _alone = self.lock()?;
        if self.read(place).is_none() {
            return Ok(false);
        }
        fs::remove_file(self.file(place)).map(|()| true)
    }

    /// Waits for exclusive access, until the returned file is dropped.
    fn lock(&self) -> io::Result<fs::File> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let mut options = fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.folder.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn file(&self, place: &Path) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        place.hash(&mut hasher);
        // The hash is only a file name. Two paths with the same hash overwrite each other, and
        // creel asks again.
        self.folder.join(format!("{:016x}.json", hasher.finish()))
    }

    fn read(&self, place: &Path) -> Option<TrustEntry> {
        let kept = fs::read_to_string(self.file(place)).ok()?;
        let entry: TrustEntry = serde_json::from_str(&kept).ok()?;
        (entry.place == text(place)).then_some(entry)
    }
}

fn write(file: &Path, entry: &TrustEntry) -> io::Result<()> {
    let draft = file.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut out = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    out.write_all(&serde_json::to_vec(entry)?)?;
    out.sync_all()?;
    fs::rename(draft, file)
}

/// A unique text for a path. A path that is not UTF-8 is escaped; no other path begins with that
/// prefix.
fn text(place: &Path) -> String {
    let escaped = || format!("bytes:{}", place.as_os_str().as_bytes().escape_ascii());
    place.to_str().map_or_else(escaped, ToOwned::to_owned)
}

fn content(documents: &[ConfigDocument]) -> Vec<(String, String)> {
    documents
        .iter()
        .map(|document| (document.name.clone(), document.text.clone()))
        .collect()
}

/// A document for a session's plan, because a journal can come with a clone too.
pub fn plan_document(plan: &SessionPlan) -> ConfigDocument {
    let text = serde_json::to_string(plan).expect("a plan has no keys that are not text");
    ConfigDocument {
        name: "plan".into(),
        text,
    }
}

/// Every command of a plan, for the user to read. Includes the agent only if the config defines it.
pub fn commands(plan: &SessionPlan, agent_is_described: bool) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for (point, hooks) in &plan.hooks {
        for hook in hooks {
            commands.push(format!("{point}: {}", hook.action.describe()));
        }
    }
    let setup = plan.worktree.iter().flat_map(|worktree| &worktree.setup);
    commands.extend(setup.map(|command| format!("worktree setup: {command}")));
    commands.extend(of_submit(plan));
    for hook in &plan.automation {
        if !matches!(hook.spec.action, HookAction::Builtin(_)) {
            commands.push(format!("automation: {}", hook.spec.action.describe()));
        }
    }
    for (name, workflow) in &plan.workflows {
        for step in workflow.steps.iter().flat_map(WorkflowStep::parts) {
            if let StepAction::Command(HookSpec {
                action: HookAction::Command(command),
                ..
            }) = &step.action
            {
                commands.push(format!("workflow {name}: {command}"));
            }
        }
    }
    commands.extend(plan.stop.rules.iter().filter_map(rule));
    for hook in &plan.stop.hooks {
        commands.extend(
            asked(hook)
                .into_iter()
                .map(|command| format!("stop decision: {command}")),
        );
    }
    if agent_is_described {
        commands.extend(
            agent(&plan.agent_spec)
                .into_iter()
                .map(|how| format!("agent {}: {how}", plan.agent)),
        );
    }
    for fallback in &plan.limits.fallback {
        let how = agent(&fallback.spec).into_iter();
        commands.extend(how.map(|how| format!("fallback agent {}: {how}", fallback.name)));
    }
    commands
}

fn agent(spec: &AgentSpec) -> Vec<String> {
    // They become part of the command line.
    let known = spec.facts();
    let passed = known.into_iter().flat_map(|known| {
        let flag = |(name, flag): (&String, &String)| format!("{flag} (for its option {name})");
        known.flags.iter().map(flag)
    });
    match spec {
        AgentSpec::Command {
            command,
            continue_command,
            ..
        } => {
            let later = continue_command
                .iter()
                .map(|command| format!("{command} (for later turns)"));
            std::iter::once(command.clone())
                .chain(later)
                .chain(passed)
                .collect()
        }
        AgentSpec::Acp { command, .. } => std::iter::once(command.clone()).chain(passed).collect(),
        AgentSpec::Scripted { script } => vec![format!("a script of {} B", script.len())],
        AgentSpec::Outside => Vec::new(),
    }
}

/// A rule's command with its folder and variables, because a variable can change what a command
/// does.
fn rule(rule: &RuleSpec) -> Option<String> {
    let RuleCheck::Command {
        command,
        folder,
        env,
        ..
    } = &rule.check
    else {
        return None;
    };
    let set: String = env
        .iter()
        .map(|(name, value)| format!("{name}={value} "))
        .collect();
    let place = folder
        .as_ref()
        .map(|folder| format!(" (in {folder})"))
        .unwrap_or_default();
    Some(format!("rule {}: {set}{command}{place}", rule.name))
}

/// Includes the parts of a group.
fn asked(hook: &StopHook) -> Vec<&str> {
    let own = if let StopHookKind::Command { command, .. } = &hook.judge {
        Some(command.as_str())
    } else {
        None
    };
    own.into_iter()
        .chain(hook.parts().iter().flat_map(asked))
        .collect()
}

/// The commands of submitting that are not in a configured hook.
fn of_submit(plan: &SessionPlan) -> Vec<String> {
    let submit = &plan.submit;
    let unwritten = submit
        .usual
        .get(&HookPoint::BeforeSubmit)
        .filter(|_| !plan.hooks.contains_key(&HookPoint::BeforeSubmit));
    let usual = unwritten
        .into_iter()
        .flatten()
        .filter(|_| submit.on_complete);
    let usual = usual.map(|hook| format!("{}: {} (built in)", HookPoint::BeforeSubmit, hook.name));
    let own = [
        ("test", &submit.test_command),
        ("pull request", &submit.pr_command),
    ];
    let own = own
        .into_iter()
        .filter_map(|(what, command)| Some(format!("submit, {what}: {}", command.as_ref()?)));
    let reviews = plan.gatekeepers.iter().flat_map(|(name, gatekeeper)| {
        agent(&gatekeeper.spec)
            .into_iter()
            .map(move |how| format!("review by {name}: {how}"))
    });
    usual.chain(own).chain(reviews).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(text: &str) -> Vec<ConfigDocument> {
        vec![ConfigDocument {
            name: "creel.yaml".into(),
            text: text.into(),
        }]
    }

    #[test]
    fn trust_is_for_a_place_and_a_content() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = TrustStore::new(dir.path());
        let (here, there) = (Path::new("/a/creel.yaml"), Path::new("/b/creel.yaml"));
        assert!(!store.trusts(here, &documents("x")));
        store.trust(here, &documents("x")).expect("written");
        assert!(store.trusts(here, &documents("x")));
        assert!(!store.trusts(here, &documents("x ")));
        assert!(!store.trusts(there, &documents("x")));
        store.trust(here, &documents("y")).expect("written");
        assert!(store.trusts(here, &documents("x")) && store.trusts(here, &documents("y")));
        assert!(store.untrust(here).expect("removed"));
        assert!(!store.trusts(here, &documents("x")));
        assert!(!store.untrust(here).expect("nothing there"));
    }

    #[test]
    fn a_place_that_is_not_text_is_a_place_of_its_own() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = TrustStore::new(dir.path());
        let [here, there] =
            [b"/a\xff", b"/a\xfe"].map(|bytes| Path::new(std::ffi::OsStr::from_bytes(bytes)));
        store.trust(here, &documents("x")).expect("written");
        assert!(store.trusts(here, &documents("x")) && !store.trusts(there, &documents("x")));
        assert_ne!(text(here), text(there));
    }

    #[test]
    fn what_many_trust_at_the_same_time_is_all_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let (store, here) = (TrustStore::new(dir.path()), Path::new("/a/creel.yaml"));
        let texts: Vec<String> = (0..REMEMBERED).map(|n| n.to_string()).collect();
        std::thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| store.trust(here, &documents(text)).expect("written"));
            }
        });
        assert!(
            texts
                .iter()
                .all(|text| store.trusts(here, &documents(text)))
        );
    }
}
