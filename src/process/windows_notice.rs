//! Shows a notification on the Windows desktop, for a creel that runs in WSL.
//!
//! # Invariants
//! - The text reaches PowerShell as a variable and is never part of a command.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

use super::{children, programs::on_path};

/// The PowerShell that every Windows has. Newer ones cannot show notifications.
const POWERSHELL: &str = "powershell.exe";
/// PowerShell starts in one to three seconds.
const LIMIT: Duration = Duration::from_secs(20);
/// Windows shows notifications only of programs that it knows: the long name is PowerShell's.
/// Single quotes only, since double ones change on their way through a Windows command line.
const SCRIPT: &str = "\
    $manager = [Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]; \
    $xml = $manager::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02); \
    $lines = $xml.GetElementsByTagName('text'); \
    [void]$lines.Item(0).AppendChild($xml.CreateTextNode('creel')); \
    [void]$lines.Item(1).AppendChild($xml.CreateTextNode($env:CREEL_NOTICE)); \
    $toast = [Windows.UI.Notifications.ToastNotification]::new($xml); \
    $id = '{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\\WindowsPowerShell\\v1.0\\powershell.exe'; \
    $manager::CreateToastNotifier($id).Show($toast)";

/// The PowerShell of the Windows that this Linux runs in, if the user sits in front of it.
pub fn find(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let in_wsl = is_set("WSL_DISTRO_NAME")
        || fs::read_to_string("/proc/sys/kernel/osrelease")
            .is_ok_and(|release| release.to_lowercase().contains("microsoft"));
    let path = variable("PATH").unwrap_or_default();
    (in_wsl && !is_set("SSH_CONNECTION"))
        .then(|| on_path(POWERSHELL, Path::new("."), OsStr::new(&path)))?
}

/// Shows a notification, in parallel. Failures are only logged: the bell rang anyway.
pub fn show(powershell: &Path, text: &str) {
    let shared = env::var("WSLENV").unwrap_or_default();
    let mut command = Command::new(powershell);
    command
        .args(["-NoProfile", "-NonInteractive", "-Command", SCRIPT])
        .env("CREEL_NOTICE", text)
        .env("WSLENV", format!("CREEL_NOTICE:{shared}"))
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    tokio::spawn(async move {
        if let Err(error) = run(command).await {
            tracing::warn!("no notification on Windows: {error}");
        }
    });
}

async fn run(mut command: Command) -> io::Result<()> {
    let (mut child, _entry) = children::start("", || command.spawn())?;
    let status = tokio::time::timeout(LIMIT, child.wait()).await??;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("{POWERSHELL} failed ({status})")))
    }
}
