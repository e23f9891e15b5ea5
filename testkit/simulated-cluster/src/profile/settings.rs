//! Draws how everything is in a plan.

use simulator::random::Rng;

use super::Profile;
use crate::plan::{ApiRates, Settings};
use crate::suite::Suite;

/// One rate in so many is zero: a kind of fault that is always there hides what others do.
const ABSENT: u8 = 3;

/// `cluster` draws what the parts of Kubernetes itself meet.
pub(super) fn draw(profile: Profile, draws: &mut Rng, cluster: &mut Rng, suite: &dyn Suite) -> Settings {
    let calm = Settings::default();
    match profile {
        Profile::Calm => Settings { link_milliseconds: (0, 1), ..calm },
        Profile::Churn => {
            Settings { link_milliseconds: (0, 3), link_loss: 0.001, api: rates(draws, 0.0002), ..calm }
        }
        Profile::Chaos => {
            let shortest = draws.u32(0..=2);
            Settings {
                link_milliseconds: (shortest, shortest + draws.u32(0..=40)),
                link_loss: rate(draws, 0.02),
                socket_milliseconds: (0, [0, 0, draws.u32(1..=20), draws.u32(1..=500)][draws.usize(..4)]),
                api: rates(draws, 0.004),
                cluster_api: rates(cluster, 0.004),
                restart_milliseconds: (draws.u32(0..=1000), draws.u32(1000..=20_000)),
                seeded_order: true,
                status_seconds: draws.u32(1..=10),
                adversarial: draws.u8(..4) == 0,
                programs: suite.draw_settings(draws),
            }
        }
    }
}

/// Rates up to `most`.
pub(super) fn rates(draws: &mut Rng, most: f64) -> ApiRates {
    ApiRates {
        conflict: rate(draws, most),
        gone: rate(draws, most),
        too_many: rate(draws, most),
        internal: rate(draws, most),
        timeout: rate(draws, most),
        lost: rate(draws, most),
        refused: rate(draws, most),
        stale: rate(draws, most * 10.0),
        short_watch: rate(draws, most * 10.0),
    }
}

fn rate(draws: &mut Rng, most: f64) -> f64 {
    // Four digits are enough, and read better in a plan.
    if draws.u8(..ABSENT) == 0 { 0.0 } else { (draws.f64() * most.min(1.0) * 10_000.0).round() / 10_000.0 }
}
