//! Lists the files of the demo application, so that they are compiled in.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

const ASSETS: &str = "assets/demo-vip";

#[expect(clippy::disallowed_methods, reason = "Cargo speaks to build scripts through the environment")]
fn main() -> io::Result<()> {
    let variable = |name| std::env::var(name).map_err(io::Error::other);
    let assets = Path::new(&variable("CARGO_MANIFEST_DIR")?).join(ASSETS);
    let mut names = Vec::new();
    for entry in fs::read_dir(&assets)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    names.sort();
    let mut list = String::from("&[\n");
    for name in &names {
        let path = assets.join(name);
        let _ = writeln!(list, "    ({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    list.push_str("]\n");
    fs::write(Path::new(&variable("OUT_DIR")?).join("demo_vip.rs"), list)?;
    println!("cargo:rerun-if-changed={ASSETS}");
    Ok(())
}
