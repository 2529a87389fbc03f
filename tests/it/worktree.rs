//! What changed in a work tree, with real repositories and real sessions.

use std::{
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use creel::{
    engine::conversation::WorktreeChanges,
    runtime::worktree::{NAMED, WorktreeSnapshot, WorktreeSurveyor},
};
use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    folder, fresh_mark, lives,
    project::{Project, eventually_in},
};

/// Runs git, independent of the user's settings.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args([
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.com",
        "-c",
        "init.defaultBranch=main",
    ]);
    command
        .args(["-c", "commit.gpgsign=false"])
        .args(args)
        .current_dir(dir);
    let output = command.output().expect("git is installed");
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// A repository with `a` and `sub/b` committed.
fn repository(dir: &Path) {
    git(dir, &["init", "-q"]);
    write(dir, "a", "a");
    write(dir, "sub/b", "b");
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "first"]);
}

async fn look(dir: &Path) -> WorktreeSnapshot {
    WorktreeSurveyor::new(dir.to_owned(), fresh_mark())
        .survey()
        .await
}

/// What some work changes.
async fn changes(dir: &Path, work: impl FnOnce()) -> WorktreeChanges {
    let before = look(dir).await;
    work();
    look(dir)
        .await
        .changes_since(&before)
        .await
        .expect("it is known")
}

fn modified(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test]
async fn only_written_added_and_removed_files_are_reported() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    write(dir, ".gitignore", "*.log\n");
    write(dir, "dirty before", "x");
    fs::remove_file(dir.join("a")).expect("removed");
    let work = changes(dir, || {
        write(dir, "new/file", "n");
        write(dir, "sub/b", "changed");
        write(dir, "noise.log", "n");
        write(dir, ".creel/sessions/s/journal.jsonl", "{}");
    })
    .await;
    let dirty = modified(&[".gitignore", "a", "dirty before", "new/file", "sub/b"]);
    let commit = Some(git(dir, &["rev-parse", "HEAD"]));
    let files_modified = modified(&["new/file", "sub/b"]);
    assert_eq!(
        work,
        WorktreeChanges {
            files_modified,
            commit: commit.clone(),
            dirty: dirty.clone(),
            ..WorktreeChanges::default()
        }
    );
    assert_eq!(
        changes(dir, || {}).await,
        WorktreeChanges {
            commit,
            dirty,
            ..WorktreeChanges::default()
        }
    );
}

#[tokio::test]
async fn a_dirty_file_is_reported_if_it_changed_again_or_back() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    write(dir, "a", "dirty");
    write(dir, "sub/b", "dirty");
    write(dir, "untracked", "u");
    let again = changes(dir, || write(dir, "a", "dirtier")).await;
    assert_eq!(again.files_modified, ["a"]);
    let back = changes(dir, || {
        git(dir, &["checkout", "-q", "sub/b"]);
        fs::remove_file(dir.join("untracked")).expect("removed");
    })
    .await;
    assert_eq!(
        (back.files_modified, back.dirty),
        (modified(&["sub/b", "untracked"]), modified(&["a"]))
    );
}

#[tokio::test]
async fn changes_are_reported_with_their_commit_but_not_files_that_were_only_committed() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    write(dir, "a", "dirty before");
    let work = changes(dir, || {
        write(dir, "c", "new");
        git(dir, &["add", "."]);
        git(dir, &["commit", "-qm", "second"]);
        write(dir, "sub/b", "after");
    })
    .await;
    let head = git(dir, &["rev-parse", "HEAD"]);
    let expected = WorktreeChanges {
        files_modified: modified(&["c", "sub/b"]),
        commit: Some(head),
        before: Some(git(dir, &["rev-parse", "HEAD~1"])),
        dirty: modified(&["sub/b"]),
        ..WorktreeChanges::default()
    };
    assert_eq!(work, expected);
}

