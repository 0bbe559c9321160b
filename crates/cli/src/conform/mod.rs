//! `switchboard conform`: runs the numbered statements of a protocol against any server.
//!
//! The server is a black box: checks send what a stranger would send, over real sockets, and look at what
//! comes back. Each protocol has a folder with its checks, grouped by subject, and a list of the
//! statements that cannot be seen from outside.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::console::Console;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::probe::{Request, Target, TargetArgs};
use crate::progress::Bar;

mod acolyte;
mod aip;
mod alicia;
mod asp;
mod check;
mod inbox;
mod junit;
mod report;
mod statement;
mod vip;
mod words;

use check::{Check, Issuer, Need, Outside, Run, Settings, Stop};
use report::{Report, Verdict};
use statement::Protocol;

/// Arguments of `conform`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The protocol
    protocol: Protocol,
    /// Where the server is: ws, wss, http or https
    #[arg(required_unless_present = "list")]
    url: Option<String>,
    /// Check only these statements, such as ASP-036 or 36
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write there instead of to the output; a summary is still printed
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the statements and how each is looked at, without a server
    #[arg(long)]
    list: bool,
    /// Run also the checks that wait for half a minute and more
    #[arg(long)]
    patient: bool,
    /// How many checks run side by side
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// What to say where any short answer will do
    #[arg(long, value_name = "TEXT", default_value = "echo hello")]
    say: String,
    /// What to say to be answered in many pieces, over several seconds
    #[arg(long, value_name = "TEXT", default_value = "count 200 every 25")]
    say_long: String,
    /// VIP: an issuer that the server knows, with a secret (HS256), to sign App Tokens as
    #[arg(long, value_name = "NAME", requires = "app_secret_env")]
    app_issuer: Option<String>,
    /// VIP: the environment variable that holds its secret
    #[arg(long, value_name = "VARIABLE", requires = "app_issuer")]
    app_secret_env: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
}

const AFTER_HELP: &str = "\
Most checks need an agent that does as it is told. A server of this project has one:
  switchboard serve --set agents.story.kind=script --set agents.story.builtin=conformance --set agent=story
Against an agent that is not like that, give --say and --say-long; statements that need the story then
name the words of the story that they need. Checks of AIP that have a device do something need --set aip.test_planner=true; those of VIP need
sessions in development, which a server with credentials has with --set vip.allow_development=true.

Results:
  pass     the server does what the statement says
  FAIL     it does something else; what was sent and what came back follows
  needs    the check needs something that this server, or this command line, does not have
  outside  nobody can see it from outside, or it is not about servers

Exit codes:
  0    nothing failed
  1    something failed
  2    it could not be tried";

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// For continuous integration
    Junit,
}

/// Runs `conform`.
pub(crate) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let wanted = wanted(args.protocol, &args.only)?;
    let mut report = Report::new(args.protocol, args.url.as_deref().unwrap_or_default(), &wanted);
    for outside in outside(args.protocol) {
        report.settle(outside.statements, &Verdict::Outside(outside.reason));
    }
    if args.list {
        return console.print(&report.list());
    }
    let target = args.target.target(args.url.as_deref().unwrap_or_default(), environment)?;
    let settings = settings(&args, &target, environment, &wanted).await?;
    if let Some(note) = left_out(args.protocol, &settings, &wanted) {
        console.note(&note);
    }
    try_all(&args, &target, &settings, &wanted, &mut report).await;
    let text = match args.format {
        Format::Table => report.table(if args.output.is_some() {
            crate::console::Palette::PLAIN
        } else {
            console.palette()
        }),
        Format::Json => report.json(),
        Format::Junit => junit::document(&report),
    };
    match &args.output {
        None => console.print(&text)?,
        Some(path) => {
            std::fs::write(path, text)
                .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", path.display())))?;
            console.line(&report.summary())?;
        }
    }
    if report.failed() { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
}

fn wanted(protocol: Protocol, only: &[String]) -> Result<BTreeSet<u16>, Failure> {
    let known: BTreeSet<u16> = protocol.statements().iter().map(|statement| statement.number).collect();
    if only.is_empty() {
        return Ok(known);
    }
    let number = |id: &String| {
        let digits = id.rsplit('-').next().and_then(|digits| digits.parse().ok());
        digits
            .filter(|number| known.contains(number))
            .ok_or_else(|| Failure::usage(format!("{protocol} has no statement {id}; --list shows them all")))
    };
    only.iter().map(number).collect()
}

