//! Recordings of replays.

use serde_json::Value;

use crate::support::project::Project;

#[test]
fn a_recording_needs_no_terminal() {
    let project = Project::with(
        "prompt: Greet\nagents: { demo: { script: play.yaml } }\nstop: { hooks: [promise] }\n",
    )
    .file(
        "play.yaml",
        "turns:\n  - say: Hello there. <promise>COMPLETE</promise>\n",
    );
    assert_eq!(project.run().code, 0);
    let written = project.creel(&["replay", "--cast", "s.cast"]);
    assert_eq!(
        (written.code, written.out.as_str()),
        (0, ""),
        "{}",
        written.err
    );
    let cast = project.read("s.cast");
    let head: Value = serde_json::from_str(cast.lines().next().expect("a head")).expect("JSON");
    assert_eq!(
        [&head["version"], &head["width"], &head["height"]],
        [2, 80, 24]
    );
    assert!(cast.contains("Hello") && cast.contains("there."), "{cast}");
    let large = project.creel(&["replay", "s", "--cast", "l.cast", "--size", "120x40"]);
    assert_eq!(large.code, 0, "{}", large.err);
    assert!(
        project
            .read("l.cast")
            .starts_with("{\"version\":2,\"width\":120,\"height\":40,")
    );
    for (args, code) in [
        (["--cast", "x.cast", "--size", "9x9"], 2),
        (["--cast", "gone/x.cast", "--size", "80x24"], 1),
    ] {
        let refused = project.creel(&[&["replay", "s"], &args[..]].concat());
        assert_eq!(refused.code, code, "{}", refused.err);
    }
    assert!(project.creel(&["replay", "s"]).err.contains("--cast FILE"));
}
