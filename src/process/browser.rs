//! Opens a page in the user's browser.

use std::{ffi::OsString, io, path::Path, process::Stdio, time::Duration};

use tokio::process::Command;

use super::{children, programs::on_path};

/// The programs that open a page in the browser: of Linux, of Linux in Windows, of macOS.
const OPENERS: [&str; 3] = ["wslview", "xdg-open", "open"];
/// How long a program that cannot open it may take to say so. A browser can run for hours.
const FAILS_WITHIN: Duration = Duration::from_secs(3);

/// Opens a page. It stays open when creel ends. The error says why it is not open.
pub async fn open(page: &Path) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_user = std::env::var_os("BROWSER").filter(|name| !name.is_empty());
    let opener = of_user
        .or_else(|| found(&path))
        .ok_or("no program that opens a browser is on PATH (such as `xdg-open`)")?;
    let named = opener.to_string_lossy().into_owned();
    let failed = |error: io::Error| format!("`{named}` cannot start: {error}");
    let mut command = Command::new(&opener);
    command.arg(page).process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut child, _entry) = children::start("", || command.spawn()).map_err(failed)?;
    match tokio::time::timeout(FAILS_WITHIN, child.wait()).await {
        Ok(Ok(status)) if !status.success() => Err(format!("`{named}` failed ({status})")),
        Ok(Err(error)) => Err(failed(error)),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

fn found(path: &OsString) -> Option<OsString> {
    let here = Path::new(".");
    let mut openers = OPENERS.into_iter();
    openers
        .find(|name| on_path(name, here, path).is_some())
        .map(OsString::from)
}
