//! `switchboard sessions tail`: the events of a session, as they come.

use std::time::Duration;

use switchboard_client::admin::AdminError;
use switchboard_core::Committed;

use super::story::{self, Passage};
use super::to_json;
use crate::clock;
use crate::console::{Console, Palette};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::remote::RemoteArgs;

/// Arguments of `sessions tail`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The id of the session, or what you call it
    #[arg(value_name = "SESSION")]
    session: String,
    /// Begin after this position, such as 7-42 or 42; 0 is the beginning. The last 20 events unless
    /// given
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
    /// Stop at the newest event
    #[arg(long)]
    no_follow: bool,
    /// One JSON object per event and line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `sessions tail`.
pub(super) async fn run(args: &Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let admin = remote.admin()?;
    let row = remote.session(&admin, &args.session).await?;
    let mut after = match &args.after {
        Some(position) => position.clone(),
        None => row.head.saturating_sub(RECENT).to_string(),
    };
    let mut flow = Flow::default();
    let mut lost = false;
    // One for the whole loop: a Ctrl-C that comes while a page is printed counts, too.
    let mut stopped = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let page = tokio::select! {
            page = admin.events(&row.session, Some(&after), Some(PAGE)) => page,
            _ = &mut stopped => return Err(Failure::silent(Exit::Interrupted)),
        };
        match page {
            Ok(page) => {
                if std::mem::take(&mut lost) {
                    console.note("the server is back");
                }
                for event in &page.events {
                    if args.json {
                        console.line(&to_json(event)?)?;
                    } else {
                        console.print(&flow.event(event, console.palette()))?;
                    }
                }
                if let Some(last) = page.events.last() {
                    after = last.position.to_string();
                }
                if page.next.is_some() {
                    continue;
                }
                if args.no_follow {
                    return console.print(&flow.finish());
                }
            }
            Err(AdminError::Unreachable(_)) if !args.no_follow => {
                if !std::mem::replace(&mut lost, true) {
                    console.print(&flow.finish())?;
                    console.note("the server cannot be reached; trying again");
                }
            }
            Err(error) => return Err(remote.refused(&error)),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = &mut stopped => {
                console.print(&flow.finish())?;
                return Err(Failure::silent(Exit::Interrupted));
            }
        }
    }
}

/// Where on the screen the last event has left off.
#[derive(Debug, Default)]
struct Flow {
    inside: Option<Kind>,
}

/// What flows on from event to event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

impl Flow {
    /// What one more event adds to the screen.
    fn event(&mut self, committed: &Committed, palette: Palette) -> String {
        let Palette { dim, reset, .. } = palette;
        match story::event(committed) {
            Passage::Text(text) => self.enter(Kind::Text) + &text,
            Passage::Reasoning(text) => self.enter(Kind::Reasoning) + &format!("{dim}{text}{reset}"),
            Passage::Line(line) => {
                let seq = committed.position.seq;
                let time = clock::utc(committed.at);
                let time = time.split(' ').nth(1).unwrap_or_default();
                self.finish() + &format!("{dim}{seq:>6}  {time}  {line}{reset}\n")
            }
        }
    }

    fn enter(&mut self, kind: Kind) -> String {
        match self.inside.replace(kind) {
            Some(inside) if inside != kind => "\n".to_owned(),
            Some(_) | None => String::new(),
        }
    }

    /// Ends the line that flows.
    fn finish(&mut self) -> String {
        if self.inside.take().is_some() { "\n".to_owned() } else { String::new() }
    }
}

/// How many events are shown that were there before.
const RECENT: u64 = 20;
const PAGE: usize = 500;
const PAUSE: Duration = Duration::from_millis(250);