/// A repository `nested` inside the project's, with the file `c` and build output that it ignores.
fn nested_repository(dir: &Path) {
    write(dir, "nested/c", "c");
    write(dir, "nested/.gitignore", "*.log\n");
    let nested = dir.join("nested");
    git(&nested, &["init", "-q"]);
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "-qm", "first"]);
}

#[tokio::test]
async fn work_in_a_nested_repository_is_detected() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    nested_repository(dir);
    let nested = dir.join("nested");
    assert_eq!(changes(dir, || {}).await.files_modified, modified(&[]));
    let work = changes(dir, || {
        write(dir, "nested/c", "changed");
        write(dir, "nested/src/d", "new");
        write(dir, "nested/noise.log", "ignored");
    })
    .await;
    assert_eq!(
        (work.files_modified, work.dirty),
        (
            modified(&["nested/c", "nested/src/d"]),
            modified(&["nested"])
        )
    );
    let committed = changes(dir, || {
        git(&nested, &["add", "."]);
        git(&nested, &["commit", "-qm", "second"]);
    })
    .await;
    assert_eq!(
        committed.files_modified,
        modified(&[]),
        "a commit changes no file"
    );
    let back = changes(dir, || drop(git(&nested, &["checkout", "-q", "HEAD~1"]))).await;
    assert_eq!(back.files_modified, modified(&["nested/c", "nested/src/d"]));
    let deeper = changes(dir, || drop(git(dir, &["init", "-q", "nested/inner"]))).await;
    assert_eq!(deeper.files_modified, modified(&["nested/inner"]));
    assert_eq!(
        changes(dir, || write(dir, "nested/inner/e", "e"))
            .await
            .files_modified,
        ["nested/inner/e"]
    );
    assert_eq!(
        changes(dir, || write(dir, "nested/inner/e", "longer"))
            .await
            .files_modified,
        ["nested/inner/e"]
    );
    let gone = changes(dir, || fs::remove_dir_all(&nested).expect("removed")).await;
    assert!(
        gone.files_modified.contains(&"nested".to_owned()),
        "{gone:?}"
    );
}

#[tokio::test]
async fn work_in_a_submodule_is_detected_whatever_its_settings() {
    let dir = folder();
    let (library, dir) = (dir.path().join("library"), dir.path().join("project"));
    for place in [&library, &dir] {
        fs::create_dir(place).expect("a folder");
        repository(place);
    }
    let library = library.to_str().expect("a name");
    git(
        &dir,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            library,
            "lib",
        ],
    );
    git(
        &dir,
        &["config", "-f", ".gitmodules", "submodule.lib.ignore", "all"],
    );
    git(&dir, &["add", "."]);
    git(&dir, &["commit", "-qm", "a submodule"]);
    let first = changes(&dir, || write(&dir, "lib/a", "changed")).await;
    assert_eq!(
        first.files_modified,
        ["lib"],
        "it was clean, so creel did not look inside"
    );
    let second = changes(&dir, || write(&dir, "lib/a", "changed again")).await;
    assert_eq!(second.files_modified, ["lib/a"]);
    assert_eq!(changes(&dir, || {}).await.files_modified, modified(&[]));
    let back = changes(&dir, || {
        drop(git(&dir.join("lib"), &["checkout", "-q", "."]));
    })
    .await;
    assert_eq!(back.files_modified, ["lib"]);
    let moved = changes(&dir, || {
        write(&dir, "lib/new", "n");
        git(&dir.join("lib"), &["add", "."]);
        git(&dir.join("lib"), &["commit", "-qm", "in the submodule"]);
    })
    .await;
    assert_eq!(moved.files_modified, ["lib"]);
}

#[tokio::test]
async fn a_nested_repository_runs_no_program_of_its_own() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    nested_repository(dir);
    let nested = dir.join("nested");
    let trap = format!("touch {}", dir.join("ran").display());
    write(dir, "nested/.gitattributes", "* filter=trap\n");
    for key in [
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "core.fsmonitor",
    ] {
        git(&nested, &["config", key, &trap]);
    }
    let work = changes(dir, || write(dir, "nested/c", "changed")).await;
    assert_eq!(work.files_modified, ["nested/c"]);
    assert!(!dir.join("ran").exists());
}

