//! Logs and metrics: how they are set up, and the name of every metric.
//!
//! Content never gets into either. Labels have few values: protocols, agents, outcomes, limits.

use std::io;
use std::sync::OnceLock;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::Subscriber;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt};

use crate::config::{LogFormat, TelemetryConfig};

/// Sends logs to the standard error stream, from now on and for the whole process.
///
/// # Errors
/// Somebody else has done so already.
pub fn init(config: &TelemetryConfig) -> Result<(), SetGlobalDefaultError> {
    tracing::subscriber::set_global_default(subscriber(config, io::stderr))
}

/// What [`init`] installs, writing elsewhere.
pub fn subscriber<W>(config: &TelemetryConfig, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = filter(&config.log_level).unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let layer = match config.log_format {
        LogFormat::Human => fmt::layer().with_writer(writer).with_ansi(false).with_filter(filter).boxed(),
        LogFormat::Json => {
            fmt::layer().json().flatten_event(true).with_writer(writer).with_filter(filter).boxed()
        }
    };
    Registry::default().with(layer)
}

/// Reads a level, or directives such as `info,switchboard_server=debug`.
pub(crate) fn filter(text: &str) -> Option<Targets> {
    // It tells whole messages of servers of tools, which are content; whoever wants them has to ask for them.
    let mut targets = Targets::new().with_target("rmcp", LevelFilter::WARN);
    for directive in text.split(',').map(str::trim) {
        let level = |text: &str| LEVELS.contains(&text).then(|| text.parse::<LevelFilter>().ok()).flatten();
        targets = match directive.split_once('=') {
            Some((target, text)) if !target.trim().is_empty() => {
                targets.with_target(target.trim(), level(text.trim())?)
            }
            Some(_) => return None,
            None => targets.with_default(level(directive)?),
        };
    }
    Some(targets)
}

/// Collects metrics for the whole process, from the first call on. The handle renders them; its
/// `run_upkeep` should be called every few seconds.
///
/// # Errors
/// Somebody else collects metrics already.
pub fn metrics() -> Result<PrometheusHandle, BuildError> {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    if let Some(handle) = HANDLE.get() {
        return Ok(handle.clone());
    }
    let handle = match builder()?.install_recorder() {
        Ok(handle) => handle,
        // Two first calls at once: the other one has it, or is about to.
        Err(error) => return HANDLE.get().cloned().ok_or(error),
    };
    describe();
    Ok(HANDLE.get_or_init(|| handle).clone())
}

pub(crate) fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), BUCKETS)
}

macro_rules! metric_names {
    ($( $kind:ident $constant:ident = $name:literal, $description:literal; )+) => {
        /// Names of metrics, with what they count.
        pub mod names {
            $(
                #[doc = $description]
                pub const $constant: &str = $name;
            )+
        }

        /// Every metric: its name, and what it counts.
        pub const METRICS: &[(&str, &str)] = &[$(($name, $description)),+];

        /// Tells the recorder what each metric is.
        pub(crate) fn describe() {
            $( metric_names!(@$kind $name, $description); )+
        }
    };
    (@counter $name:literal, $description:literal) => { metrics::describe_counter!($name, $description) };
    (@gauge $name:literal, $description:literal) => { metrics::describe_gauge!($name, $description) };
    (@histogram $name:literal, $description:literal) => { metrics::describe_histogram!($name, $description) };
}

