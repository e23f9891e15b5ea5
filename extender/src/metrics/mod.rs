//! What Prometheus is told, at `/metrics`: what was counted since the start, and what is [`Now`], looked up when it is asked for. Counted by
//! the routes, filter and bind, listed in docs/metrics.md.

mod labels;
mod now;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuron_core::placement::SearchCost;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use runtime::metrics::{Seconds, seconds};
use tokio::time::Instant;

use self::labels::{OfPart, OfReason, OfVerb, OfVerbResult};
use self::now::Shown;
pub(crate) use self::now::{NodeNow, Now, WatchNow};

/// What every name begins with.
const PREFIX: &str = "neuron_extender";

/// A verb of kube-scheduler's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Filter,
    Prioritize,
    Preempt,
    Bind,
}

/// A part of a bind that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindPart {
    /// The pod is read that no watch shows yet.
    Pod,
    /// A place is searched for.
    Search,
    /// The Binding.
    Binding,
    /// The pod is read since the Binding's outcome is not known.
    Outcome,
}

/// The extender's metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    verbs: Seconds<OfVerbResult>,
    in_flight: Family<OfVerb, Gauge>,
    bind_parts: Seconds<OfPart>,
    refusals: Family<OfReason, Counter>,
    search_moves: Family<OfVerb, Counter>,
    searches_given_up: Family<OfVerb, Counter>,
    verbs_open: Gauge,
    now: Arc<Shown>,
    /// Of two that ask at one time each sees what was looked up for it.
    asked: Mutex<()>,
}

/// A call that is being answered.
pub(crate) struct Call<'m> {
    metrics: &'m Metrics,
    verb: Verb,
    began: Instant,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let (verbs, bind_parts) = (seconds(), seconds());
        let (in_flight, refusals, now) = (Family::default(), Family::default(), Arc::<Shown>::default());
        registry.register_with_unit(
            "verb",
            "Calls of kube-scheduler, by the time that they took",
            Unit::Seconds,
            Clone::clone(&verbs),
        );
        registry.register("calls_in_flight", "Calls that are being answered", Clone::clone(&in_flight));
        registry.register_with_unit(
            "bind_part",
            "Parts of binds, by the time that they took",
            Unit::Seconds,
            Clone::clone(&bind_parts),
        );
        registry.register(
            "refusals",
            "Calls of filter after which no node took the pod, by what nodes said",
            Clone::clone(&refusals),
        );
        let (search_moves, searches_given_up) = (Family::default(), Family::default());
        registry.register(
            "search_moves",
            "Moves that searches for placements tried",
            Clone::clone(&search_moves),
        );
        registry.register(
            "searches_given_up",
            "Searches for placements that were given up at their limit",
            Clone::clone(&searches_given_up),
        );
        let verbs_open = Gauge::default();
        registry.register(
            "verbs_open",
            "Whether who reaches the port may call the verbs without a certificate",
            verbs_open.clone(),
        );
        registry.register_collector(Box::new(Arc::clone(&now)));
        Self {
            registry,
            verbs,
            in_flight,
            bind_parts,
            refusals,
            search_moves,
            searches_given_up,
            verbs_open,
            now,
            asked: Mutex::default(),
        }
    }
}

impl Metrics {
    /// A call begins. It ends with [`Call::ended`], or, cut off, when it is dropped.
    pub(crate) fn call(&self, verb: Verb) -> Call<'_> {
        self.in_flight.get_or_create(&OfVerb { verb: verb.name() }).inc();
        Call { metrics: self, verb, began: Instant::now() }
    }

    /// A part of a bind took so long.
    pub(crate) fn bind_part(&self, part: BindPart, took: Duration) {
        self.bind_parts.get_or_create(&OfPart { part: part.name() }).observe(took.as_secs_f64());
    }

    /// No node took a pod: what the nodes said, each kind once.
    pub(crate) fn refused(&self, reasons: impl Iterator<Item = &'static str>) {
        for reason in reasons {
            self.refusals.get_or_create(&OfReason { reason }).inc();
        }
    }

    /// A call has searched for placements on its nodes.
    pub(crate) fn searched(&self, verb: Verb, cost: SearchCost) {
        let labels = OfVerb { verb: verb.name() };
        self.search_moves.get_or_create(&labels).inc_by(cost.moves.into());
        self.searches_given_up.get_or_create(&labels).inc_by(cost.given_up.into());
    }

    /// Whether the verbs may be called without a certificate.
    pub(crate) fn verbs_are_open(&self, are_open: bool) {
        self.verbs_open.set(are_open.into());
    }

    /// The text of `/metrics` with what is now.
    pub(crate) fn text(&self, now: Now) -> String {
        let _one_at_a_time = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        self.now.set(now);
        runtime::metrics::text(&self.registry)
    }
}

impl Call<'_> {
    /// The call is answered.
    pub(crate) fn ended(self, result: &'static str) {
        let labels = OfVerbResult { verb: self.verb.name(), result };
        self.metrics.verbs.get_or_create(&labels).observe(self.began.elapsed().as_secs_f64());
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.get_or_create(&OfVerb { verb: self.verb.name() }).dec();
    }
}

impl BindPart {
    fn name(self) -> &'static str {
        match self {
            BindPart::Pod => "pod",
            BindPart::Search => "search",
            BindPart::Binding => "binding",
            BindPart::Outcome => "outcome",
        }
    }
}

