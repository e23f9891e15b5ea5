//! T16 of the conformance list: what init containers and sidecars hand down or keep is counted beside the app containers as kubelet
//! does, by the 32 rows of NodeResourceTopologyMatch' test table. Where that asks for a NUMA node this asks for a linked set.

use std::collections::BTreeSet;

use neuron_core::ids::DeviceSet;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Refusal, fits, place};
use rstest::rstest;

use self::AppShape::{FitTogether, Fits, Large, LargeEach, MoreThanLinked, TooMany};
use self::InitShape::{Init, InitLarge, Inits, InitsLarge, InitsMoreThanLinked, InitsTooMany, NoInit};
use self::Nrt::{Pending, Running};
use self::Verdict::{Full, NotLinked, NotSafe, Placed, TooSmall};
use super::support::{Role, TestNode, pod, refused};
use crate::naive::{self, Sets};

/// A node on which no linked set of more than four devices is free, though more devices are.
#[derive(Clone, Copy, Debug)]
struct Kind {
    instance_type: &'static str,
    /// One core of each device that is held.
    held: &'static str,
    /// What the containers of each shape ask for.
    inits: fn(InitShape) -> &'static [u32],
    apps: fn(AppShape) -> &'static [u32],
}

/// The largest linked set that is free on either: what NRT calls the resources of a NUMA node.
const LINKED: u32 = 4;

/// A torus: the rows 0 to 3 and 8 to 11 are free, and six devices of the others.
const TORUS: Kind = Kind {
    instance_type: "trn1.32xlarge",
    held: "8,24",
    // It gives 1, 4, 8 or 16.
    inits: |shape| match shape {
        NoInit => &[],
        Init => &[4],
        InitLarge => &[8],
        Inits => &[1, 1],
        InitsMoreThanLinked => &[4, 4],
        InitsTooMany => &[4; 5],
        InitsLarge => &[8, 8],
    },
    apps: |shape| match shape {
        Fits => &[1],
        Large => &[8],
        FitTogether => &[1, 1],
        MoreThanLinked => &[4, 4],
        TooMany => &[4; 5],
        LargeEach => &[8, 8],
    },
};

/// A ring: 0 to 3, 5 to 7 and 9 to 11 are free.
const RING: Kind = Kind {
    instance_type: "inf2.48xlarge",
    held: "8,16",
    inits: |shape| match shape {
        NoInit => &[],
        Init => &[3],
        InitLarge => &[5],
        Inits => &[1, 1],
        InitsMoreThanLinked => &[3, 3],
        InitsTooMany => &[3; 5],
        InitsLarge => &[5, 5],
    },
    apps: |shape| match shape {
        Fits => &[2],
        Large => &[5],
        FitTogether => &[1, 2],
        MoreThanLinked => &[3, 3],
        TooMany => &[3; 5],
        LargeEach => &[5, 5],
    },
};

/// The init containers of a row. R is what one asks for, SUM what all do, NUMA the largest linked set that is free, Node all devices.
#[derive(Clone, Copy, Debug)]
enum InitShape {
    NoInit,
    /// One, R up to NUMA.
    Init,
    /// One, NUMA < R < Node.
    InitLarge,
    /// Several, R up to NUMA.
    Inits,
    /// Several, R up to NUMA, NUMA < SUM < Node.
    InitsMoreThanLinked,
    /// Several, R up to NUMA, SUM > Node.
    InitsTooMany,
    /// Several, NUMA < R < Node.
    InitsLarge,
}

/// The app containers of a row.
#[derive(Clone, Copy, Debug)]
enum AppShape {
    /// One, R up to NUMA.
    Fits,
    /// One, NUMA < R < Node.
    Large,
    /// Several, SUM < NUMA.
    FitTogether,
    /// Several, R up to NUMA, NUMA < SUM < Node.
    MoreThanLinked,
    /// Several, R up to NUMA, SUM > Node.
    TooMany,
    /// Several, NUMA < R < Node.
    LargeEach,
}

/// What NRT's table says of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nrt {
    Running,
    Pending,
}

/// What is said of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Placed,
    /// Even an empty node has too little.
    TooSmall,
    /// Too little is free now.
    Full,
    /// Enough is free, and no set of it is linked.
    NotLinked,
    /// kubelet could hand down an unlinked set.
    NotSafe,
}

impl Kind {
    fn empty(self) -> TestNode {
        TestNode::new(self.instance_type, 1, false)
    }

    fn node(self) -> TestNode {
        let mut node = self.empty();
        node.occupancy.hold(self.held.parse().unwrap());
        node
    }
}

