//! What sessions changed: in a folder, in worktrees, and in worktrees that are gone.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    git_project::{git, repository},
    project::{Project, Ran},
};

/// A session of scripted turns in a repository with the file `old.txt`.
fn scripted(turns: &str) -> Project {
    let config =
        "prompt: Do it\nagents: { demo: { script: play.yaml } }\nstop: { hooks: [promise] }\n";
    let project = repository(config);
    project.write("old.txt", "one\ntwo\nthree\n");
    project.write("play.yaml", turns);
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "--quiet", "-m", "files"]);
    project
}

const TWO_ITERATIONS: &str = "turns:\n\
    - say: First.\n  run: \"printf 'one\\n2\\nthree\\n' > old.txt; echo new > new.txt\"\n\
    - say: Done. <promise>COMPLETE</promise>\n  run: \"echo more > second.txt\"\n";

const COMMITTED: &str = "turns:\n\
    - say: First.\n  run: \"echo new > new.txt; git add new.txt; git commit -qm new\"\n\
    - say: Done. <promise>COMPLETE</promise>\n  run: \"rm old.txt; chmod +x new.txt; git add -A; git commit -qm second\"\n";

fn ended(project: &Project, args: &[&str]) -> Ran {
    let all = [&["run", "--headless", "--trust", "-s", "s"], args].concat();
    let ran = project.creel(&all);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    ran
}

