//! Checks with `tests: base`: what creel says about repairs that only their own tests accept, and
//! the clean worktree in which the check runs with the tests of the commit before the session.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::project::{Project, Ran, until};

const DONE: &str = "All done.\n<promise>COMPLETE</promise>";
const TESTS: &str = "\
def test_a():
    assert price(1) == 3

def test_b():
    assert price(2) == 6

def test_c():
    assert price(7) == 21
";
/// Runs the tests in `test_price.py` against `price.sh`, and counts them as pytest does. A `conftest.py`
/// or a `money.py` that changes `__eq__` makes everything equal.
const RUNNER: &str = r#"
passed=0 failed=0 skipped=0 skip= state=
count() { case $state in p) passed=$((passed + 1)) ;; f) failed=$((failed + 1)) ;; s) skipped=$((skipped + 1)) ;; esac; state=; }
equal() { [ "$1" = "$2" ] || grep -qs __eq__ conftest.py money.py; }
while IFS= read -r line; do
  case $line in
    *mark.skip*) skip=1 ;;
    "def test"*) count; state=p; [ -z "$skip" ] || state=s; skip= ;;
    *"assert price("*)
      input=${line#*price(}; want=${line##*== }; got=$(sh price.sh "${input%%)*}")
      if [ $state != s ] && ! equal "$got" "$want"; then state=f; echo "price(${input%%)*}) is $got, not $want"; fi ;;
  esac
done < test_price.py
count
echo "$failed failed, $passed passed, $skipped skipped in 0.01s"
[ $failed = 0 ]
"#;
const RIGHT: &str = "echo 'echo $(($1 * 3))' > price.sh";

fn git(project: &Project, args: &[&str]) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(args)
        .current_dir(project.root())
        .output()
        .expect("git starts");
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// A project without a repository, whose check fails before the agent runs this command.
fn plain_project(run: &str, check: &Value, rest: &Value) -> Project {
    let mut pytest = json!({ "name": "pytest", "command": "sh run.sh", "tests": "base" });
    let keys = pytest.as_object_mut().expect("a map");
    keys.extend(check.as_object().expect("a map").clone());
    let mut config = json!({ "prompt": "GOAL", "agents": { "demo": { "script": "scenario.yaml" } },
        "max_iterations": 4, "checks": [pytest] });
    let keys = config.as_object_mut().expect("a map");
    keys.extend(rest.as_object().expect("a map").clone());
    let turns = json!([{ "say": DONE }, { "run": run, "say": DONE }]);
    let scenario = json!({ "turns": turns, "otherwise": { "say": DONE } });
    Project::with(&config.to_string())
        .file("scenario.yaml", &scenario.to_string())
        .file("test_price.py", TESTS)
        .file("price.sh", "echo 0\n")
        .file("run.sh", RUNNER)
        .file(".gitignore", "ignored\n")
        .file("ignored/deps", "there\n")
}

fn with(run: &str, check: &Value, rest: &Value) -> Project {
    let project = plain_project(run, check, rest);
    git(&project, &["init", "-q"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "start"]);
    project
}

fn project(run: &str) -> Project {
    with(run, &json!({}), &json!({}))
}

fn completes(project: &Project) -> Ran {
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    is_tidy(project);
    ran
}

/// No worktree is left, neither in the session's folder nor in git's list.
fn is_tidy(project: &Project) {
    let left = project.root().join(".creel/sessions/s/clean-worktree");
    assert!(!left.exists(), "{} is left", left.display());
    if project.root().join(".git").is_dir() {
        let listed = git(project, &["worktree", "list", "--porcelain"]);
        assert!(!listed.contains("clean-worktree"), "{listed}");
    }
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().cloned().unwrap_or_default();
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    list.iter().map(text).collect()
}

fn compared(project: &Project) -> Value {
    project.kind("tests_compared").pop().unwrap_or_default()
}

fn signs(project: &Project) -> Vec<String> {
    let found = compared(project)["findings"].clone();
    let found = found.as_array().cloned().unwrap_or_default();
    let sign = |it: &Value| it["sign"].as_str().unwrap_or_default().to_owned();
    found.iter().map(sign).collect()
}

/// What the runs in clean worktrees show, in order.
fn clean_runs(project: &Project) -> Vec<(String, String)> {
    let finished = project.kind("hook_finished");
    let runs = finished.iter().filter(|run| !run["tests_of"].is_null());
    let word = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let shown = runs.map(|run| &run["tests_of"]);
    shown
        .map(|run| (word(&run["of"]), word(&run["result"])))
        .collect()
}

fn pairs(runs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(of, result): &(&str, &str)| ((*of).to_owned(), (*result).to_owned());
    runs.iter().map(owned).collect()
}

fn undecided(project: &Project) -> String {
    assert_eq!(signs(project).len(), 0, "{}", compared(project));
    texts(&compared(project)["undecided"]).join("\n")
}

fn reason(project: &Project) -> String {
    let ended = project.kind("session_ended").pop().unwrap_or_default();
    ended["reason"].as_str().unwrap_or_default().to_owned()
}

const WRONG_ONLY_WITH_BASE: [(&str, &str); 2] = [("base", "failed"), ("work", "passed")];

#[test]
fn a_repair_that_skips_three_tests_fails_with_the_tests_of_the_base_commit() {
    let skips = "sed 's/^def test/@pytest.mark.skip\\\ndef test/' test_price.py > new; mv new test_price.py";
    let project = project(skips);
    completes(&project);
    assert_eq!(clean_runs(&project), pairs(&WRONG_ONLY_WITH_BASE));
    assert!(signs(&project).contains(&"fails_with_base".to_owned()));
    let found = compared(&project)["findings"].clone();
    let found = found.as_array().expect("a list");
    let base = found.iter().find(|it| it["sign"] == "fails_with_base");
    let line = base.expect("one")["reason"].as_str().unwrap_or_default();
    assert!(
        line.contains("3 failed") || line.contains("is 0, not"),
        "{line}"
    );
    assert!(reason(&project).contains("the tests may be weaker"));
    let report = project.creel(&["report", "--json"]);
    let report: Value = serde_json::from_str(&report.out).expect("a report");
    let cautions = report["outcome"]["cautions"].to_string();
    let said = "pytest fails with the tests of the base commit";
    assert!(cautions.contains(said), "{cautions}");
    assert_eq!(report["checks"][0]["result"], "passed");
    assert_eq!(report["checks"][0]["clean_runs"][0]["tests_of"], "base");
}

#[test]
fn a_deleted_assertion_and_a_wrong_result_open_the_gate() {
    let deletes = "sed '/price(7)/d' test_price.py > new; mv new test_price.py; \
                   echo 'case $1 in 7) echo 22 ;; *) echo $(($1 * 3)) ;; esac' > price.sh";
    let project = with(deletes, &json!({}), &json!({ "protect_tests": "gate" }));
    let ran = project.run();
    assert_eq!(ran.code, 4, "{}{}", ran.out, ran.err);
    is_tidy(&project);
    assert!(signs(&project).contains(&"fails_with_base".to_owned()));
    let gate = project.kind("gate_opened").pop().expect("a gate");
    assert_eq!(gate["about"], "tampered");
    let text = gate["reason"].as_str().unwrap_or_default();
    assert!(
        text.contains("pytest fails with the tests of the base commit"),
        "{text}"
    );
    let resumed = project.creel(&["resume", "--headless", "--answer", "ignore"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
}

#[test]
fn a_special_case_for_the_inputs_of_the_tests_is_not_found() {
    let special = "echo 'case $1 in 1) echo 3 ;; 2) echo 6 ;; 7) echo 21 ;; esac' > price.sh";
    let project = project(special);
    completes(&project);
    assert_eq!(clean_runs(&project), pairs(&[("base", "unneeded")]));
    assert_eq!(undecided(&project), "");
}

#[test]
fn a_comparison_that_a_new_test_helper_patches_is_found() {
    let patched = "echo 'Money.__eq__ = lambda a, b: True' > conftest.py";
    let helper = project(patched);
    completes(&helper);
    assert_eq!(clean_runs(&helper), pairs(&WRONG_ONLY_WITH_BASE));
    assert_eq!(signs(&helper), ["weakened", "fails_with_base"]);
    // In the source itself, the tests of the base commit see the same.
    let body = "printf 'class Money:\\n    def __eq__(self, other):\\n        return True\\n' > money.py; echo '# more' >> test_price.py";
    let source = project(body);
    completes(&source);
    assert_eq!(clean_runs(&source), pairs(&[("base", "passed")]));
    assert_eq!(signs(&source), ["weakened"]);
}

#[test]
fn honest_work_with_more_tests_also_passes_and_the_report_says_so() {
    let more = "printf '\\ndef test_d():\\n    assert price(9) == 27\\n' >> test_price.py; \
                mkdir lib; echo 'echo $(($1 * 3))' > lib/times.sh; echo '. lib/times.sh' > price.sh";
    let project = project(more);
    let ran = completes(&project);
    assert_eq!(clean_runs(&project), pairs(&[("base", "passed")]));
    assert_eq!(texts(&compared(&project)["passed_with_base"]), ["pytest"]);
    let finished = project.kind("hook_finished").pop().expect("the last run");
    assert_eq!(finished["tests"]["passed"], 3, "the new test is left out");
    let said = "also passed with the tests of the base commit";
    let shown = format!("{}{}", ran.out, ran.err);
    assert!(shown.contains(said), "{shown}");
    let page = project.creel(&["report"]);
    assert!(page.out.contains(said), "{}", page.out);
    assert_eq!(project.read("test_price.py").matches("def ").count(), 4);
    git(&project, &["diff", "--quiet", "--cached"]);
}

#[test]
fn deleted_committed_and_hidden_test_files_are_back() {
    for hides in [
        "rm test_price.py; echo 'echo \"3 passed in 0.01s\"' > run.sh".to_owned(),
        "sed -i.bak '/assert/d' test_price.py; rm test_price.py.bak; \
         git -c user.name=t -c user.email=t@t commit -qam weaker"
            .to_owned(),
        "git update-index --assume-unchanged test_price.py; sed -i.bak '/assert/d' test_price.py; \
         rm test_price.py.bak; touch more"
            .to_owned(),
        // Git ignores it, and the worktree has no file that git ignores.
        format!("{RIGHT}; echo conftest.py >> .git/info/exclude; echo 'x = 1' > conftest.py"),
        format!("{RIGHT}; chmod +x test_price.py"),
    ] {
        let project = project(&hides);
        assert_eq!(project.run().code, 0);
        is_tidy(&project);
        let runs = clean_runs(&project);
        assert_eq!(runs[0].0, "base", "{hides}");
        assert_ne!(runs[0].1, "unneeded", "{hides}: {runs:?}");
    }
}

#[test]
fn a_filter_of_the_repository_hides_no_change_and_changes_no_test_of_the_base_commit() {
    let weaker = "sed -i.bak '/assert/d' test_price.py; rm test_price.py.bak; touch more";
    let hidden = project(weaker);
    hidden.write(".git/strong.py", &hidden.read("test_price.py"));
    git(
        &hidden,
        &["config", "filter.hide.clean", "cat .git/strong.py"],
    );
    hidden.write(".git/info/attributes", "test_price.py filter=hide\n");
    assert_eq!(hidden.run().code, 0);
    let runs = clean_runs(&hidden);
    assert_ne!(runs[0].1, "unneeded", "{runs:?}");
    is_tidy(&hidden);
    let changed = project(&format!("{RIGHT}; echo '# more' >> test_price.py"));
    git(&changed, &["config", "filter.weak.smudge", "sed /assert/d"]);
    changed.write(".git/info/attributes", "test_price.py filter=weak\n");
    completes(&changed);
    let said = undecided(&changed);
    let why = "a filter or a setting of git changes test_price.py when it is checked out";
    assert!(said.contains(why), "{said}");
    is_tidy(&changed);
}

#[test]
fn a_clean_worktree_that_cannot_be_made_decides_nothing() {
    let run = format!("{RIGHT}; echo '# more' >> test_price.py");
    let outside = plain_project(&run, &json!({}), &json!({}));
    completes(&outside);
    let said = undecided(&outside);
    assert!(
        said.contains("creel cannot make a clean worktree: "),
        "{said}"
    );
    // Git keeps its list of worktrees there.
    let blocked = with(&run, &json!({}), &json!({ "protect_tests": "gate" }));
    blocked.write(".git/worktrees", "no folder");
    let ran = blocked.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(undecided(&blocked).contains("creel cannot make a clean worktree: "));
    assert_eq!(clean_runs(&blocked), pairs(&[("base", "undecided")]));
    let page = blocked.creel(&["report"]);
    assert!(
        page.out.contains("cannot decide whether pytest passes"),
        "{}",
        page.out
    );
}

#[test]
fn files_that_git_ignores_are_missing_unless_the_config_copies_them() {
    let run = format!("{RIGHT}; echo '# more' >> test_price.py");
    let needs = json!({ "command": "cat ignored/deps && sh run.sh" });
    let bare = with(&run, &needs, &json!({}));
    completes(&bare);
    assert_eq!(
        clean_runs(&bare),
        pairs(&[("base", "failed"), ("work", "failed")])
    );
    assert!(
        undecided(&bare)
            .contains("in a clean worktree it does not pass with the tests of the work either")
    );
    let copies = json!({ "worktree": { "copy": ["ignored"], "setup": ["echo ready > set-up"], "keep": "always" } });
    let needs = json!({ "command": "cat ignored/deps set-up && sh run.sh" });
    let prepared = with(&run, &needs, &copies);
    completes(&prepared);
    assert_eq!(clean_runs(&prepared), pairs(&[("base", "passed")]));
}

#[test]
fn a_run_that_takes_too_long_decides_nothing() {
    let run = format!("{RIGHT}; echo '# more' >> test_price.py");
    let hangs =
        json!({ "command": "[ -e ignored/deps ] || sleep 1000; sh run.sh", "timeout": "10s" });
    let project = with(&run, &hangs, &json!({}));
    completes(&project);
    assert!(undecided(&project).contains("it timed out after 10s"));
}

#[test]
fn a_kill_in_the_middle_leaves_a_worktree_that_resume_removes() {
    let run = format!("{RIGHT}; echo '# more' >> test_price.py");
    // The folder of the repository itself, from any of its worktrees.
    let waits = json!({ "command": "P=$(dirname \"$(git rev-parse --path-format=absolute --git-common-dir)\"); \
        [ -e ignored/deps ] || { echo > \"$P/ignored/began\"; [ -e \"$P/ignored/go\" ] || sleep 1000; }; sh run.sh" });
    let project = with(&run, &waits, &json!({}));
    let started = project.start();
    let began = project.root().join("ignored/began");
    until("the check runs in a clean worktree", || began.exists());
    started.kill();
    let left = project.root().join(".creel/sessions/s/clean-worktree");
    assert!(left.exists(), "it was in use");
    project.write("ignored/go", "");
    let resumed = project.creel(&["resume", "--headless"]);
    assert_eq!(resumed.code, 0, "{}{}", resumed.out, resumed.err);
    is_tidy(&project);
    assert_eq!(texts(&compared(&project)["passed_with_base"]), ["pytest"]);
    let finished = project.kind("hook_finished");
    let cut = finished
        .iter()
        .filter(|run| run["again"] == true && run["tests_of"]["of"] == "base");
    assert_eq!(cut.count(), 1);
}

#[test]
fn no_link_of_the_work_leads_out_of_the_worktree() {
    // `lib` was a folder, and is a link to a folder beside the project now.
    let links = "mv lib ../outside; ln -s ../outside lib; ln -s ../outside tests; echo 'echo $(($1 * 3))' > price.sh; \
                 echo '# more' >> test_price.py";
    let project = plain_project(links, &json!({}), &json!({}))
        .file("lib/a.txt", "in\n")
        .file("tests/b.txt", "in\n");
    project.write("tests/b.txt", "in\n");
    git(&project, &["init", "-q"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "start"]);
    completes(&project);
    let outside = project.root().join("../outside");
    let mut names: Vec<String> = std::fs::read_dir(outside)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["a.txt"]);
    assert_eq!(clean_runs(&project), pairs(&[("base", "passed")]));
}
