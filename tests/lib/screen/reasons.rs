//! The line that says what failed, on the screen.

use creel::engine::hooks::point::HookPoint;

use crate::support::{
    samples,
    screen::Screen,
    world::{Script, exits},
};

const STDOUT: &str = include_str!("../../fixtures/hook_output/cargo_test.stdout.txt");
const STDERR: &str = include_str!("../../fixtures/hook_output/cargo_test.stderr.txt");

#[test]
fn the_screen_shows_the_test_that_failed_in_the_stream_the_retries_and_the_gate() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [exits(2, STDOUT, STDERR)])
        .attended(&[]);
    let world = samples::at_gate(script.plan(|plan| plan.max_hook_retries = 2));
    let mut screen = Screen::of(&world, (150, 200)).armed();
    let gate = screen.frame();
    assert!(
        gate.contains("still fails after 2 retries: assertion `left == right` failed"),
        "{gate}"
    );
    screen.press("esc");
    for row in ["↻ Retry 2 of 2", "▌ 2  00:00  = ", "◆ tests still fails"] {
        assert!(
            screen.row(row).contains("assertion `left == right` failed"),
            "{}",
            screen.frame()
        );
    }
}
