//! One request, as its user sees it.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use switchboard_asp::message::End;
use tokio::sync::mpsc;

use super::error::RequestError;
use super::event::RequestEvent;
use super::shell::{Shell, Work};
use crate::driver::Teller;

/// A stream of events that ends with [`RequestEvent::End`] or an error.
///
/// What is not read holds back credit, so that the server stops sending this request's output, and only this
/// one's. Dropping the request interrupts it.
#[derive(Debug)]
pub struct Request {
    interrupter: Interrupter,
    events: mpsc::UnboundedReceiver<Delivery>,
    /// Credit consumed and not reported.
    consumed: u64,
    over: bool,
}

impl Request {
    pub(super) fn new(interrupter: Interrupter, events: mpsc::UnboundedReceiver<Delivery>) -> Self {
        Self { interrupter, events, consumed: 0, over: false }
    }

    /// The request's id on the wire; unique among those that are not over.
    pub fn id(&self) -> u16 {
        self.interrupter.id
    }

    /// Stops it: no more output comes, only the end.
    pub fn interrupt(&self) {
        self.interrupter.interrupt();
    }

    /// A handle that can stop it from elsewhere.
    pub fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// The next event; none after the last one.
    pub async fn next(&mut self) -> Option<Result<RequestEvent, RequestError>> {
        std::future::poll_fn(|context| self.poll_event(context)).await
    }

    /// Reads to the end and keeps the text.
    ///
    /// # Errors
    /// The request has no regular end.
    pub async fn collect_text(mut self) -> Result<Collected, RequestError> {
        let mut text = String::new();
        while let Some(event) = self.next().await {
            match event? {
                RequestEvent::Text(delta) => text.push_str(&delta),
                RequestEvent::Restarted => text.clear(),
                RequestEvent::End(end) => return Ok(Collected { text, end }),
                RequestEvent::Start { .. }
                | RequestEvent::Status(_)
                | RequestEvent::Reason(_)
                | RequestEvent::Tool(_)
                | RequestEvent::Call(_)
                | RequestEvent::Ask(_)
                | RequestEvent::Data { .. }
                | RequestEvent::Usage(_)
                | RequestEvent::Notice(_) => {}
            }
        }
        Err(RequestError::Closed)
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RequestEvent, RequestError>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(delivery) = self.events.poll_recv(context) else { return Poll::Pending };
        let Some(delivery) = delivery else {
            self.over = true;
            return Poll::Ready(Some(Err(RequestError::Closed)));
        };
        self.over = matches!(delivery.event, Ok(RequestEvent::End(_)) | Err(_));
        self.consumed = self.consumed.saturating_add(u64::from(delivery.credit));
        if self.consumed >= REPORT_AT && !self.over {
            let bytes = std::mem::take(&mut self.consumed);
            self.interrupter.tell(move |id, key, shell, work| shell.consumed(id, key, bytes, work));
        }
        Poll::Ready(Some(delivery.event))
    }
}

impl Stream for Request {
    type Item = Result<RequestEvent, RequestError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(context)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.over {
            self.interrupter.tell(|id, key, shell, work| shell.dropped(id, key, work));
        }
    }
}

/// Stops one request; does nothing once it is over.
#[derive(Debug, Clone)]
pub struct Interrupter {
    id: u16,
    key: u64,
    teller: Teller<Shell>,
}

impl Interrupter {
    pub(super) fn new(id: u16, key: u64, teller: Teller<Shell>) -> Self {
        Self { id, key, teller }
    }

    /// Stops it.
    pub fn interrupt(&self) {
        self.tell(|id, key, shell, work| shell.interrupt(id, key, work));
    }

    fn tell(&self, job: impl FnOnce(u16, u64, &mut Shell, &mut Work) + Send + 'static) {
        let (id, key) = (self.id, self.key);
        self.teller.tell(move |shell, work| job(id, key, shell, work));
    }
}

/// What a request gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Collected {
    /// Its text.
    pub text: String,
    /// Its end.
    pub end: End,
}

/// One event on its way to the user, with the credit it costs.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) event: Result<RequestEvent, RequestError>,
    pub(super) credit: u32,
}

/// A quarter of the smallest window, so that what is not reported never stops a request.
const REPORT_AT: u64 = 4 << 10;
