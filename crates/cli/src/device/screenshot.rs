//! The tool `screenshot`: a picture of the screen, taken by whatever program the machine has for it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use switchboard_client::aip::ToolFailure;

use super::allow::Line;
use super::facts::Display;
use super::process::Host;

/// A program that takes pictures of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Camera {
    program: &'static str,
    arguments: &'static [&'static str],
}

impl Camera {
    /// The one that this machine has, if there is a screen.
    pub(super) fn find(display: Option<Display>, host: &Host) -> Option<Self> {
        let programs = match display? {
            Display::X11 => X11,
            Display::Wayland => WAYLAND,
        };
        let (program, arguments) = programs.iter().find(|(program, _)| host.find(program).is_some())?;
        Some(Self { program, arguments })
    }

    /// Takes a picture.
    pub(super) async fn take(&self, host: &Host) -> Result<Value, ToolFailure> {
        let failed = |error: std::io::Error| ToolFailure::new(format!("no place for a picture: {error}"));
        let folder = tempfile::tempdir().map_err(failed)?;
        let path = folder.path().join("screen.png");
        let words = [self.program].into_iter().chain(self.arguments.iter().copied()).map(str::to_owned);
        let words: Vec<String> = words.chain([path.display().to_string()]).collect();
        let result = host.run(&Line::Words(words), folder.path(), PATIENCE).await?;
        let bytes = std::fs::read(&path).unwrap_or_default();
        if bytes.is_empty() {
            let said = result["stderr"].as_str().unwrap_or_default().trim();
            return Err(ToolFailure::new(format!("{} took no picture: {said}", self.program)));
        }
        if bytes.len() > MAX_PICTURE {
            return Err(ToolFailure::new(format!("the picture has {} bytes, too many", bytes.len())));
        }
        Ok(json!({ "mime_type": "image/png", "bytes": bytes.len(), "data": STANDARD.encode(&bytes) }))
    }
}

const X11: &[(&str, &[&str])] =
    &[("import", &["-window", "root"]), ("scrot", &["--overwrite"]), ("gnome-screenshot", &["-f"])];
const WAYLAND: &[(&str, &[&str])] = &[("grim", &[]), ("gnome-screenshot", &["-f"])];
const PATIENCE: Duration = Duration::from_secs(20);
const MAX_PICTURE: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::environment::Environment;

    #[tokio::test]
    async fn a_picture_needs_a_screen_and_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let host = Host::new(&Environment::new([("PATH".to_owned(), path)]), &[]);
        assert_eq!(Camera::find(None, &host), None);
        let scrot = folder.path().join("scrot");
        std::fs::write(&scrot, "#!/bin/sh\nprintf picture > \"$2\"\n").unwrap();
        std::fs::set_permissions(&scrot, std::fs::Permissions::from_mode(0o755)).unwrap();
        let camera = Camera::find(Some(Display::X11), &host).unwrap();
        let picture = camera.take(&host).await.unwrap();
        assert_eq!(picture, json!({"mime_type": "image/png", "bytes": 7, "data": "cGljdHVyZQ=="}));
        std::fs::write(&scrot, "#!/bin/sh\necho no screen >&2\nexit 1\n").unwrap();
        assert!(camera.take(&host).await.unwrap_err().message.contains("no screen"));
    }
}