/// What production says.
fn said(request: &[(Role, u32)], node: &Occupancy) -> Verdict {
    let request = pod(&request.iter().map(|&(role, devices)| (role, devices, 0)).collect::<Vec<_>>());
    if fits(&request, node).is_ok() {
        assert!(place(&request, node).is_ok());
        return Placed;
    }
    match refused(&request, node) {
        Refusal::NotEnough { permanent: true, .. } => TooSmall,
        Refusal::NotEnough { .. } => Full,
        Refusal::NotLinked { .. } => NotLinked,
        Refusal::HandDownNotSafe { .. } => NotSafe,
        #[expect(clippy::panic, reason = "no other refusal is in the table")]
        other => panic!("{other}"),
    }
}

/// What is assumed of kubelet, which chooses freely among what is handed down.
#[derive(Clone, Copy, Debug)]
enum Kubelet {
    /// It may choose anything.
    Any,
    /// It chooses what is linked.
    Good,
}

/// What follows from the documented candidate sets and kubelet's rule, played step by step.
fn judged(request: &[(Role, u32)], kind: Kind) -> Verdict {
    let (empty, node) = (kind.empty(), kind.node());
    let starts = |node: &TestNode, kubelet| {
        let free = bits(node.occupancy.free_devices().iter());
        starts(&node.sets, request, free, &BTreeSet::from([0]), kubelet)
    };
    let (taken, free) = (taken(request), node.occupancy.free_devices().len());
    let all = u32::from(empty.occupancy.topology().devices());
    if taken > all {
        TooSmall
    } else if starts(&node, Kubelet::Any) {
        Placed
    } else if !starts(&empty, Kubelet::Any) {
        assert!(starts(&empty, Kubelet::Good), "the table has no pod whose containers never fit together");
        NotSafe
    } else if taken > free {
        Full
    } else if starts(&node, Kubelet::Good) {
        NotSafe
    } else {
        NotLinked
    }
}

/// Devices that the pod takes in all: what is handed down is taken once.
fn taken(request: &[(Role, u32)]) -> u32 {
    let (mut taken, mut handed_down) = (0, 0);
    for &(role, count) in request {
        taken += count.saturating_sub(handed_down);
        handed_down = match role {
            Role::Init => handed_down.max(count),
            Role::Sidecar | Role::App => handed_down.saturating_sub(count),
        };
    }
    taken
}

fn bits(devices: impl IntoIterator<Item = u8>) -> u16 {
    devices.into_iter().fold(0, |all, device| all | 1 << device)
}

/// Whether kubelet can start these containers one after the other, each with a candidate set, when it may be left with any of
/// `handed_down`, which are equally many. What it takes afresh does not depend on which it is.
fn starts(
    sets: &Sets,
    request: &[(Role, u32)],
    free: u16,
    handed_down: &BTreeSet<u16>,
    kubelet: Kubelet,
) -> bool {
    let Some((&(role, count), later)) = request.split_first() else { return true };
    let candidates: BTreeSet<u16> = sets.devices(count).iter().map(|set| bits(set.iter().copied())).collect();
    let first = handed_down.first().copied().unwrap_or_default();
    let is_chosen = count <= first.count_ones();
    let fresh: Vec<u16> = match is_chosen {
        true => vec![0],
        false => candidates.iter().filter(|set| *set & first == first).map(|set| set & !first).collect(),
    };
    let given = |handed: u16, fresh: u16| match is_chosen {
        true => subsets(handed, count),
        false => vec![handed | fresh],
    };
    let left = |(handed, given): (u16, u16)| match role {
        Role::Init => handed | given,
        Role::Sidecar | Role::App => handed & !given,
    };
    fresh.into_iter().filter(|fresh| fresh & !free == 0).any(|fresh| {
        let outcomes: Vec<(u16, u16)> = handed_down
            .iter()
            .flat_map(|&handed| given(handed, fresh).into_iter().map(move |given| (handed, given)))
            .collect();
        let go_on = |left: BTreeSet<u16>| starts(sets, later, free & !fresh, &left, kubelet);
        let is_allowed = |(_, given): &(u16, u16)| candidates.contains(given);
        match kubelet {
            Kubelet::Any => {
                outcomes.iter().all(is_allowed) && go_on(outcomes.into_iter().map(left).collect())
            }
            Kubelet::Good => {
                outcomes.into_iter().filter(is_allowed).any(|outcome| go_on(BTreeSet::from([left(outcome)])))
            }
        }
    })
}

/// Every way to choose so many of these devices.
fn subsets(of: u16, count: u32) -> Vec<u16> {
    (0..=of).filter(|some| some & !of == 0 && some.count_ones() == count).collect()
}

