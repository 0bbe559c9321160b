//! Who comes to a simulation besides the clients of ASP, and what is spoken there.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_acolyte::{Acolyte, AcolyteLimits};
use switchboard_aip::{Aip, AipLimits};
use switchboard_alicia::message::ModelInfo;
use switchboard_alicia::{Alicia, AliciaLimits, Facts};
use switchboard_core::{Principal, Seed};
use switchboard_vip::{Speech, Vip, VipLimits};

use super::Tongue;
use super::acolyte::Coder;
use super::aip::{Chief, Worker};
use super::alicia::Companion;
use super::guest::{Guest, Speaker};
use super::random::Random;
use super::tap::{Tap, Tapped};
use super::vip::App;
use crate::seal::NoSeal;

/// The guests of a world in which one protocol is spoken, or all of them.
pub(super) fn invite(tongue: Option<Tongue>, principals: &[Principal], random: &mut Random) -> Vec<Guest> {
    let tongues = match tongue {
        Some(Tongue::Asp) => return Vec::new(),
        Some(Tongue::Aip) => vec![Tongue::Aip; 2],
        Some(tongue) => vec![tongue; 4],
        None => vec![Tongue::Acolyte, Tongue::Alicia, Tongue::Vip, Tongue::Aip],
    };
    // One that shares with others, then one that keeps to itself, or the other way round.
    let turn = usize::from(tongue.is_none() && random.chance(50));
    let mut guests = Vec::new();
    for (place, tongue) in tongues.into_iter().enumerate() {
        let shares = (place + turn) % 2 == 0 || (place > 0 && random.chance(30));
        let Some(principal) = (if shares { principals.first() } else { principals.last() }) else { continue };
        let id = principal.id.clone();
        let speakers: Vec<Box<dyn Speaker>> = match tongue {
            Tongue::Asp => continue,
            Tongue::Acolyte => vec![Box::new(Coder::new(id, random))],
            Tongue::Alicia => vec![Box::new(Companion::new(id, random))],
            Tongue::Vip => vec![Box::new(App::new(id, random))],
            Tongue::Aip => {
                let device = format!("device-{place}");
                vec![Box::new(Worker::new(&device, random)), Box::new(Chief::new(id, &device, random))]
            }
        };
        guests.extend(speakers.into_iter().map(|speaker| Guest::new(principal.clone(), speaker)));
    }
    guests
}

/// What a new process of the server speaks.
pub(super) fn protocols(tap: &Tap) -> BTreeMap<Tongue, Tapped> {
    let acolyte = AcolyteLimits {
        queue: 3,
        attached: 3,
        chat_s: 20,
        heartbeat_s: 4,
        ping_s: 5,
        dead_s: 15,
        resume_s: 20,
        ..AcolyteLimits::default()
    };
    let acolyte = Acolyte::new(acolyte, switchboard_acolyte::Service::default());
    let aip = AipLimits { tasks_per_device: 4, task_s: 20, ping_s: 5, silence_s: 15, ..AipLimits::default() };
    let aip = Aip::new(aip, switchboard_aip::Service::default());
    let facts = |_: &_| Facts {
        model: ModelInfo { name: "model".into(), provider: "nobody".into() },
        servers: Vec::new(),
    };
    let service =
        switchboard_alicia::Service { elites: Vec::new().into(), facts: Arc::new(facts), hears: false };
    let alicia = Alicia::new(alicia_limits(), service);
    let service = switchboard_vip::Service {
        seal: Arc::new(NoSeal),
        issuer: None,
        public_url: None,
        allow_development: true,
        agent: None,
        prompts: BTreeMap::new(),
        providers: Vec::new(),
        ice_servers: Vec::new(),
        webrtc: false,
        speech: Speech::default(),
        introduction: String::new(),
        introduction_interruptible: true,
    };
    let vip = Vip::new(VipLimits { answer_s: 20, ..VipLimits::default() }, service);
    BTreeMap::from([
        (Tongue::Acolyte, tap.protocol(acolyte)),
        (Tongue::Aip, tap.protocol(aip)),
        (Tongue::Alicia, tap.protocol(alicia)),
        (Tongue::Vip, tap.protocol(vip)),
    ])
}

/// Small enough to be met now and then.
pub(super) fn alicia_limits() -> AliciaLimits {
    AliciaLimits {
        replay: 200,
        work_queue: 6,
        generation_s: 20,
        ping_s: 5,
        idle_s: 15,
        subscriptions: 3,
        ..AliciaLimits::default()
    }
}

/// A seed for a client.
pub(super) fn seed(random: &mut Random) -> Seed {
    let mut entropy = [0; 32];
    for chunk in entropy.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_be_bytes());
    }
    Seed::new(entropy)
}