#[tokio::test]
async fn a_nested_repository_that_git_cannot_read_is_scanned_without_git() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    nested_repository(dir);
    write(dir, "nested/.git/index", "nothing that git understands");
    assert_eq!(
        changes(dir, || write(dir, "nested/c", "changed"))
            .await
            .files_modified,
        ["nested/c"]
    );
}

#[tokio::test]
async fn the_first_commit_of_a_repository_is_detected() {
    let dir = folder();
    let dir = dir.path();
    git(dir, &["init", "-q"]);
    write(dir, "before", "x");
    let work = changes(dir, || {
        write(dir, "new", "n");
        git(dir, &["add", "."]);
        git(dir, &["commit", "-qm", "first"]);
    })
    .await;
    let head = git(dir, &["rev-parse", "HEAD"]);
    let nothing = git(dir, &["hash-object", "-t", "tree", "/dev/null"]);
    assert_eq!(
        work,
        WorktreeChanges {
            files_modified: modified(&["new"]),
            commit: Some(head),
            before: Some(nothing),
            ..WorktreeChanges::default()
        }
    );
}

#[tokio::test]
async fn names_are_relative_to_the_project_and_files_outside_do_not_count() {
    let whole = folder();
    let whole = whole.path();
    repository(whole);
    let project = whole.join("sub");
    write(whole, "sub/.creel/x", "x");
    let work = changes(&project, || {
        write(whole, "a", "outside");
        write(&project, "b", "committed");
        git(whole, &["commit", "-qam", "both"]);
        write(&project, "deep/er", "new");
        write(whole, "other", "outside");
    })
    .await;
    assert_eq!(work.files_modified, ["b", "deep/er"]);
    assert_eq!(work.dirty, ["deep/er"]);
}

#[tokio::test]
async fn any_name_is_understood() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    let odd = [
        "two\nlines",
        "\"quoted\" \\",
        "grüße/日本",
        " spaces ",
        "-rf",
        "?",
        "1 .M N... x",
    ];
    let work = changes(dir, || odd.iter().for_each(|name| write(dir, name, "x"))).await;
    let mut expected = modified(&odd);
    expected.sort();
    assert_eq!(work.files_modified, expected);
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "odd"]);
    let broken = std::ffi::OsStr::from_bytes(b"no\xffutf8");
    let work = changes(dir, || {
        fs::write(dir.join(broken), "x").expect("a file");
        fs::rename(dir.join("?"), dir.join("renamed")).expect("renamed");
        symlink("/nowhere", dir.join("dangling")).expect("a link");
        git(dir, &["add", "--all", "--", "?", "renamed"]);
    })
    .await;
    assert_eq!(
        work.files_modified,
        ["?", "dangling", "no\u{fffd}utf8", "renamed"]
    );
}

#[tokio::test]
async fn long_lists_are_cut_and_counted() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    let work = changes(dir, || {
        (0..NAMED + 7).for_each(|n| write(dir, &format!("many/{n:04}"), "x"));
    })
    .await;
    assert_eq!((work.files_modified.len(), work.more_modified), (NAMED, 7));
    assert_eq!((work.dirty.len(), work.more_dirty), (NAMED, 7));
}

#[tokio::test]
async fn without_a_repository_the_files_are_compared() {
    let dir = folder();
    let dir = dir.path();
    write(dir, "a", "a");
    write(dir, "sub/b", "b");
    write(dir, "gone", "g");
    let work = changes(dir, || {
        write(dir, "sub/b", "longer");
        write(dir, "new", "n");
        fs::remove_file(dir.join("gone")).expect("removed");
        for passed in [
            ".creel/x",
            "target/debug/x",
            "node_modules/x/y",
            "sub/.git/index",
        ] {
            write(dir, passed, "x");
        }
    })
    .await;
    assert_eq!(
        work,
        WorktreeChanges {
            files_modified: modified(&["gone", "new", "sub/b"]),
            ..WorktreeChanges::default()
        }
    );
}