metric_names! {
    gauge CONNECTIONS = "switchboard_connections", "Open connections, by `protocol`.";
    counter CONNECTIONS_OPENED = "switchboard_connections_opened_total", "Connections opened, by `protocol`.";
    counter CONNECTIONS_REFUSED = "switchboard_connections_refused_total", "Connections refused, by `protocol` and `reason`.";
    counter CONNECTIONS_CLOSED = "switchboard_connections_closed_total", "Connections closed, by `protocol` and `code`.";
    counter FRAMES_RECEIVED = "switchboard_frames_received_total", "Transport messages received, by `protocol`.";
    counter FRAMES_SENT = "switchboard_frames_sent_total", "Transport messages sent, by `protocol`.";
    counter BYTES_RECEIVED = "switchboard_bytes_received_total", "Bytes of transport messages received, by `protocol`.";
    counter BYTES_SENT = "switchboard_bytes_sent_total", "Bytes of transport messages sent, by `protocol`.";
    counter FLUSHES = "switchboard_flushes_total", "Batches of transport messages written, by `protocol`.";
    counter VIOLATIONS = "switchboard_violations_total", "Connections whose peer broke the protocol, by `protocol`.";
    counter RATE_LIMITED = "switchboard_rate_limited_total", "Things refused or delayed because they came too fast, by `what`.";
    counter AUTH_FAILURES = "switchboard_auth_failures_total", "Credentials refused, by `reason`.";
    gauge SESSIONS_RESIDENT = "switchboard_sessions_resident", "Sessions in memory.";
    counter OPS = "switchboard_ops_total", "Requests to sessions that were carried out.";
    counter OPS_REJECTED = "switchboard_ops_rejected_total", "Requests to sessions that were refused, by `reason`.";
    counter EVENTS = "switchboard_events_total", "Events committed.";
    histogram APPEND_SECONDS = "switchboard_append_seconds", "How long it takes to make events durable.";
    counter APPEND_CONFLICTS = "switchboard_append_conflicts_total", "Appends that another writer had overtaken.";
    gauge STORE_COMMITS = "switchboard_store_commits", "Transactions of the log since it was opened.";
    gauge STORE_APPENDS = "switchboard_store_appends", "Appends of the log since it was opened.";
    gauge STORE_EVENTS = "switchboard_store_events", "Events of the log since it was opened.";
    gauge STORE_FAILURES = "switchboard_store_failures", "Appends that failed since the log was opened.";
    gauge TURNS_RUNNING = "switchboard_turns_running", "Turns that agents work on, by `agent`.";
    counter TURNS_STARTED = "switchboard_turns_started_total", "Turns started, by `agent`.";
    counter TURNS_ENDED = "switchboard_turns_ended_total", "Turns ended, by `agent` and `outcome`.";
    histogram TURN_QUEUE_SECONDS = "switchboard_turn_queue_seconds", "From acceptance to start of a turn, by `agent`.";
    histogram TURN_FIRST_SECONDS = "switchboard_turn_first_output_seconds", "From start to first output of a turn, by `agent`.";
    histogram TURN_SECONDS = "switchboard_turn_seconds", "From acceptance to end of a turn, by `agent`.";
    histogram TURN_CPU_SECONDS = "switchboard_turn_cpu_seconds", "Processor time that the executor of a turn reports, by `agent`.";
    gauge READY = "switchboard_ready", "1 while the server takes connections, 0 while it starts or leaves.";
    gauge DESCRIPTORS_OPEN = "switchboard_descriptors_open", "File descriptors that the process holds.";
    gauge DESCRIPTORS_LIMIT = "switchboard_descriptors_limit", "File descriptors that the process may hold.";
    gauge BUILD_INFO = "switchboard_build_info", "Always 1; the label `version` says what runs.";
}

const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
/// Upper ends of the buckets of every duration, in seconds.
const BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use switchboard_core::Pii;

    use super::*;
    use crate::captured::Captured;

    fn logged(format: LogFormat, level: &str) -> String {
        let config =
            TelemetryConfig { log_format: format, log_level: level.into(), ..TelemetryConfig::default() };
        let (captured, _guard) = Captured::start(&config);
        let _span = tracing::info_span!("connection", protocol = "asp").entered();
        tracing::info!(secret = ?Pii("s3cr3t"), count = 3, "something happened");
        tracing::debug!("more detail");
        captured.text()
    }

    #[test]
    fn logs_are_for_people_or_for_machines() {
        let human = logged(LogFormat::Human, "info");
        assert!(human.contains("something happened") && human.contains("count=3"), "{human}");
        assert!(human.contains("connection{protocol=\"asp\"}"), "{human}");
        let json: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, "info")).unwrap();
        assert_eq!((&json["message"], &json["count"]), (&"something happened".into(), &3.into()));
        assert_eq!(json["span"]["protocol"], "asp");
        for format in [LogFormat::Human, LogFormat::Json] {
            assert!(!logged(format, "trace").contains("s3cr3t"));
        }
    }

    #[test]
    fn levels_filter() {
        assert!(!logged(LogFormat::Human, "info").contains("more detail"));
        assert!(logged(LogFormat::Human, "debug").contains("more detail"));
        assert!(logged(LogFormat::Human, "warn,switchboard_server=debug").contains("more detail"));
        assert_eq!(logged(LogFormat::Human, "off"), "");
        for wrong in ["", "loud", "info,", "=info", "axum=", "axum=loud"] {
            assert!(filter(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn every_metric_has_its_own_name_and_a_description() {
        let names: BTreeSet<_> = METRICS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), METRICS.len());
        for (name, description) in METRICS {
            assert!(name.starts_with("switchboard_") && description.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn metrics_are_rendered_with_buckets() {
        let recorder = builder().unwrap().build_recorder();
        let handle = recorder.handle();
        ::metrics::with_local_recorder(&recorder, || {
            describe();
            ::metrics::counter!(names::CONNECTIONS_OPENED, "protocol" => "asp").increment(2);
            ::metrics::histogram!(names::APPEND_SECONDS).record(0.002);
        });
        let text = handle.render();
        assert!(text.contains("switchboard_connections_opened_total{protocol=\"asp\"} 2"), "{text}");
        assert!(text.contains("switchboard_append_seconds_bucket{le=\"0.0025\"} 1"), "{text}");
        assert!(text.contains("# HELP switchboard_append_seconds How long"), "{text}");
    }

    #[test]
    fn metrics_are_collected_once() {
        let first = metrics().unwrap();
        ::metrics::counter!(names::OPS).increment(1);
        assert!(metrics().unwrap().render().contains(names::OPS));
        assert!(first.render().contains(names::OPS));
    }
}