/// Finds out what the server is like, or why nothing can be tried with it.
async fn settings(
    args: &Args,
    target: &Target,
    environment: &Environment,
    wanted: &BTreeSet<u16>,
) -> Result<Settings, Failure> {
    let log = target.transcript();
    let greeting = upgrade(args.protocol).without_key();
    let stranger = target.ask(&log, &greeting).await.map_err(|why| {
        Failure::usage(format!(
            "there is no server at {}: {why}\nstart one with `switchboard serve`",
            target.url
        ))
    })?;
    let guarded = matches!(stranger.status, 401 | 403);
    if guarded && target.key.is_none() && args.protocol != Protocol::Vip {
        return Err(Failure::usage(format!(
            "{} asks for a credential: give one with --key, or in SWITCHBOARD_TOKEN",
            target.url
        )));
    }
    let status = match guarded {
        true => target.ask(&log, &upgrade(args.protocol)).await.map_err(Failure::usage)?.status,
        false => stranger.status,
    };
    if !matches!(status, 101 | 200) {
        return Err(Failure::usage(format!(
            "{} is asked for {} and answers with {status}: is the address right, and the credential?",
            target.url, args.protocol
        )));
    }
    let mut settings = Settings {
        say: args.say.clone(),
        say_long: args.say_long.clone(),
        story: false,
        words: BTreeSet::new(),
        guarded,
        patient: args.patient,
        issuer: issuer(args, environment)?,
    };
    let probe = Run::new(target, &settings);
    // What is wrong with the server will be found by the checks.
    if needed(args.protocol, wanted).any(|need| need == Need::Story) {
        let playing = tokio::time::timeout(LONGEST_CHECK, plays_the_story(args.protocol, &probe)).await;
        settings.story = matches!(playing, Ok(Ok(true)));
    }
    let named: BTreeSet<&str> = needed(args.protocol, wanted).filter_map(Need::word).collect();
    let named = words::called(&named);
    let says: Vec<&str> = named.iter().map(|(_, word)| word.say).collect();
    let probe = Run::new(target, &settings);
    let heard = match args.protocol {
        Protocol::Asp => asp::hear(&probe, &says).await,
        Protocol::Acolyte => acolyte::hear(&probe, &says).await,
        Protocol::Alicia => alicia::hear(&probe, &says).await,
        Protocol::Aip | Protocol::Vip => Vec::new(),
    };
    let known = named.into_iter().zip(heard).filter(|((_, word), heard)| word.is_known(heard));
    settings.words = known.map(|((name, _), _)| name).collect();
    Ok(settings)
}

fn issuer(args: &Args, environment: &Environment) -> Result<Option<Issuer>, Failure> {
    let (Some(name), Some(variable)) = (&args.app_issuer, &args.app_secret_env) else { return Ok(None) };
    let secret = environment
        .find(variable)
        .ok_or_else(|| Failure::usage(format!("the environment variable {variable} is not set, or empty")))?;
    Ok(Some(Issuer { name: name.clone(), secret: secret.to_owned() }))
}

/// Runs what is wanted, and enters how it went.
async fn try_all(
    args: &Args,
    target: &Target,
    settings: &Settings,
    wanted: &BTreeSet<u16>,
    report: &mut Report,
) {
    let mut bar = Bar::new();
    let relevant = |check: &&Check| check.shows.iter().any(|number| wanted.contains(number));
    let (alone, beside): (Vec<&Check>, Vec<&Check>) = checks(args.protocol)
        .into_iter()
        .filter(relevant)
        .partition(|check| check.needs.contains(&Need::Alone));
    let total = alone.len() + beside.len();
    let trying = |check| async move { (check, try_one(check, target, settings).await) };
    let mut beside = stream::iter(beside).map(trying).buffer_unordered(usize::from(args.jobs));
    let mut alone = stream::iter(alone).then(trying).boxed_local();
    let mut done = 0_usize;
    loop {
        let next = match beside.next().await {
            Some(next) => Some(next),
            None => alone.next().await,
        };
        let Some((check, verdict)): Option<(&Check, Verdict)> = next else { break };
        report.settle(check.shows, &verdict);
        done += 1;
        bar.show(done as u64, total as u64, || format!("{done} of {total} checks"));
    }
}

async fn try_one(check: &Check, target: &Target, settings: &Settings) -> Verdict {
    if let Some(missing) = check.needs.iter().find_map(|need| missing(*need, target, settings)) {
        return Verdict::Needs(missing);
    }
    let run = Run::new(target, settings);
    let longest = if check.needs.contains(&Need::Patience) { LONGEST_WAIT } else { LONGEST_CHECK };
    match tokio::time::timeout(longest, (check.run)(&run)).await {
        Ok(Ok(())) => Verdict::Pass,
        Ok(Err(Stop::Needs(what))) => Verdict::Needs(what),
        Ok(Err(Stop::Fault(why))) => Verdict::Fail { why, transcript: run.log.lines() },
        Err(_) => {
            let why = format!("the check did not come to its end within {} s", longest.as_secs());
            Verdict::Fail { why, transcript: run.log.lines() }
        }
    }
}