#[tokio::test]
async fn a_repository_that_git_refuses_is_scanned_without_git() {
    let dir = folder();
    let dir = dir.path();
    write(dir, ".git", "this leads nowhere");
    let work = changes(dir, || write(dir, "new", "n")).await;
    assert_eq!(
        work,
        WorktreeChanges {
            files_modified: modified(&["new"]),
            ..WorktreeChanges::default()
        }
    );
}

#[tokio::test]
async fn snapshots_of_different_kinds_are_not_compared() {
    let dir = folder();
    let dir = dir.path();
    write(dir, "a", "a");
    let before = look(dir).await;
    git(dir, &["init", "-q"]);
    assert!(look(dir).await.changes_since(&before).await.is_none());
}

#[tokio::test]
async fn looking_changes_nothing_in_the_repository() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    let index = fs::read(dir.join(".git/index")).expect("the index");
    // The same content at another time: a refresh would record that.
    write(dir, "a", "a");
    git(dir, &["config", "core.fsmonitor", "touch watched; false"]);
    changes(dir, || {}).await;
    assert_eq!(fs::read(dir.join(".git/index")).expect("the index"), index);
    assert!(
        !dir.join("watched").exists(),
        "the repository's own program was run"
    );
}

/// Everything that can happen to a work tree between two surveys.
const STEPS: [fn(&Path); 24] = [
    |_| {},
    |dir| write(dir, "a", "a longer text"),
    |dir| write(dir, "a", "a"),
    |dir| write(dir, "a", "z"),
    |dir| write(dir, "untracked", "u"),
    |dir| write(dir, "untracked", "uu"),
    |dir| drop(fs::remove_file(dir.join("untracked"))),
    |dir| drop(fs::create_dir_all(dir.join("empty/deep"))),
    |dir| write(dir, "empty/deep/file", "e"),
    |dir| drop(fs::remove_dir_all(dir.join("empty"))),
    |dir| write(dir, "out/ignored", "i"),
    |dir| write(dir, "x.log", "i"),
    |dir| write(dir, ".gitignore", "out/\n*.log\n"),
    |dir| write(dir, ".gitignore", "nothing\n"),
    |dir| write(dir, "sub/.gitignore", "dist/\n"),
    |dir| write(dir, "sub/.gitignore", "nothing\n"),
    |dir| write(dir, "sub/dist/deep/new", "n"),
    |dir| write(dir, ".git/info/attributes", "a text\n"),
    |dir| drop(git(dir, &["add", "--all"])),
    |dir| drop(git(dir, &["commit", "--allow-empty", "-qm", "more"])),
    |dir| drop(git(dir, &["reset", "-q", "--soft", "HEAD"])),
    |dir| drop(fs::rename(dir.join("sub/b"), dir.join("sub/c"))),
    |dir| drop(fs::rename(dir.join("sub/c"), dir.join("sub/b"))),
    |dir| {
        let _ = fs::set_permissions(dir.join("a"), fs::Permissions::from_mode(0o755));
    },
];

#[tokio::test]
async fn a_surveyor_that_remembers_reports_the_same_as_one_that_looks_anew() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    let mut remembering = WorktreeSurveyor::new(dir.to_owned(), fresh_mark());
    let (mut remembered, mut fresh) = (remembering.survey().await, look(dir).await);
    // A fixed sequence that looks random: every pair of steps comes up.
    let mut number: usize = 1;
    for round in 0..400 {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        STEPS[(number >> 33) % STEPS.len()](dir);
        // Sometimes long enough after the change for creel to rely on the time of the change.
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let (now, afresh) = (remembering.survey().await, look(dir).await);
        let told = now.changes_since(&remembered).await;
        assert_eq!(told, afresh.changes_since(&fresh).await, "round {round}");
        assert!(told.is_some());
        (remembered, fresh) = (now, afresh);
    }
}