fn files(project: &Project, args: &[&str]) -> Value {
    let ran = project.creel(&[&["diff"], args, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let diff: Value = serde_json::from_str(&ran.out).expect("JSON");
    let brief =
        |file: &Value| json!([file["path"], file["source"], file["added"], file["removed"]]);
    diff["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(brief)
        .collect()
}

/// Applies the patch to a clone at the first commit, and compares it with a folder.
fn applied(project: &Project, commit: &str, patch: &str, folder: &Path, names: &[&str]) {
    let clone = project.root().with_file_name("clone");
    let place = clone.display().to_string();
    git(project, &["clone", "--quiet", ".", &place]);
    git(project, &["-C", &place, "checkout", "--quiet", commit]);
    let mut apply = Command::new("git")
        .args(["-C", &place, "apply"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("git starts");
    let mut input = apply.stdin.take().expect("piped");
    input.write_all(patch.as_bytes()).expect("read");
    drop(input);
    assert!(apply.wait().expect("ended").success(), "{patch}");
    for name in names {
        let read = |folder: &Path| fs::read_to_string(folder.join(name)).ok();
        assert_eq!(read(&clone), read(folder), "{name}");
    }
}

#[test]
fn the_diff_of_a_session_has_its_uncommitted_files_and_no_others() {
    let project = scripted(TWO_ITERATIONS);
    project.write("mine.txt", "not the session's\n");
    ended(&project, &[]);
    project.write("later.txt", "not the session's\n");
    assert_eq!(
        files(&project, &[]),
        json!([
            ["new.txt", "contents", 1, 0],
            ["old.txt", "contents", 1, 1],
            ["second.txt", "contents", 1, 0]
        ])
    );
    let patch = project.creel(&["diff", "s"]);
    assert_eq!((patch.code, patch.err.as_str()), (0, ""), "{}", patch.out);
    assert!(
        patch.out.contains("-two\n+2\n") && !patch.out.contains('\u{1b}'),
        "{}",
        patch.out
    );
    applied(
        &project,
        "HEAD",
        &patch.out,
        &project.root(),
        &["new.txt", "old.txt", "second.txt"],
    );
    let stat = project.creel(&["diff", "--stat"]);
    assert_eq!(
        stat.out,
        "+1  −0  new.txt\n+1  −1  old.txt\n+1  −0  second.txt\n3 files, +3 −1\n"
    );
}

#[test]
fn an_iteration_has_only_its_own_files() {
    let project = scripted(TWO_ITERATIONS);
    ended(&project, &[]);
    assert_eq!(
        files(&project, &["s", "1"]),
        json!([["new.txt", "contents", 1, 0], ["old.txt", "contents", 1, 1]])
    );
    // A number alone means the latest session.
    assert_eq!(
        files(&project, &["2"]),
        json!([["second.txt", "contents", 1, 0]])
    );
    let none = project.creel(&["diff", "s", "3"]);
    assert_eq!(none.code, 2, "{}", none.out);
    assert!(none.err.contains("the last one is 2"), "{}", none.err);
    // What the file was after the iteration is not known any more.
    project.write("new.txt", "changed\n");
    assert_eq!(
        files(&project, &["s", "1"])[0],
        json!(["new.txt", "name_only", null, null])
    );
    let named = project.creel(&["diff", "s", "1"]);
    assert!(
        named.out.contains("new.txt: changed, contents not known"),
        "{}",
        named.out
    );
    assert!(
        named
            .err
            .contains("does not have the contents to compare: new.txt"),
        "{}",
        named.err
    );
    let whole = project.creel(&["diff", "s"]);
    assert!(whole.out.contains("+changed"), "{}", whole.out);
    assert!(
        whole
            .err
            .contains("Changed again after the session's last turn"),
        "{}",
        whole.err
    );
}

#[test]
fn commits_are_compared_even_if_files_changed_later() {
    let project = scripted(COMMITTED);
    let before = git(&project, &["rev-parse", "HEAD"]);
    ended(&project, &[]);
    project.write("new.txt", "changed\n");
    git(&project, &["commit", "--quiet", "-am", "mine"]);
    assert_eq!(
        files(&project, &["s", "1"]),
        json!([["new.txt", "contents", 1, 0]])
    );
    assert_eq!(
        files(&project, &["s"]),
        json!([["new.txt", "contents", 1, 0], ["old.txt", "contents", 0, 3]])
    );
    let second = project.creel(&["diff", "s", "2"]);
    assert!(
        second.out.contains("old mode 100644\nnew mode 100755\n")
            && second.out.contains("deleted file mode 100644"),
        "{}",
        second.out
    );
    let patch = project.creel(&["diff", "s"]);
    let folder = project.root();
    applied(&project, &before, &patch.out, &folder, &["old.txt"]);
}

#[test]
fn a_worktree_is_compared_whole_and_its_branch_when_it_is_gone() {
    let project = scripted(COMMITTED);
    ended(&project, &["--worktree", "w"]);
    let worktree = project.root().join(".creel/worktrees/w");
    let expected = json!([["new.txt", "contents", 1, 0], ["old.txt", "contents", 0, 3]]);
    if worktree.exists() {
        fs::write(worktree.join("loose.txt"), "by a hook\n").expect("a file");
        assert_eq!(
            files(&project, &["s"]),
            json!([["loose.txt", "contents", 1, 0], expected[0], expected[1]])
        );
        fs::remove_file(worktree.join("loose.txt")).expect("it is there");
        let removed = project.creel(&["worktree", "remove", "w"]);
        assert_eq!(removed.code, 0, "{}", removed.err);
    }
    assert!(!worktree.exists());
    assert_eq!(files(&project, &["s"]), expected);
    assert_eq!(
        files(&project, &["s", "1"]),
        json!([["new.txt", "contents", 1, 0]])
    );
}

#[test]
fn without_a_repository_only_names_are_known() {
    let project = Project::with(
        "prompt: Do it\nagents: { demo: { script: play.yaml } }\nstop: { hooks: [promise] }\n",
    )
    .file("play.yaml", TWO_ITERATIONS);
    ended(&project, &[]);
    let diff = project.creel(&["diff"]);
    assert_eq!(diff.code, 0, "{}", diff.err);
    assert!(
        diff.out.contains("second.txt: changed, contents not known"),
        "{}",
        diff.out
    );
    assert!(
        diff.err.contains("no contents can be compared"),
        "{}",
        diff.err
    );
    let colours = project.creel(&["diff", "--stat"]);
    assert!(colours.out.contains("?  ?  new.txt\n"), "{}", colours.out);
}

#[test]
fn a_file_whose_name_looks_like_a_pattern_is_a_file() {
    let turn = "turns:\n- say: Done. <promise>COMPLETE</promise>\n  run: \"echo new > ':(glob)*'; echo more >> old.txt\"\n";
    let project = scripted(turn);
    ended(&project, &[]);
    assert_eq!(
        files(&project, &[]),
        json!([
            [":(glob)*", "contents", 1, 0],
            ["old.txt", "contents", 1, 0]
        ])
    );
}