fn missing(need: Need, target: &Target, settings: &Settings) -> Option<String> {
    if let Need::Says(word) = need {
        let known = settings.words.contains(word);
        return (!known).then(|| format!("an agent that knows the word `{word}` of the conformance story"));
    }
    let (holds, words) = match need {
        Need::Key => {
            (settings.guarded && target.key.is_some(), "a server that asks for a credential, and --key")
        }
        Need::Open => (!settings.guarded, "a server without credentials"),
        Need::OtherKey => (target.key.is_some() && target.other_key.is_some(), "--key and --other-key"),
        Need::Story => (settings.story, "a planner or an agent that does as it is told (see --help)"),
        Need::Issuer => (settings.issuer.is_some(), "--app-issuer and --app-secret-env"),
        Need::Patience => (settings.patient, "time: --patient"),
        Need::Alone | Need::Says(_) => (true, ""),
    };
    (!holds).then(|| words.to_owned())
}

/// What the wanted checks need.
fn needed(protocol: Protocol, wanted: &BTreeSet<u16>) -> impl Iterator<Item = Need> {
    let relevant = checks(protocol).into_iter();
    let relevant = relevant.filter(|check| check.shows.iter().any(|number| wanted.contains(number)));
    relevant.flat_map(|check| check.needs).copied()
}

/// Which checks cannot be run with this agent, for a person.
fn left_out(protocol: Protocol, settings: &Settings, wanted: &BTreeSet<u16>) -> Option<String> {
    if !settings.story && needed(protocol, wanted).any(|need| need == Need::Story) {
        return Some("nobody here does as the checks say: statements that need that are left out".to_owned());
    }
    let words: BTreeSet<&str> = needed(protocol, wanted).filter_map(Need::word).collect();
    let unknown: Vec<&str> = words.difference(&settings.words).copied().collect();
    (!unknown.is_empty()).then(|| {
        let unknown = unknown.join(", ");
        format!("the agent does not know these words of the conformance story, so that some checks are left out: {unknown}")
    })
}

fn checks(protocol: Protocol) -> Vec<&'static Check> {
    let groups: &[&'static [Check]] = match protocol {
        Protocol::Asp => asp::CHECKS,
        Protocol::Acolyte => acolyte::CHECKS,
        Protocol::Aip => aip::CHECKS,
        Protocol::Vip => vip::CHECKS,
        Protocol::Alicia => alicia::CHECKS,
    };
    groups.iter().flat_map(|group| group.iter()).collect()
}

fn outside(protocol: Protocol) -> &'static [Outside] {
    match protocol {
        Protocol::Asp => asp::OUTSIDE,
        Protocol::Acolyte => acolyte::OUTSIDE,
        Protocol::Aip => aip::OUTSIDE,
        Protocol::Vip => vip::OUTSIDE,
        Protocol::Alicia => alicia::OUTSIDE,
    }
}

/// The request with which a client of the protocol begins.
fn upgrade(protocol: Protocol) -> Request {
    match protocol {
        Protocol::Asp => asp::upgrade(),
        Protocol::Acolyte => acolyte::upgrade(),
        Protocol::Aip => aip::upgrade(),
        Protocol::Vip => vip::discovery(),
        Protocol::Alicia => alicia::upgrade(),
    }
}

/// Whether the planner, or the agent of a voice, does as it is told; an error if the protocol is not spoken.
async fn plays_the_story(protocol: Protocol, run: &Run<'_>) -> check::Outcome<bool> {
    match protocol {
        Protocol::Aip => aip::plays_the_story(run).await,
        Protocol::Vip => vip::plays_the_story(run).await,
        // Their agents are tried word by word.
        Protocol::Asp | Protocol::Acolyte | Protocol::Alicia => Ok(false),
    }
}

const LONGEST_CHECK: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(150);

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_statement_of_a_page_is_checked_or_has_a_reason_why_not() {
        for protocol in Protocol::value_variants() {
            let checked: BTreeSet<u16> =
                checks(*protocol).iter().flat_map(|check| check.shows).copied().collect();
            let mut outside_of: Vec<u16> =
                outside(*protocol).iter().flat_map(|outside| outside.statements).copied().collect();
            outside_of.sort_unstable();
            let told: BTreeSet<u16> = outside_of.iter().copied().collect();
            assert_eq!(told.len(), outside_of.len(), "{protocol}: two reasons for one statement");
            assert!(checked.is_disjoint(&told), "{protocol}: {:?}", checked.intersection(&told));
            let listed: BTreeSet<u16> =
                protocol.statements().iter().map(|statement| statement.number).collect();
            let known: BTreeSet<u16> = checked.union(&told).copied().collect();
            assert_eq!(known, listed, "{protocol}");
            assert!(checked.len() >= 25, "{protocol}: only {} are checked", checked.len());
        }
    }

    #[test]
    fn statements_are_chosen_by_id_or_number() {
        let of = |ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            wanted(Protocol::Asp, &ids).map(|numbers| numbers.into_iter().collect::<Vec<u16>>())
        };
        assert_eq!(of(&["ASP-036", "7"]).unwrap(), [7, 36]);
        assert!(of(&["ASP-999"]).is_err());
        assert_eq!(of(&[]).unwrap().len(), Protocol::Asp.statements().len());
    }
}
