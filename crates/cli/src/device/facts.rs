//! What this machine is like, read from where the kernel tells it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use switchboard_client::aip::SystemInfo;

use super::process::Host;

/// Where to look.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// What everything else is below.
    base: PathBuf,
    /// The folder whose disk counts.
    shared: PathBuf,
    display: Option<Display>,
    host: Host,
}

/// What shows windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Display {
    X11,
    Wayland,
}

impl Machine {
    /// This machine.
    pub(super) fn new(shared: &Path, display: Option<Display>, host: Host) -> Self {
        Self { base: PathBuf::from("/"), shared: shared.to_owned(), display, host }
    }

    /// What it is like now, in the fields of the protocol (§3.5); what these have no place for is in
    /// `custom_metadata`.
    pub(super) fn facts(&self, device_id: &str) -> Map<String, Value> {
        let unknown = || "unknown".to_owned();
        let memory = self.read("proc/meminfo").unwrap_or_default();
        let processors = self.read("proc/cpuinfo").unwrap_or_default();
        SystemInfo {
            platform: "linux".to_owned(),
            os_version: self.system().unwrap_or_else(unknown),
            cpu_count: cpu_count(&processors),
            memory_total_gb: gigabytes(kilobytes(&memory, "MemTotal").unwrap_or(0).saturating_mul(1024)),
            hostname: self.line("proc/sys/kernel/hostname").unwrap_or_else(unknown),
            ip_address: address().map_or_else(unknown, |address| address.to_string()),
            supported_features: self.features(),
            platform_type: "computer".to_owned(),
            custom_metadata: self.more(&processors, &memory),
            ..SystemInfo::unknown(device_id)
        }
        .to_object()
    }

    fn more(&self, processors: &str, memory: &str) -> Map<String, Value> {
        let model = field(processors, "model name").or_else(|| field(processors, "Model"));
        let free = kilobytes(memory, "MemAvailable").map(|free| gigabytes(free.saturating_mul(1024)));
        let display = self.display.map(|display| match display {
            Display::X11 => "x11",
            Display::Wayland => "wayland",
        });
        let disk = nix::sys::statvfs::statvfs(&self.shared).ok().map(|disk| {
            let unit = disk.fragment_size();
            let size = |blocks: u64| gigabytes(blocks.saturating_mul(unit));
            json!({ "total_gb": size(disk.blocks()), "free_gb": size(disk.blocks_available()) })
        });
        let facts = [
            ("kernel", self.line("proc/sys/kernel/osrelease").map(Value::from)),
            ("architecture", Some(std::env::consts::ARCH.into())),
            ("cpu_model", model.map(Value::from)),
            ("memory_free_gb", free.map(Value::from)),
            ("disk", disk),
            ("gpu", Some(self.gpus()).filter(|gpus| !gpus.is_empty()).map(Value::from)),
            ("display", Some(display.map_or(Value::Null, Value::from))),
            ("agent", Some(concat!("switchboard ", env!("CARGO_PKG_VERSION")).into())),
        ];
        facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
    }

    fn system(&self) -> Option<String> {
        let release = self.read("etc/os-release").or_else(|| self.read("usr/lib/os-release"))?;
        let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        Some(name.trim_matches(['"', '\'']).to_owned())
    }

    /// What it can be used for, in the order of the reference.
    fn features(&self) -> Vec<String> {
        let found = |programs: &[&str]| programs.iter().any(|program| self.host.find(program).is_some());
        let gui = self.display.is_some();
        [
            ("gui", gui),
            ("cli", true),
            (
                "browser",
                gui && found(&["firefox", "chromium", "google-chrome", "chromium-browser", "epiphany"]),
            ),
            ("file_system", true),
            ("office", gui && found(&["libreoffice", "soffice"])),
            ("linux_apps", true),
        ]
        .into_iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(name, _)| name.to_owned())
        .collect()
    }

    fn gpus(&self) -> Vec<String> {
        let mut names = Vec::new();
        for folder in self.folders("proc/driver/nvidia/gpus") {
            let about = std::fs::read_to_string(folder.join("information")).unwrap_or_default();
            names.extend(field(&about, "Model").map(str::to_owned));
        }
        for card in self.folders("sys/class/drm") {
            let name = card.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Outputs of a card are there too, as `card0-HDMI-A-1`.
            if !name.starts_with("card") || name.contains('-') {
                continue;
            }
            let id = |what: &str| std::fs::read_to_string(card.join("device").join(what)).ok();
            let (Some(vendor), Some(device)) = (id("vendor"), id("device")) else { continue };
            let (vendor, device) = (vendor.trim(), device.trim());
            let maker = VENDORS.iter().find(|(id, _)| *id == vendor).map_or(vendor, |(_, maker)| maker);
            // Its driver has told its model.
            if maker != "NVIDIA" || names.is_empty() {
                names.push(format!("{maker} {device}"));
            }
        }
        names
    }

    fn folders(&self, path: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.base.join(path)).into_iter().flatten();
        let mut folders: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        folders.sort();
        folders
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.base.join(path)).ok()
    }

    fn line(&self, path: &str) -> Option<String> {
        Some(self.read(path)?.trim().to_owned()).filter(|line| !line.is_empty())
    }
}