/// A row: its init containers, its apps, and what NRT says. Then what is said here on the torus and on the ring, of init containers and
/// of sidecars in their place, and where that differs from NRT, in a word.
#[rstest]
#[case::row_1(NoInit, Fits, Running, [Placed, Placed], [Placed, Placed], "")]
#[case::row_2(NoInit, Large, Pending, [NotLinked, NotLinked], [NotLinked, NotLinked], "")]
#[case::row_3(NoInit, FitTogether, Running, [Placed, Placed], [Placed, Placed], "")]
#[case::row_4(NoInit, MoreThanLinked, Running, [Placed, Placed], [Placed, Placed], "")]
#[case::row_5(NoInit, TooMany, Pending, [TooSmall, TooSmall], [TooSmall, TooSmall], "")]
#[case::row_6(NoInit, LargeEach, Pending, [Full, Full], [NotLinked, NotLinked], "")]
#[case::row_7_a(InitLarge, Fits, Pending, [NotLinked, NotLinked], [NotSafe, NotLinked], "")]
#[case::row_7_b(InitLarge, Large, Pending, [NotLinked, Full], [NotLinked, NotLinked], "")]
#[case::row_7_c(InitLarge, FitTogether, Pending, [NotLinked, NotLinked], [NotSafe, NotLinked], "")]
#[case::row_7_d(InitLarge, MoreThanLinked, Pending, [NotSafe, Full], [NotSafe, Full], "")]
#[case::row_7_e(InitLarge, TooMany, Pending, [TooSmall, TooSmall], [TooSmall, TooSmall], "")]
#[case::row_7_f(InitLarge, LargeEach, Pending, [Full, TooSmall], [NotLinked, TooSmall], "")]
#[case::row_8(Init, Fits, Running, [Placed, Placed], [NotSafe, Placed], "ring: two of three may have a gap")]
#[case::row_9(Init, Large, Pending, [NotLinked, NotLinked], [NotLinked, NotLinked], "")]
#[case::row_10(Init, FitTogether, Running, [Placed, Placed], [NotSafe, Placed], "ring: two of three may have a gap")]
#[case::row_11(Init, MoreThanLinked, Running, [Placed, NotLinked], [Placed, Placed], "")]
#[case::row_12(Init, TooMany, Pending, [TooSmall, TooSmall], [TooSmall, TooSmall], "")]
#[case::row_13(Init, LargeEach, Pending, [Full, TooSmall], [NotLinked, TooSmall], "")]
#[case::row_14(Inits, Fits, Running, [Placed, Placed], [Placed, Placed], "")]
#[case::row_15(Inits, Large, Pending, [NotLinked, NotLinked], [NotLinked, NotLinked], "")]
#[case::row_16(Inits, FitTogether, Running, [Placed, Placed], [Placed, Placed], "")]
#[case::row_17(Inits, MoreThanLinked, Running, [Placed, Placed], [Placed, Placed], "")]
#[case::row_18(Inits, TooMany, Pending, [TooSmall, TooSmall], [TooSmall, TooSmall], "")]
#[case::row_19(Inits, LargeEach, Pending, [Full, TooSmall], [NotLinked, Full], "")]
#[case::row_20(InitsMoreThanLinked, Fits, Running, [Placed, Placed], [NotSafe, Placed], "ring: two of three may have a gap")]
#[case::row_21(InitsMoreThanLinked, Large, Pending, [NotLinked, Full], [NotLinked, Full], "")]
#[case::row_22(InitsMoreThanLinked, FitTogether, Pending, [Placed, Placed], [NotSafe, Placed], "torus: one after the other the inits take one row")]
#[case::row_23(InitsMoreThanLinked, MoreThanLinked, Running, [Placed, Full], [Placed, Full], "")]
#[case::row_24(InitsMoreThanLinked, TooMany, Pending, [TooSmall, TooSmall], [TooSmall, TooSmall], "")]
#[case::row_25(InitsMoreThanLinked, LargeEach, Pending, [Full, TooSmall], [NotLinked, TooSmall], "")]
#[case::row_26(InitsTooMany, Fits, Running, [Placed, TooSmall], [NotSafe, TooSmall], "ring: two of three may have a gap")]
#[case::row_27(InitsTooMany, Large, Pending, [NotLinked, TooSmall], [NotLinked, TooSmall], "")]
#[case::row_28(InitsTooMany, FitTogether, Running, [Placed, TooSmall], [NotSafe, TooSmall], "ring: two of three may have a gap")]
#[case::row_29(InitsTooMany, MoreThanLinked, Running, [Placed, TooSmall], [Placed, TooSmall], "")]
#[case::row_30(InitsTooMany, TooMany, Pending, [TooSmall, TooSmall], [TooSmall, TooSmall], "")]
#[case::row_31(InitsTooMany, LargeEach, Pending, [Full, TooSmall], [NotLinked, TooSmall], "")]
#[case::row_32_a(InitsLarge, Fits, Pending, [NotLinked, TooSmall], [NotSafe, Full], "")]
#[case::row_32_b(InitsLarge, Large, Pending, [NotLinked, TooSmall], [NotLinked, TooSmall], "")]
#[case::row_32_c(InitsLarge, FitTogether, Pending, [NotLinked, TooSmall], [NotSafe, TooSmall], "")]
#[case::row_32_d(InitsLarge, MoreThanLinked, Pending, [NotSafe, TooSmall], [NotSafe, TooSmall], "")]
#[case::row_32_e(InitsLarge, TooMany, Pending, [TooSmall, TooSmall], [TooSmall, TooSmall], "")]
#[case::row_32_f(InitsLarge, LargeEach, Pending, [Full, TooSmall], [NotLinked, TooSmall], "")]
fn init_containers_and_sidecars_count_as_kubelet_counts(
    #[case] inits: InitShape,
    #[case] apps: AppShape,
    #[case] nrt: Nrt,
    #[case] torus: [Verdict; 2],
    #[case] ring: [Verdict; 2],
    #[case] differs: &str,
) {
    for (name, kind, expected) in [("torus", TORUS, torus), ("ring", RING, ring)] {
        let before = (kind.inits)(inits);
        for (role, expected) in [Role::Init, Role::Sidecar].into_iter().zip(expected) {
            let apps = (kind.apps)(apps).iter().map(|&count| (Role::App, count));
            let request: Vec<_> = before.iter().map(|&count| (role, count)).chain(apps).collect();
            assert_eq!(said(&request, &kind.node().occupancy), expected, "{name}: {request:?}");
            assert_eq!(judged(&request, kind), expected, "{name}: {request:?} by the documented rules");
        }
        // NRT has no sidecars.
        let as_nrt = if expected[0] == Placed { Running } else { Pending };
        let is_named = differs.split_once(": ").is_some_and(|(named, _)| named == name);
        assert_eq!(as_nrt != nrt, is_named, "{name}: {expected:?} where NRT says {nrt:?}");
    }
}

