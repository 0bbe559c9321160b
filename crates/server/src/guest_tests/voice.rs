use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use switchboard_core::{VoiceEvent, VoiceOp};

use super::probe::Probe;
use super::{Hosted, hosting, until};
use crate::guests::Guests;
use crate::voices::{Deliver, House, Speaker};

/// Says every packet back, and counts who is there.
#[derive(Clone, Debug, Default)]
struct Canyon(Arc<AtomicUsize>);

struct Echo {
    deliver: Deliver,
    open: Arc<AtomicUsize>,
}

impl House for Canyon {
    fn open(self: Arc<Self>, deliver: Deliver) -> Box<dyn Speaker> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::new(Echo { deliver, open: self.0.clone() })
    }
}

impl Speaker for Echo {
    fn ask(&self, op: VoiceOp) {
        let VoiceOp::Packet(packet) = op else { panic!("{op:?}") };
        let number = u32::from_be_bytes(packet[..].try_into().unwrap());
        (self.deliver)(VoiceEvent::Packet { response: 1, offset_ms: number.into(), packet });
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_connection_has_a_voice_of_its_own_from_the_first_word_to_its_end() {
    let canyon = Canyon::default();
    let guests = Guests { voices: Some(Arc::new(canyon.clone())), ..hosting(Probe::default()) };
    let server = Hosted::start(guests, &[]).await;
    let mut ann = server.socket(&[]).await.unwrap();
    let mut bob = server.socket(&[]).await.unwrap();
    ann.say("hello").await;
    assert_eq!(ann.hear().await, "what?");
    assert_eq!(canyon.0.load(Ordering::SeqCst), 0, "nobody has asked for a voice");
    ann.say("packets 1000").await;
    bob.say("packets 2").await;
    for number in 0..1000 {
        assert_eq!(ann.hear().await, format!("Packet(1, {number} ms, 4 bytes)"));
    }
    for number in 0..2 {
        assert_eq!(bob.hear().await, format!("Packet(1, {number} ms, 4 bytes)"));
    }
    assert_eq!(canyon.0.load(Ordering::SeqCst), 2);
    drop(ann);
    until(|| canyon.0.load(Ordering::SeqCst) == 1).await;
    bob.say("packets 1").await;
    assert_eq!(bob.hear().await, "Packet(1, 0 ms, 4 bytes)");
}