#[tokio::test]
async fn a_surveyor_that_remembers_notices_what_is_no_longer_ignored() {
    let dir = folder();
    let dir = dir.path();
    repository(dir);
    write(dir, "sub/.gitignore", "dist/\n");
    write(dir, "sub/dist/new", "n");
    let mut remembering = WorktreeSurveyor::new(dir.to_owned(), fresh_mark());
    // Long enough after the last change for creel to rely on its time.
    tokio::time::sleep(Duration::from_millis(25)).await;
    let before = remembering.survey().await;
    // The file itself was uncommitted before.
    write(dir, "sub/.gitignore", "nothing\n");
    let told = remembering
        .survey()
        .await
        .changes_since(&before)
        .await
        .expect("it is known");
    assert_eq!(told.dirty, ["sub/.gitignore", "sub/dist/new"]);
}

#[tokio::test]
async fn a_surveyor_that_remembers_notices_a_commit_in_a_submodule() {
    let around = folder();
    let (dir, inner) = (around.path().join("project"), around.path().join("inner"));
    for place in [&dir, &inner] {
        fs::create_dir_all(place).expect("a folder");
        repository(place);
    }
    let from = inner.display().to_string();
    git(
        &dir,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            &from,
            "module",
        ],
    );
    git(&dir, &["commit", "-qm", "module"]);
    let mut remembering = WorktreeSurveyor::new(dir.clone(), fresh_mark());
    // Long enough after the last change for creel to rely on its time.
    tokio::time::sleep(Duration::from_millis(25)).await;
    let before = remembering.survey().await;
    git(
        &dir.join("module"),
        &["commit", "-q", "--allow-empty", "-m", "inside"],
    );
    let told = remembering
        .survey()
        .await
        .changes_since(&before)
        .await
        .expect("it is known");
    assert_eq!(told.dirty, ["module"]);
}

