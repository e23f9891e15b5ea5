//! A question about a pod takes less than 64 MiB, whatever the pod's author asks for (docs/adr/0013-bounded-search.md): what it takes is
//! counted, which needs an allocator, and a program, of its own.

#![allow(unsafe_code, reason = "an allocator has to be; it counts and passes on")]
#![allow(clippy::unwrap_used, reason = "a failing test should say where, in its helpers too")]

mod allocator;

use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{EqualNodes, Ranks, fits, place_counted};
use neuron_core::request::Role::{App, Init, Sidecar};
use neuron_core::request::{ContainerRequest, PodRequest, Role};
use neuron_core::topology::{Policy, Topology};

use self::allocator::peak_of;

/// What a question may take (`core/src/placement/budget.rs`).
const LIMIT: usize = 64 << 20;

/// Moves of one question (`MOVES`).
const MOVES: u32 = 200_000;

/// So many containers, each with its role, devices and cores.
type Containers = (usize, Role, u32, u32);

/// A machine, of which these cores are held.
fn node(instance_type: &str, lnc: u8, policy: Policy, held: &str) -> Occupancy {
    let model = Catalog::embedded().find(instance_type).unwrap();
    let mut node = Occupancy::empty(Arc::new(Topology::of(model, lnc, policy).unwrap()));
    node.hold(held.parse().unwrap());
    node
}

fn pod(groups: &[Containers]) -> PodRequest {
    let all = groups.iter().flat_map(|group| std::iter::repeat_n(group, group.0));
    let container = |(at, &(_, role, devices, cores)): (usize, &Containers)| ContainerRequest {
        name: format!("c{at}").into(),
        role,
        devices,
        cores,
    };
    PodRequest { containers: all.enumerate().map(container).collect() }
}

/// The most that any question about the pod on the node takes, and the moves that placing it took.
fn most(request: &PodRequest, node: &Occupancy) -> (usize, u32) {
    let (mut equal_nodes, mut ranks) = (EqualNodes::new(request), Ranks::new(request));
    let peaks = [
        peak_of(|| drop(fits(request, node))).1,
        peak_of(|| drop(equal_nodes.fits(node))).1,
        peak_of(|| drop(ranks.rank(node))).1,
    ];
    let ((_, cost), of_place) = peak_of(|| place_counted(request, node));
    (peaks.into_iter().fold(of_place, usize::max), cost.moves)
}

#[test]
fn no_question_takes_as_much_memory_as_it_may() {
    let documented = |lnc, held| node("trn2.48xlarge", lnc, Policy::Documented, held);
    let linked = |held| node("trn1.32xlarge", 1, Policy::Linked, held);
    // The last five are the worst of 10,000 made up at random.
    let cases: [(&[Containers], Occupancy); 9] = [
        // Hostile: nothing that is linked is left for the last one.
        (&[(1, Init, 0, 1), (1, App, 0, 1), (16, App, 0, 3), (1, App, 0, 2)], documented(2, "")),
        // The last two would fit an empty machine.
        (&[(1, Init, 0, 1), (1, App, 0, 1), (15, App, 0, 3), (2, App, 0, 2)], documented(2, "0,1")),
        (&[(2, Init, 0, 1), (1, App, 0, 1), (15, App, 0, 3), (2, App, 0, 2)], documented(2, "0,1")),
        (
            &[(1, Init, 0, 1), (1, App, 0, 1), (16, App, 0, 5), (1, App, 0, 4), (1, App, 0, 3)],
            documented(1, ""),
        ),
        (&[(1, Init, 8, 0), (9, Init, 1, 0), (6, Init, 4, 0), (1, App, 1, 2)], linked("")),
        (
            &[
                (60, Init, 0, 2),
                (1, Init, 1, 3),
                (30, Init, 0, 5),
                (1, Init, 1, 0),
                (15, Init, 0, 5),
                (20, App, 0, 6),
            ],
            documented(1, ""),
        ),
        (
            &[(1, Init, 8, 0), (1, Init, 1, 1), (1, Init, 4, 0), (4, Init, 1, 0), (5, App, 1, 0)],
            linked("6,7,10,13,14,19,23,26,31"),
        ),
        (
            &[
                (61, Init, 8, 0),
                (2, Init, 1, 0),
                (20, Init, 0, 2),
                (2, Sidecar, 4, 0),
                (3, App, 0, 2),
                (4, App, 0, 1),
            ],
            linked("6,8,19,20"),
        ),
        (
            &[
                (1, Sidecar, 0, 5),
                (4, Sidecar, 1, 4),
                (5, Init, 0, 1),
                (1, App, 0, 6),
                (4, App, 0, 5),
                (5, App, 0, 6),
            ],
            documented(1, "1,5,20,24,26,42,43,55,66,74,84,86,94,96,109,116,122"),
        ),
    ];
    let mut spent = 0;
    for (containers, node) in cases {
        let request = pod(containers);
        let (peak, moves) = most(&request, &node);
        println!("{:>5.2} MiB, {moves} moves: {containers:?}", peak as f64 / f64::from(1 << 20));
        assert!(peak < LIMIT, "{peak} bytes for {containers:?}");
        spent += usize::from(moves >= MOVES);
    }
    assert!(spent >= 6, "only {spent} pods are as hard to place as any");
}

/// Otherwise the test above could not fail.
#[test]
fn what_a_call_takes_is_counted_with_what_it_gives_back() {
    let (kept, peak) = peak_of(|| {
        drop(vec![0u8; 1_000_000]);
        vec![0u8; 1_000]
    });
    assert_eq!((kept.len(), peak), (1_000, 1_000_000));
    let (_, peak) = peak_of(|| {
        let mut grows = vec![0u8; 1_000];
        grows.reserve_exact(2_000);
        grows
    });
    assert_eq!(peak, 4_000, "the old block and the new one");
}
