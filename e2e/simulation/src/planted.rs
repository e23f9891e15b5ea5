//! The bugs that are planted in the programs, each with the invariant that must find it. Only in a build with `--cfg planted`.

use serde::Serialize;

/// A bug in the extender, the device plugin or the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Planted {
    /// Its name, by which the source asks for it.
    pub name: &'static str,
    /// What goes wrong.
    pub what: &'static str,
    /// The invariant whose violation finds it.
    pub invariant: &'static str,
    /// The kept plan that must show it, where the moment for it is so short that seeds seldom meet it.
    pub plan: Option<&'static str>,
}

const fn planted(name: &'static str, invariant: &'static str, what: &'static str) -> Planted {
    Planted { name, what, invariant, plan: None }
}

impl Planted {
    const fn shown_by(self, plan: &'static str) -> Planted {
        Planted { plan: Some(plan), ..self }
    }
}

/// All of them.
#[rustfmt::skip]
pub const PLANTED: &[Planted] = &[
    planted("unclear-binding-releases", "placement", "the devices of a Binding whose outcome is not known are given to the next pod"),
    planted("reservations-ignored", "placement", "what other binds have chosen counts only once the watch shows it"),
    planted("reservation-of-another-node", "placement", "a pod that is tried on another node is bound there with the record for the first"),
    planted("relist-forgets-pod", "placement", "the last pod of a list seems to hold nothing"),
    planted("deletion-not-seen", "liveness", "a pod that has ended holds its devices until the next list"),
    planted("terminating-is-free", "placement", "the devices of a pod count as free while its containers have their grace"),
    planted("init-containers-left-out", "placement", "what only an init container was given counts as free"),
    planted("lease-margin-not-looked-at", "placement", "an extender that has been deposed sends the Binding that it was about to send")
        .shown_by("leader-frozen-before-its-binding.json"),
    planted("conflict-is-success", "liveness", "kube-scheduler is told that a pod is bound that met a conflict"),
    planted("policy-not-followed", "placement", "linked devices are given that are no documented set"),
    planted("explains-without-end", "quiet", "an event is sent again and again"),
    planted("garbled-report-panics", "panic", "a report that is too short to be one panics"),
    planted("watch-error-ends-extender", "runs", "one broken watch ends the extender"),
    planted("watches-without-end", "quiet", "a watch is ended and begun again every second"),
    planted("watch-not-taken-up-again", "bounded", "nothing is seen any more after a watch's first error"),
    planted("answer-repeated", "exclusive", "of two pods that ask for as much at one time the second gets what the first has"),
    planted("visible-cores-cut", "contents", "the variable ends after sixteen cores, the device nodes do not"),
    planted("unhealthy-for-ever", "agreement", "a device that was unhealthy once stays so"),
    planted("lost-stream-waited-for", "agreement", "kubelet is waited for to open its stream again, which it never does"),
    planted("record-of-an-older-report", "agreement", "a record is repaired by what kubelet said of an earlier pod of the name"),
    planted("record-of-another-container", "agreement", "the record gives every container of a pod what the first one has"),
    planted("correction-repeated", "quiet", "what is right already is written again, and looked at again"),
    planted("wait-spins", "stuck", "whether the holder of what kubelet offers has ended is asked without a pause"),
    planted("release-not-applied", "bounded", "the devices of a failed bind stay taken until the node changes"),
    planted("binding-without-uid", "placement", "a pod is bound that was made anew under its name, with the record of the one before"),
    planted("other-name-not-looked-at", "exclusive", "a device is given although somebody has its cores under the other name"),
    planted("unread-prefers-nothing", "admission", "no set is preferred while the API server cannot be read"),
    planted("socket-name-again", "agreement", "a plugin's socket has the name of the one before it"),
    planted("given-at-the-deadline", "exclusive", "a device is given that a process of a gone pod has still open when the wait is over"),
    planted("past-of-the-checkpoint-only", "exclusive", "who had a device is forgotten as soon as kubelet forgets it, though processes may have it open"),
    planted("hanging-is-healthy", "agreement", "a device whose health could not be read in time counts as healthy"),
    planted("free-told-wrong", "texts", "a pod that waits is told that more is free than is"),
    planted("never-said-too-soon", "texts", "a node that is full now is said to be too small for ever"),
];