impl Verb {
    /// As in its path.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Filter => "filter",
            Verb::Prioritize => "prioritize",
            Verb::Preempt => "preempt",
            Verb::Bind => "bind",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const DOCUMENTED: &str = include_str!("../../../docs/metrics.md");

    /// `name type` of every metric in OpenMetrics' text, without the prefix.
    fn shown(text: &str) -> BTreeSet<String> {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE neuron_extender_"));
        types.map(str::to_owned).collect()
    }

    /// The same of the extender's table.
    fn documented() -> BTreeSet<String> {
        let (_, extender) = DOCUMENTED.split_once("## The extender").unwrap();
        let rows = extender.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.map(|row| {
            let (name, rest) = row.split_once("` | ").unwrap();
            format!("{name} {}", rest.split_once(" |").unwrap().0)
        })
        .collect()
    }

    fn node(free: usize) -> NodeNow {
        NodeNow {
            name: "n1".to_owned(),
            instance_type: "inf2.xlarge".to_owned(),
            devices: [free, 0, 1 - free],
            cores: [2 * free, 0, 2 - 2 * free],
            largest_free_set: free,
        }
    }

    #[test]
    fn the_documented_metrics_are_those_that_are_shown() {
        let metrics = Metrics::default();
        metrics.call(Verb::Bind).ended("bound");
        metrics.bind_part(BindPart::Binding, Duration::ZERO);
        metrics.refused(["not_linked"].into_iter());
        metrics.searched(Verb::Filter, SearchCost::default());
        let watch = |name, is_connected| WatchNow { name, is_connected, silent_for: None };
        let watches = vec![watch("pods", true), watch("leases", false)];
        let now = Now { nodes: vec![node(1)], watches, ..Now::default() };
        let text = metrics.text(now);
        assert_eq!(shown(&text), documented());
        insta::assert_snapshot!("extender", testkit_support::metrics::without_times(&text));
    }

    #[test]
    fn every_reason_is_documented() {
        // The names that `NodeRefusal::name` gives.
        let source = include_str!("../index/refusal.rs");
        let named = source.split(" => \"").skip(1).filter_map(|rest| rest.split_once('"'));
        let named: BTreeSet<&str> = named.map(|(name, _)| name).collect();
        let (_, extender) = DOCUMENTED.split_once("## The extender").unwrap();
        let row = extender.lines().find(|line| line.starts_with("| `refusals`")).unwrap();
        let told = row.split('`').skip(5).step_by(2).collect();
        assert_eq!(named, told);
    }

    /// What stands between quotes after this text, each time.
    fn quoted_after(source: &'static str, text: &str) -> BTreeSet<&'static str> {
        source.split(text).skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| name).collect()
    }

    /// The code words between these two in the row of a metric.
    fn told(name: &str, from: &str, until: &str) -> BTreeSet<&'static str> {
        let begins = format!("| `{name}` |");
        let row = DOCUMENTED.lines().find(|line| line.starts_with(&begins)).unwrap();
        let (_, rest) = row.split_once(from).unwrap();
        let (words, _) = rest.split_once(until).unwrap();
        words.split('`').skip(1).step_by(2).collect()
    }

    /// Those of bind come from its own files, those of the others from the routes.
    #[test]
    fn every_result_is_documented() {
        let mut of_bind = quoted_after(include_str!("../verbs/bind/error.rs"), " => \"");
        of_bind.extend(quoted_after(include_str!("../verbs/bound.rs"), " => \""));
        assert!(of_bind.remove("panicked"), "it is told of every verb");
        assert_eq!(of_bind, told("verb_seconds", "; bind: ", "; prioritize: "));

        let routes = include_str!("../server/routes.rs");
        let mut of_others = quoted_after(routes, " => \"");
        of_others.extend(quoted_after(routes, "into_response(), \""));
        of_others.extend(quoted_after(routes, "const FAILED: &str = \""));
        of_others.extend(["fits", "answered"]);
        let of_filter = told("verb_seconds", " filter: ", "; bind: ");
        let told = &of_filter | &told("verb_seconds", "; prioritize: ", "; every one: ");
        assert_eq!(of_others, told);
    }

    #[test]
    fn every_part_of_a_bind_is_documented() {
        let (_, names) = include_str!("mod.rs").split_once("impl BindPart {").unwrap();
        let (names, _) = names.split_once("\n}").unwrap();
        let (parts, told) = (quoted_after(names, " => \""), told("bind_part_seconds", "`part`: ", " | "));
        assert_eq!(parts, told);
    }

    #[test]
    fn nodes_that_are_gone_are_not_shown() {
        let metrics = Metrics::default();
        let text = |nodes| metrics.text(Now { nodes, ..Now::default() });
        let line = "neuron_extender_devices{node=\"n1\",instance_type=\"inf2.xlarge\",state=\"unhealthy\"} 1";
        assert!(text(vec![node(0)]).lines().any(|shown| shown == line));
        assert!(!text(Vec::new()).contains("n1"));
    }

    #[test]
    fn a_call_that_is_cut_off_is_no_longer_in_flight() {
        let metrics = Metrics::default();
        let call = metrics.call(Verb::Filter);
        let in_flight = |count| format!("neuron_extender_calls_in_flight{{verb=\"filter\"}} {count}\n");
        assert!(metrics.text(Now::default()).contains(&in_flight(1)));
        drop(call);
        let text = metrics.text(Now::default());
        assert!(text.contains(&in_flight(0)) && !text.contains("verb_seconds_count"), "{text}");
    }
}