/// What the records say about the work tree after each turn of an agent that runs these commands.
fn work_after(project: &Project, path: Option<&str>, turns: &[&str]) -> Vec<serde_json::Value> {
    let turns: Vec<_> = turns
        .iter()
        .map(|run| json!({ "say": "x", "run": run }))
        .collect();
    project.write("scenario.yaml", &json!({ "turns": turns }).to_string());
    let root = project.root();
    git(&root, &["init", "-q"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-qm", "first"]);
    let mut command = project.command(&[
        "run",
        "--headless",
        "--trust",
        "-s",
        "s",
        "-n",
        &turns.len().to_string(),
    ]);
    let ran = path
        .into_iter()
        .fold(&mut command, |command, path| command.env("PATH", path))
        .output();
    assert_eq!(ran.expect("creel starts").status.code(), Some(3));
    project
        .kind("turn_ended")
        .into_iter()
        .map(|record| record["work"].clone())
        .collect()
}

const QUIET: &str = "prompt: x\nagent: demo\nstop: { settled: continue, no_progress: 0 }\nagents: { demo: { script: scenario.yaml } }\n";

#[test]
fn the_users_own_ignore_rules_count_as_soon_as_they_change() {
    let project = Project::with(QUIET);
    let home = project.root().with_file_name("");
    write(&home, ".gitconfig", "[core]\n\texcludesFile = ~/ignored\n");
    write(&home, "ignored", "out/\n");
    write(&home, "other", "out/\n");
    let turns = [
        "mkdir out; echo 1 > out/new",
        "sleep 0.1",
        "sleep 0.1",
        "sleep 0.1; : > ~/ignored",
        "sleep 0.1",
        "sleep 0.1; git config --global core.excludesFile '~/other'",
    ];
    let work = work_after(&project, None, &turns);
    let dirty: Vec<_> = work.iter().map(|work| work["dirty"].clone()).collect();
    let (hidden, shown) = (json!(null), json!(["out/new"]));
    assert_eq!(
        dirty,
        [
            hidden.clone(),
            hidden.clone(),
            hidden.clone(),
            shown.clone(),
            shown,
            hidden
        ]
    );
}

#[test]
fn a_commit_while_git_looks_is_seen_after_the_next_turn() {
    let project = Project::with(QUIET).file("a", "1\n");
    let bin = folder();
    let commits = "case \" $* \" in *' status '*) if [ -e ~/now ]; then rm ~/now\n\
                   \"$real\" \"$@\"; \"$real\" -c user.name=A -c user.email=a@example.com commit -qam meanwhile; exit 0; fi ;; esac";
    let path = git_that(bin.path(), commits);
    let turns = [
        "echo 22 > a; sleep 0.1",
        "sleep 0.1",
        "touch new ~/now; sleep 0.1",
        "sleep 0.1",
        "sleep 0.1",
    ];
    let work = work_after(&project, Some(&path), &turns);
    let commit = git(&project.root(), &["rev-parse", "HEAD"]);
    assert_eq!(
        git(&project.root(), &["log", "-1", "--format=%s"]),
        "meanwhile"
    );
    assert_eq!(
        work[4],
        json!({ "commit": commit, "dirty": ["new"] }),
        "{work:#?}"
    );
}

#[test]
fn a_file_that_is_restored_while_git_looks_does_not_stay_uncommitted() {
    let turns = json!({ "turns": [{ "say": "x", "run": "sleep 0.1" }, { "say": "x", "run": "sleep 0.1" }] });
    let project = Project::with(QUIET)
        .file("f", "start\n")
        .file("scenario.yaml", &turns.to_string());
    let (root, bin) = (project.root(), folder());
    git(&root, &["init", "-q"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-qm", "first"]);
    write(&root, "f", "changed by the user\n");
    // Otherwise the new folder would be a reason to ask git again.
    fs::create_dir(root.join(".creel")).expect("a folder");
    // Long enough after the last change for creel to rely on its time.
    std::thread::sleep(Duration::from_millis(25));
    let restores =
        "case \" $* \" in *' ls-files --debug '*) \"$real\" \"$@\"; echo start > f; exit 0 ;; esac";
    let path = git_that(bin.path(), restores);
    let mut command = project.command(&["run", "--headless", "--trust", "-s", "s", "-n", "2"]);
    assert_eq!(
        command
            .env("PATH", path)
            .output()
            .expect("creel starts")
            .status
            .code(),
        Some(3)
    );
    assert_eq!(project.read("f"), "start\n", "git was asked for the size");
    let dirty = |record: serde_json::Value| record["work"]["dirty"].clone();
    assert_eq!(
        project
            .kind("turn_ended")
            .into_iter()
            .map(dirty)
            .collect::<Vec<_>>(),
        [json!(null), json!(null)]
    );
}

/// A `git` that counts how often it is started.
fn counting_git(dir: &Path) -> String {
    git_that(dir, &format!("echo x >> '{}/calls'", dir.display()))
}

/// A `PATH` with a `git` that does something first. `$real` is the real one.
pub(crate) fn git_that(dir: &Path, first: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path)
        .map(|folder| folder.join("git"))
        .find(|git| git.is_file());
    let real = real.expect("git is installed");
    write(
        dir,
        "bin/git",
        &format!(
            "#!/bin/sh\nreal='{}'\n{first}\nexec \"$real\" \"$@\"\n",
            real.display()
        ),
    );
    fs::set_permissions(dir.join("bin/git"), fs::Permissions::from_mode(0o755)).expect("a program");
    let folders = std::iter::once(dir.join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(folders)
        .expect("a path")
        .into_string()
        .expect("text")
}

/// How often a session of ten iterations starts git, if the agent appends to a file in every turn.
/// `first` happens after the commit of that file.
fn calls_of_git(first: impl FnOnce(&Path)) -> usize {
    let bin = folder();
    let project = Project::with(
        "prompt: x\nagent: demo\nstop: { settled: continue }\nmax_iterations: 10\n\
         agents: { demo: { command: 'sleep 0.05; echo more >> count; wc -l < count' } }\n",
    );
    let root = project.root();
    write(&root, "count", "start\n");
    git(&root, &["init", "-q"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-qm", "first"]);
    first(&root);
    let path = counting_git(bin.path());
    let ran = project
        .command(&["run", "--headless", "--trust"])
        .env("PATH", path)
        .output()
        .expect("creel starts");
    assert!(
        String::from_utf8_lossy(&ran.stdout).contains("Iteration 10"),
        "{ran:?}"
    );
    fs::read_to_string(bin.path().join("calls"))
        .expect("git was asked")
        .lines()
        .count()
}

#[test]
fn git_is_not_asked_again_while_nothing_changes() {
    let calls = calls_of_git(|_| {});
    // Once before the first turn, once because the file became dirty, and perhaps once more,
    // because everything was too young to be remembered at first, each time with the list of hidden
    // files. Once to find git's settings, once for the size of the file in the index, and once more
    // at the end, to count lines.
    assert!(calls <= 9, "{calls} calls of git in 10 iterations");
}

#[test]
fn git_is_not_asked_again_about_a_file_that_was_uncommitted_before_the_session() {
    let calls = calls_of_git(|root| write(root, "count", "changed by the user\n"));
    assert!(calls <= 9, "{calls} calls of git in 10 iterations");
}

#[test]
fn each_turn_reports_the_agents_changes_and_not_those_of_hooks() {
    let config = "prompt: GOAL\nmax_iterations: 2\nagents: { demo: { script: scenario.yaml } }\n\
                  hooks: { post_iteration: [{ command: 'echo hook > by-hook' }] }\n";
    let turns = "turns:\n  - { say: one, run: 'echo x > by-agent' }\n  - say: two\n";
    let project = Project::with(config).file("scenario.yaml", turns);
    let root = project.root();
    git(&root, &["init", "-q"]);
    git(&root, &["add", "."]);
    git(&root, &["commit", "-qm", "first"]);
    assert_eq!(project.run().code, 3);
    let work: Vec<_> = project
        .kind("turn_ended")
        .into_iter()
        .map(|record| record["work"].clone())
        .collect();
    let dirty = json!(["by-agent", "by-hook"]);
    let commit = git(&root, &["rev-parse", "HEAD"]);
    let contents = json!({ "by-agent": { "digest": "73cb3858a687a849" } });
    let first = json!({ "files_modified": ["by-agent"], "commit": commit, "dirty": ["by-agent"], "contents": contents });
    assert_eq!(work, [first, json!({ "commit": commit, "dirty": dirty })]);
}

#[test]
fn a_stop_does_not_wait_for_a_look_at_the_work_tree() {
    let config = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n";
    let project = Project::with(config).file("scenario.yaml", "turns:\n  - say: one\n");
    git(&project.root(), &["init", "-q"]);
    // A git that takes longer than any timeout.
    project.write(
        "bin/git",
        "#!/bin/sh\necho $$ > \"$HOME/git\"\nexec sleep 1000\n",
    );
    let slow = project.root().join("bin/git");
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).expect("permissions");
    let path = format!(
        "{}:{}",
        slow.parent().expect("a folder").display(),
        std::env::var("PATH").expect("a path")
    );
    let started = project.start_with(&[("PATH", &path)]);
    let pid: i32 = eventually_in(&project.root().with_file_name("git"))
        .parse()
        .expect("a number");
    let asked = Instant::now();
    started.signal(Signal::TERM);
    started.end();
    assert!(
        asked.elapsed() < Duration::from_secs(4),
        "it waited for git"
    );
    assert!(!lives(pid), "it was left behind");
}

/// A session whose agent runs this command, and what the session printed.
fn session(project: &Project, command: &str) -> String {
    project.write(
        "scenario.yaml",
        &format!("turns: [{{ say: '<promise>COMPLETE</promise>', run: \"{command}\" }}]\n"),
    );
    let ran = project.creel(&["run", "--headless", "--trust", "-s", "s"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ran.out
}

const DEMO: &str = "prompt: GOAL\nagents: { demo: { script: scenario.yaml } }\n";

#[test]
fn the_end_of_a_session_says_how_many_lines_it_changed() {
    let project =
        Project::with(DEMO).file(".gitignore", "creel.yaml\nscenario.yaml\n.creel\n*.log\n");
    let root = project.root();
    repository(&root);
    write(&root, "mine", "one\ntwo\nthree\n");
    let work = "printf 'b\\\\nc\\\\n' >> a; git -c user.name=A -c user.email=a@b.c commit -qam second; rm sub/b; \
                printf '1\\\\n2' > new; printf '\\\\0' > picture; echo 1 > a.log";
    let printed = session(&project, work);
    let [end] = &project.kind("session_ended")[..] else {
        panic!("it ended once")
    };
    // The last line of `a` had no line break, so it counts as changed. The user's own file and
    // ignored files do not count.
    assert_eq!(
        end["lines"],
        json!({ "added": 4, "removed": 2, "files": 4 }),
        "{end}"
    );
    let fact = "  changed       +4 −2 in 4 files\n";
    assert!(printed.contains(fact), "{printed}");
    // The record has them, so they stay the same whatever happens to the files.
    write(&root, "new", "gone");
    let shown = project.creel(&["show", "s"]).out;
    assert!(shown.contains(fact), "{shown}");
}

#[test]
fn a_session_whose_files_are_as_committed_again_says_so() {
    let project = Project::with(DEMO).file(".gitignore", "creel.yaml\nscenario.yaml\n.creel\n");
    repository(&project.root());
    project.write("scenario.yaml", "turns:\n  - { say: Not yet., run: 'echo x > a' }\n  - { say: '<promise>COMPLETE</promise>', run: 'printf a > a' }\n");
    let ran = project.creel(&["run", "--headless", "--trust", "-s", "s"]);
    let fact = "  changed       1 file, now as in the commit before the session\n";
    assert!(ran.out.contains(fact), "{}", ran.out);
}

#[test]
fn undoing_what_was_uncommitted_before_the_session_counts_as_a_change() {
    let project = Project::with(DEMO).file(".gitignore", "creel.yaml\nscenario.yaml\n.creel\n");
    let root = project.root();
    repository(&root);
    write(&root, "a", "mine");
    write(&root, "new", "mine too");
    let printed = session(&project, "printf a > a; rm new");
    assert!(
        printed.contains("  changed       2 files, now as in the commit before the session\n"),
        "{printed}"
    );
}

#[test]
fn without_a_repository_there_are_no_line_counts_and_nothing_to_submit() {
    let project = Project::with(DEMO);
    let printed = session(&project, "echo x > a");
    assert!(project.kind("session_ended")[0].get("lines").is_none());
    assert!(
        printed.contains("  changed       1 file\n") && !printed.contains("creel submit"),
        "{printed}"
    );
}

#[test]
fn before_the_first_commit_everything_that_a_session_writes_is_new() {
    let project = Project::with(DEMO).file(".gitignore", "creel.yaml\nscenario.yaml\n.creel\n");
    git(&project.root(), &["init", "-q"]);
    let work = "printf '1\\\\n2\\\\n' > a; git add a; git -c user.name=A -c user.email=a@b.c commit -qm first; echo 1 > b";
    let printed = session(&project, work);
    assert!(
        printed.contains("  changed       +3 −0 in 2 files\n"),
        "{printed}"
    );
}