#[test]
fn shapes_are_what_they_are_called() {
    for kind in [TORUS, RING] {
        let node = kind.node();
        assert_eq!(u32::from(node.occupancy.largest_free_set()), LINKED);
        assert!(node.occupancy.free_devices().len() > LINKED);
        let linked = |ids: &naive::Ids| {
            ids.iter().copied().collect::<DeviceSet>().is_subset(node.occupancy.free_devices())
        };
        let largest =
            node.sets.devices.iter().filter(|(_, sets)| sets.iter().any(linked)).map(|(count, _)| *count);
        assert_eq!(largest.max(), Some(LINKED));

        let all = u32::from(node.occupancy.topology().devices());
        let is_small = |counts: &[u32]| counts.iter().all(|count| *count <= LINKED);
        let is_large = |counts: &[u32]| counts.iter().all(|count| *count > LINKED && *count < all);
        let sum = |counts: &[u32]| counts.iter().sum::<u32>();
        let (inits, apps) = (kind.inits, kind.apps);
        for (counts, of) in
            [(inits(NoInit), 0), (inits(Init), 1), (inits(InitLarge), 1), (apps(Fits), 1), (apps(Large), 1)]
        {
            assert_eq!(counts.len(), of);
        }
        for counts in [inits(Init), inits(Inits), apps(Fits), apps(FitTogether)] {
            assert!(is_small(counts), "{counts:?}");
        }
        for counts in [inits(InitLarge), inits(InitsLarge), apps(Large), apps(LargeEach)] {
            assert!(is_large(counts), "{counts:?}");
        }
        for counts in [inits(InitsMoreThanLinked), apps(MoreThanLinked)] {
            assert!(is_small(counts) && sum(counts) > LINKED && sum(counts) < all, "{counts:?}");
        }
        for counts in [inits(InitsTooMany), apps(TooMany)] {
            assert!(is_small(counts) && sum(counts) > all, "{counts:?}");
        }
        assert!(sum(apps(FitTogether)) < LINKED);
        for counts in [inits(Inits), inits(InitsLarge), apps(FitTogether), apps(LargeEach)] {
            assert!(counts.len() > 1, "{counts:?}");
        }
    }
}
