//! Functions behind the relay, each beside the same function called directly over HTTP.
//!
//! ```text
//! yardstick   Direct ──────────────── signed POST ──▶ function
//! measured    Relayed ── WebSocket ──▶ server ── POST ──▶ function
//! beside it   Relayed ── WebSocket ──▶ server, which answers by itself
//! ```

mod callers;
mod function;
mod slow;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::figures::{Scale, connect_many, millis};
use super::report::{Figure, percentile};
use super::servers::{Load, Process};
use callers::{Caller, Direct, Relayed};

pub(super) use function::serve as serve_function;

/// What the relay costs per request and per record, and what many slow functions do to everybody else.
pub(super) async fn functions(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let whole = scale.rounds > 10;
    let mut figures = Vec::new();
    let kinds = [
        (Kind::Requests, Load::burst(1, 32), if whole { 16_000 } else { 800 }),
        (Kind::Records, Load::burst(1_000, 32), if whole { 480 } else { 16 }),
    ];
    for (kind, load, calls) in kinds {
        for callers in [1, 16] {
            let rounds = calls / callers;
            let function = Process::function().await?;
            let direct =
                measure(&function, connect_directly(&function, callers).await?, rounds, load).await?;
            let relay = Process::relay(&settings(&function.address)).await?;
            let relayed = measure(&relay, connect(&relay, AGENT, callers).await?, rounds, load).await?;
            figures.extend(relayed.figures(kind, callers, &direct));
            if kind == Kind::Requests {
                let inside = measure(&relay, connect(&relay, "echo", callers).await?, rounds, load).await?;
                figures.extend(relayed.figures_beyond(callers, &inside));
            }
        }
    }
    figures.extend(slow::functions(if whole { slow::WHOLE } else { slow::QUICK }).await?);
    Ok(figures)
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Answers of one record and an end.
    Requests,
    /// The records of long answers.
    Records,
}

impl Kind {
    const fn one(self) -> &'static str {
        match self {
            Self::Requests => "request",
            Self::Records => "record",
        }
    }

    fn name(self, callers: usize, figure: &str) -> String {
        let plural = if callers == 1 { "" } else { "s" };
        let what = match self {
            Self::Requests => "requests",
            Self::Records => "answers of 1000 records",
        };
        format!("Relay, {what}, {callers} caller{plural}: {figure}")
    }
}

/// What was seen of one process.
struct Sample {
    /// Requests or records per second.
    rate: f64,
    /// Its processor time for each of them, in microseconds.
    cost: f64,
    /// From asking to the end of the answer, in milliseconds.
    times: Vec<f64>,
}

impl Sample {
    fn figures(&self, kind: Kind, callers: usize, direct: &Self) -> Vec<Figure> {
        let one = kind.one();
        let name = |figure: &str| kind.name(callers, figure);
        let mut figures = vec![
            Figure::new(name(&format!("{one}s per second")), self.rate, "/s")
                .yardstick("called directly", direct.rate),
            Figure::new(name(&format!("CPU of the server per {one}")), self.cost, "µs")
                .yardstick("CPU of the function, called directly (µs)", direct.cost),
        ];
        for share in [50.0, 99.0] {
            let theirs = direct.time(share);
            let figure = format!("added until the end of the answer, p{share}");
            figures.push(
                Figure::new(name(&figure), self.time(share) - theirs, "ms")
                    .yardstick("called directly (ms)", theirs),
            );
        }
        figures
    }

    /// What a function costs beyond an agent in the server, whose turns pass through the same log.
    fn figures_beyond(&self, callers: usize, inside: &Self) -> Vec<Figure> {
        let name = |figure: &str| Kind::Requests.name(callers, figure);
        let mut figures = vec![
            Figure::new(name("CPU of the server beyond a direct turn"), self.cost - inside.cost, "µs")
                .yardstick("direct turn (µs)", inside.cost),
        ];
        for share in [50.0, 99.0] {
            let theirs = inside.time(share);
            figures.push(
                Figure::new(
                    name(&format!("added to a direct turn, p{share}")),
                    self.time(share) - theirs,
                    "ms",
                )
                .yardstick("direct turn (ms)", theirs),
            );
        }
        figures
    }

    fn time(&self, share: f64) -> f64 {
        percentile(&mut self.times.clone(), share)
    }
}

/// Lets each caller call so often, one call after the other; the processor time is that of `process`.
async fn measure<C: Caller>(
    process: &Process,
    mut callers: Vec<C>,
    rounds: usize,
    load: Load,
) -> anyhow::Result<Sample> {
    for caller in &mut callers {
        for _ in 0..WARM {
            caller.call(load).await?;
        }
    }
    let calls = callers.len() * rounds;
    let (cpu, began) = (process.cpu(), Instant::now());
    let mut tasks = JoinSet::new();
    for mut caller in callers {
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(rounds);
            for _ in 0..rounds {
                let began = Instant::now();
                caller.call(load).await?;
                times.push(millis(began.elapsed()));
            }
            anyhow::Ok((caller, times))
        });
    }
    // Nobody leaves before everybody is done, so that no farewell is measured.
    let (mut callers, mut times) = (Vec::new(), Vec::new());
    while let Some(result) = tasks.join_next().await {
        let (caller, its) = result??;
        callers.push(caller);
        times.extend(its);
    }
    let (elapsed, cpu) = (began.elapsed(), process.cpu() - cpu);
    let count = calls as f64 * f64::from(load.count);
    Ok(Sample { rate: count / elapsed.as_secs_f64(), cost: cpu.as_secs_f64() * 1e6 / count, times })
}

async fn connect(relay: &Process, agent: &'static str, callers: usize) -> anyhow::Result<Vec<Relayed>> {
    let peers = connect_many(&relay.address, callers, false).await?;
    Ok(peers.into_iter().map(|peer| Relayed::new(peer, agent)).collect())
}

async fn connect_directly(function: &Process, callers: usize) -> anyhow::Result<Vec<Direct>> {
    let mut connected = Vec::new();
    for number in 0..callers {
        connected.push(Direct::connect(&function.address, number).await?);
    }
    Ok(connected)
}

/// The function as an agent, two agents without one, and no limit that is no part of what is measured.
fn settings(function: &str) -> Vec<String> {
    let mut settings = vec![
        format!("agents.{AGENT}.url=http://{function}"),
        format!("agents.{AGENT}.secret_env={SECRET_ENV}"),
    ];
    settings.extend(SETTINGS.iter().map(|pair| (*pair).to_owned()));
    settings
}

/// The agent that is the function.
const AGENT: &str = "function";
const SETTINGS: &[&str] = &[
    "agents.function.kind=function",
    "agents.function.allow_private=true",
    "agents.echo.delay_ms=0",
    "agents.stream.kind=echo",
    "agents.stream.delay_ms=0",
    "agents.stream.delta_bytes=32",
    "asp.limits.bytes_per_s=1000000000",
    "asp.limits.bytes_burst=1000000000",
];
/// Where the server finds the secret that it shares with the function.
pub(super) const SECRET_ENV: &str = "BENCH_FUNCTION_SECRET";
/// Known to everybody, but good for no longer than a measurement on this machine.
pub(super) const SECRET: &str = "whsec_c3dpdGNoYm9hcmQgbWVhc3VyZXMgaXRzIHJlbGF5IQ==";
/// For each slow function a client, an exchange, and the function's own questions; and the direct turns.
pub(super) const CONNECTIONS: usize = 2_000;
/// Calls before those that count.
const WARM: usize = 3;
