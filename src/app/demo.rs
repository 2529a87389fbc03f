//! `creel demo`: a built-in session in a temporary folder.

use std::{fs, path::PathBuf};

use super::{
    AppError, AppResult,
    run::{self, NewSession},
    say,
};
use crate::{
    app::{
        dead_sessions::DeadSessions,
        session_host::{FolderRetention, SessionSurface},
    },
    cli::{DemoArgs, DetachArgs},
    config,
    engine::tasks::graph::TaskGraph,
    journal::SessionsDir,
    runtime::now,
};

/// A built-in scenario: the files of its project, including the config and the agent's script.
struct DemoScenario {
    name: &'static str,
    about: &'static str,
    files: &'static [(&'static str, &'static str)],
}

const SCENARIOS: [DemoScenario; 3] = [
    DemoScenario {
        name: "tests",
        about: "tests are red twice, then green; a report is delivered at the end",
        files: &[
            ("creel.yaml", include_str!("../../assets/demo/tests/creel.yaml")),
            ("scenario.yaml", include_str!("../../assets/demo/tests/scenario.yaml")),
            ("run-tests.sh", include_str!("../../assets/demo/tests/run-tests.sh")),
        ],
    },
    DemoScenario {
        name: "limit",
        about: "a check that the agent cannot satisfy, up to the retry limit",
        files: &[
            ("creel.yaml", include_str!("../../assets/demo/limit/creel.yaml")),
            ("scenario.yaml", include_str!("../../assets/demo/limit/scenario.yaml")),
        ],
    },
    DemoScenario {
        name: "permission",
        about: "an agent that asks before it changes one file and removes another",
        files: &[
            ("creel.yaml", include_str!("../../assets/demo/permission/creel.yaml")),
            ("scenario.yaml", include_str!("../../assets/demo/permission/scenario.yaml")),
            ("greeting.txt", include_str!("../../assets/demo/permission/greeting.txt")),
            ("notes.txt", include_str!("../../assets/demo/permission/notes.txt")),
        ],
    },
];

pub(super) fn demo(args: &DemoArgs) -> AppResult {
    let wanted = args.scenario.as_deref().unwrap_or(SCENARIOS[0].name);
    let Some(scenario) = SCENARIOS.iter().find(|scenario| scenario.name == wanted) else {
        let list: String = SCENARIOS.iter().map(|known| format!("\n  {:10} {}", known.name, known.about)).collect();
        return Err(AppError::usage(format!("unknown scenario `{wanted}`; there are:{list}")));
    };
    let folder = DemoDir::make(scenario)?;
    let settings = config::load(&folder.path.join("creel.yaml"), None)?;
    let plan = settings.plan(config::PlanRequest::default())?;
    let prompt = settings.prompt.clone().unwrap_or_default();
    let session = SessionsDir::of(&folder.path).folder("demo");
    let afterwards = if args.keep { FolderRetention::Stays } else { FolderRetention::GoesAway };
    // Not detachable: its folder is removed with the screen, so there would be nothing to attach to.
    let surface = SessionSurface::chosen(args.output, DetachArgs::default(), settings.ui);
    let (root, tasks) = (folder.path.clone(), TaskGraph::default());
    let start = NewSession {
        root,
        folder: session,
        turn: None,
        plan,
        prompt,
        tasks,
        errand: None,
        order: None,
        nats: None,
        leash: None,
        leftovers: DeadSessions::default(),
    };
    let code = run::begin(start, surface, afterwards)?;
    if args.keep {
        say(&format!("creel: the folder is {}; look around with `creel show demo` there", folder.keep().display()));
    }
    Ok(code)
}

/// A folder that is removed when the demo ends, unless `kept` is set.
struct DemoDir {
    path: PathBuf,
    kept: bool,
}

impl DemoDir {
    fn make(scenario: &DemoScenario) -> AppResult<Self> {
        let path = std::env::temp_dir().join(format!("creel-demo-{:x}-{:x}", now().0, std::process::id()));
        let failed = |error| AppError::failed(format!("cannot make the demo's folder {}: {error}", path.display()));
        fs::create_dir(&path).map_err(failed)?;
        for (name, text) in scenario.files {
            fs::write(path.join(name), text).map_err(failed)?;
        }
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, kept: false })
    }

    fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.path.clone()
    }
}

impl Drop for DemoDir {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