/// The name of this machine.
pub(crate) fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split_whitespace().next()?.parse().ok()
}

fn cpu_count(processors: &str) -> u64 {
    let listed = processors.lines().filter(|line| line.starts_with("processor")).count();
    let count = if listed > 0 { listed } else { std::thread::available_parallelism().map_or(0, usize::from) };
    count as u64
}

/// With two decimals.
fn gigabytes(bytes: u64) -> f64 {
    (bytes as f64 / f64::from(1_u32 << 30) * 100.0).round() / 100.0
}

/// The address under which others would see this machine. Nothing is sent: only the way is looked up,
/// to addresses that nobody has.
fn address() -> Option<IpAddr> {
    let ways: [(IpAddr, IpAddr); 2] = [
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
    ];
    let find = |(own, other): (IpAddr, IpAddr)| {
        let socket = UdpSocket::bind(SocketAddr::new(own, 0)).ok()?;
        socket.connect(SocketAddr::new(other, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    ways.into_iter().find_map(find)
}

/// Makers of graphics cards, by their number.
const VENDORS: &[(&str, &str)] = &[
    ("0x10de", "NVIDIA"),
    ("0x1002", "AMD"),
    ("0x8086", "Intel"),
    ("0x1af4", "virtio"),
    ("0x15ad", "VMware"),
    ("0x1234", "QEMU"),
];

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::environment::Environment;

    fn machine(base: &Path) -> Machine {
        let host = Host::new(&Environment::default(), &[]);
        Machine { base: base.to_owned(), shared: base.to_owned(), display: None, host }
    }

    fn put(base: &Path, path: &str, text: &str) {
        let path = base.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn facts_are_those_of_the_kernel() {
        let folder = TempDir::new().unwrap();
        let base = folder.path();
        put(base, "etc/os-release", "NAME=x\nPRETTY_NAME=\"Plain Linux 7\"\n");
        put(base, "proc/sys/kernel/hostname", "lab\n");
        put(base, "proc/sys/kernel/osrelease", "6.1.0\n");
        put(base, "proc/meminfo", "MemTotal:       8388608 kB\nMemAvailable:   1048576 kB\n");
        let processors = "processor\t: 0\nmodel name\t: Fast One\n\nprocessor\t: 1\nmodel name\t: Fast One\n";
        put(base, "proc/cpuinfo", processors);
        put(base, "sys/class/drm/card0/device/vendor", "0x8086\n");
        put(base, "sys/class/drm/card0/device/device", "0x4680\n");
        put(base, "sys/class/drm/card0-HDMI-A-1/status", "connected\n");
        let mut machine = machine(base);
        machine.display = Some(Display::X11);
        let mut facts = machine.facts("lab-1");
        let more = facts.shift_remove("custom_metadata").unwrap();
        facts.shift_remove("ip_address").unwrap();
        // Whether there is a browser depends on the machine that runs this.
        let features = facts["supported_features"].as_array_mut().unwrap();
        features.retain(|feature| feature != "browser");
        let expected = r#"{"device_id":"lab-1","platform":"linux","os_version":"Plain Linux 7","cpu_count":2,"memory_total_gb":8.0,"hostname":"lab","supported_features":["gui","cli","file_system","linux_apps"],"platform_type":"computer","schema_version":"1.0"}"#;
        assert_eq!(Value::Object(facts).to_string(), expected);
        assert_eq!((&more["kernel"], &more["cpu_model"]), (&json!("6.1.0"), &json!("Fast One")));
        assert_eq!((&more["memory_free_gb"], &more["display"]), (&json!(1.0), &json!("x11")));
        assert_eq!(more["gpu"], json!(["Intel 0x4680"]));
        assert!(more["disk"]["total_gb"].as_f64().unwrap() > 0.0);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_unknown() {
        let folder = TempDir::new().unwrap();
        let facts = machine(folder.path()).facts("x");
        assert_eq!((&facts["os_version"], &facts["hostname"]), (&json!("unknown"), &json!("unknown")));
        assert_eq!(facts["supported_features"], json!(["cli", "file_system", "linux_apps"]));
        assert_eq!(facts["custom_metadata"]["display"], Value::Null);
        assert!(facts["custom_metadata"].get("gpu").is_none());
    }
}
