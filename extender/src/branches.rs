//! The extender's recovery and rare branches, by the names under which it says that it takes one ([`runtime::reached`]). Read by
//! simulations, which tell by it what they have never brought about.

/// Every branch, sorted.
pub const BRANCHES: &[&str] = &[
    "extender: TLS files not usable",
    "extender: TLS files reloaded",
    "extender: TLS folder not watched",
    "extender: TLS handshake failed",
    "extender: TLS handshake too slow",
    "extender: a call panicked",
    "extender: a connection ended as another replica leads",
    "extender: bind before the first lists",
    "extender: bind broke off",
    "extender: bind panicked",
    "extender: bind right after the start",
    "extender: bind that filter has not admitted",
    "extender: bind while another leads",
    "extender: bind while stopping",
    "extender: bind while the leader takes over",
    "extender: binding found carried out",
    "extender: binding met a conflict",
    "extender: binding not answered in time",
    "extender: binding refused",
    "extender: binds cut off at the end",
    "extender: body too long",
    "extender: body too slow",
    "extender: call not received",
    "extender: call not understood",
    "extender: call without a certificate",
    "extender: conflict of a pod that is not bound",
    "extender: devices shared",
    "extender: event held back by the rate",
    "extender: event not answered",
    "extender: event put off",
    "extender: event refused",
    "extender: explanation no longer needed",
    "extender: explanation tried again",
    "extender: filter before the first lists",
    "extender: filter between two watches",
    "extender: filter met an unclear reservation",
    "extender: filter met an unknown holder",
    "extender: filter of a pod with a claim refused",
    "extender: filter of a pod with a reservation",
    "extender: filter of a request that cannot be read",
    "extender: filter of an unknown node",
    "extender: filter while a watch is disconnected",
    "extender: holder unknown",
    "extender: leader deposed",
    "extender: leader elected",
    "extender: leader's label not put",
    "extender: leader's label not removed",
    "extender: leader's label on a foreign pod",
    "extender: leader's label removed from another pod",
    "extender: lease changed while held",
    "extender: lease given back",
    "extender: lease gone",
    "extender: lease kept for an unclear binding",
    "extender: lease not given back",
    "extender: lease not read or written",
    "extender: lease not renewed, a watch is silent",
    "extender: lease of another leader is over",
    "extender: lease over before a binding",
    "extender: lease watch disconnected",
    "extender: leases listed again",
    "extender: no place for metrics",
    "extender: no room for a body",
    "extender: no room for an answer",
    "extender: no time left for a binding",
    "extender: node changed while a place was searched for",
    "extender: node gone unseen",
    "extender: node of a bind unknown",
    "extender: node watch disconnected",
    "extender: nodes listed again",
    "extender: nodes prioritized",
    "extender: note shortened",
    "extender: oldest admission forgotten",
    "extender: outcome of a binding left open",
    "extender: outcome of a binding unknown",
    "extender: pod bound elsewhere",
    "extender: pod bound here already",
    "extender: pod bound without a record",
    "extender: pod gone before its bind",
    "extender: pod gone during its bind",
    "extender: pod gone unseen",
    "extender: pod not read in time",
    "extender: pod not readable before its bind",
    "extender: pod of a reservation looked for",
    "extender: pod read before its bind",
    "extender: pod refused at its bind",
    "extender: pod replaced before its bind",
    "extender: pod replaced during its bind",
    "extender: pod watch disconnected",
    "extender: pod with a claim refused at its bind",
    "extender: pods listed again",
    "extender: pods listed anew",
    "extender: pods listed for a pod that cannot be read",
    "extender: preemption would not help on a node",
    "extender: record left to be corrected",
    "extender: record of a pod cannot count",
    "extender: records overlap",
    "extender: refusal put off between two watches",
    "extender: refusals forgotten",
    "extender: refused, a holder is unknown",
    "extender: refused, a holder stays unknown",
    "extender: refused, a reservation is unclear",
    "extender: refused, another device model",
    "extender: refused, containers never fit together",
    "extender: refused, devices are unhealthy",
    "extender: refused, no device model",
    "extender: refused, not enough is free",
    "extender: refused, the node is too small",
    "extender: refused, the node's report is not readable",
    "extender: refused, the node's type is not known",
    "extender: refused, the plugin is silent",
    "extender: refused, the search was given up",
    "extender: refused, the type gives no such count",
    "extender: refused, too many containers",
    "extender: refused, what is free is not linked",
    "extender: refused, what is handed down is not safe",
    "extender: reservation joined by a repeated bind",
    "extender: reservation kept for another while",
    "extender: reservation of a pod that is not bound here released",
    "extender: reservation of an unlisted pod removed",
    "extender: reservation replaced",
    "extender: start while pods wait",
    "extender: too many binds under way",
    "extender: topology dropped",
    "extender: victims added to those of kube-scheduler",
];

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test reads the sources")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// In two parts, so that it is not found here.
    const CALL: &str = concat!("reached", "(\"");

    /// The names that the sources in this folder, and those in it, call `reached` with.
    fn branches_in(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                branches_in(&path, found);
            } else {
                let source = std::fs::read_to_string(&path).unwrap();
                let calls = source.split(CALL).skip(1);
                found.extend(calls.filter_map(|call| call.split('"').next()).map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_branch_is_listed_and_every_listed_one_is_there() {
        let mut found = BTreeSet::new();
        branches_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, BRANCHES);
    }
}
