//! Projects in git repositories, with real remotes.

use std::process::Command;

use super::project::Project;

/// A project in a git repository, whose first commit has everything in it.
pub(crate) fn repository(config: &str) -> Project {
    let project = Project::with(config);
    git(&project, &["init", "--quiet", "--initial-branch=main"]);
    for (key, value) in [
        ("user.name", "Test"),
        ("user.email", "test@example.com"),
        ("commit.gpgSign", "false"),
    ] {
        git(&project, &["config", "--global", key, value]);
    }
    project.write(".gitignore", ".env\n.ready\n");
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "-m", "first"]);
    project
}

/// The same with a bare remote.
pub(crate) fn with_remote(config: &str) -> Project {
    let project = repository(config);
    let remote = remote(&project);
    git(
        &project,
        &[
            "init",
            "--quiet",
            "--bare",
            "--initial-branch=main",
            &remote,
        ],
    );
    git(&project, &["remote", "add", "origin", &remote]);
    git(&project, &["push", "--quiet", "origin", "main"]);
    project
}

pub(crate) fn remote(project: &Project) -> String {
    project
        .root()
        .with_file_name("remote.git")
        .display()
        .to_string()
}

pub(crate) fn git(project: &Project, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(project.root())
        .env("HOME", project.root().parent().expect("a folder"));
    let ran = command.env_remove("GIT_DIR").output().expect("git runs");
    assert!(
        ran.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

/// A config whose agent is one command.
pub(crate) fn config(agent: &str, more: &str) -> String {
    let agent = serde_json::to_string(agent).expect("text");
    format!("prompt: Do it.\nagent: a\nagents: {{ a: {{ command: {agent} }} }}\n{more}\n")
}
