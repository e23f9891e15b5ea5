//! Draws what the containers of one pod are and ask for. Called by [`super::generate`], and by simulations, whose pods are then as
//! varied.

use fastrand::Rng;
use neuron_core::request::Role;

use super::plan::ContainerPlan;

/// How many devices and cores a type gives to one container, each smallest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Of `aws.amazon.com/neuron`.
    pub devices: Vec<u32>,
    /// Of `aws.amazon.com/neuroncore`.
    pub cores: Vec<u32>,
}

/// The containers of a pod: now and then one or two that run before the others or beside them, and one app container or several.
pub fn roles(random: &mut Rng) -> Vec<Role> {
    let mut roles = Vec::new();
    if random.u8(..4) == 0 {
        for _ in 0..random.usize(1..=2) {
            roles.push(if random.u8(..3) == 0 { Role::Sidecar } else { Role::Init });
        }
    }
    let apps = if random.u8(..3) == 0 { random.usize(2..=3) } else { 1 };
    roles.extend((0..apps).map(|_| Role::App));
    roles
}

/// What each of them asks for, most often the same: hand-downs need that.
pub fn containers(random: &mut Rng, roles: Vec<Role>, counts: &Counts) -> Vec<ContainerPlan> {
    let usual = request(random, counts);
    let container = |role| {
        let (devices, cores) = match random.u8(..10) {
            0 => (0, 0),
            1..5 => request(random, counts),
            _ => usual,
        };
        ContainerPlan { role, devices, cores }
    };
    roles.into_iter().map(container).collect()
}

/// What one container asks for: counts that the type has, now and then one that it does not.
fn request(random: &mut Rng, counts: &Counts) -> (u32, u32) {
    let under = random.u8(..12);
    let devices = if under < 6 || under == 11 { count(random, &counts.devices) } else { 0 };
    let cores = if under > 5 { count(random, &counts.cores) } else { 0 };
    (devices, cores)
}

fn count(random: &mut Rng, known: &[u32]) -> u32 {
    let (Some(last), Some(largest)) = (known.len().checked_sub(1), known.last()) else { return 1 };
    match random.u8(..12) {
        0 => random.u32(1..=largest.saturating_add(1)),
        // Small ones more often, so that several pods fit.
        1..8 => known[random.usize(..=last / 2)],
        _ => known[random.usize(..=last)],
    }
}
