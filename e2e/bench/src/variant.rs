//! What is compared: no extender, one that only passes and binds, ours; and in which order a round tries them.

use clap::ValueEnum;
use serde::Serialize;

use super::pods::SCHEDULER;
use neuron_e2e_engine::scheduler_configuration::{ExtenderEntry, SchedulerConfiguration};

/// One way to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// kube-scheduler alone.
    NoExtender,
    /// The passing extender, given node names.
    PassingNames,
    /// The passing extender, given node names, over HTTPS.
    PassingNamesHttps,
    /// Ours, given node names.
    OursNames,
    /// Ours, given node names, over HTTPS.
    OursNamesHttps,
    /// Ours, given node names; both log what `deploy/` has them log: AWS' own lines, and kube-scheduler's at `-v=2`.
    OursNamesLogs,
    /// The passing extender, given full Nodes.
    PassingNodes,
    /// Ours, given full Nodes.
    OursNodes,
}

/// Which extender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Extender {
    /// Passes every node and binds.
    Passing,
    /// The one of this suite.
    Ours,
}

/// What kube-scheduler sends an extender of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Their names.
    Names,
    /// Whole Nodes.
    Nodes,
}

/// Requests to the API server that kube-scheduler may send in a second; its own default of 50 would be what is measured.
const QPS: u32 = 10_000;

impl Variant {
    /// Every variant, those that are compared with each other side by side.
    pub(super) const ALL: [Variant; 8] = [
        Variant::NoExtender,
        Variant::PassingNames,
        Variant::PassingNamesHttps,
        Variant::OursNames,
        Variant::OursNamesHttps,
        Variant::OursNamesLogs,
        Variant::PassingNodes,
        Variant::OursNodes,
    ];

    /// The order of a round, of the variants with this form and without extender, or all if it is not given, and of them of these alone if
    /// any are given. Every second one goes backwards, so that none always follows the same other.
    pub(super) fn order(round: usize, form: Option<Form>, only: &[Variant]) -> Vec<Variant> {
        let wanted = |variant: &Variant| {
            let has_form = form.is_none() || variant.form().is_none() || variant.form() == form;
            has_form && (only.is_empty() || only.contains(variant))
        };
        let mut order: Vec<Variant> = Variant::ALL.into_iter().filter(wanted).collect();
        if !round.is_multiple_of(2) {
            order.reverse();
        }
        order
    }

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::NoExtender => "no extender",
            Variant::PassingNames => "passing, names",
            Variant::PassingNamesHttps => "passing, names, HTTPS",
            Variant::OursNames => "ours, names",
            Variant::OursNamesHttps => "ours, names, HTTPS",
            Variant::OursNamesLogs => "ours, names, logs as deployed",
            Variant::PassingNodes => "passing, full Nodes",
            Variant::OursNodes => "ours, full Nodes",
        }
    }

    /// The extender it takes.
    pub(super) fn extender(self) -> Option<Extender> {
        match self {
            Variant::NoExtender => None,
            Variant::PassingNames | Variant::PassingNamesHttps | Variant::PassingNodes => {
                Some(Extender::Passing)
            }
            Variant::OursNames | Variant::OursNamesHttps | Variant::OursNamesLogs | Variant::OursNodes => {
                Some(Extender::Ours)
            }
        }
    }

    /// Whether it is asked over HTTPS.
    pub(super) fn is_https(self) -> bool {
        matches!(self, Variant::PassingNamesHttps | Variant::OursNamesHttps)
    }

    /// Whether extender and kube-scheduler log as much as `deploy/` has them log.
    pub(super) fn logs_as_deployed(self) -> bool {
        self == Variant::OursNamesLogs
    }

    /// What the extender is sent, if there is one.
    fn form(self) -> Option<Form> {
        match self {
            Variant::NoExtender => None,
            Variant::PassingNames
            | Variant::PassingNamesHttps
            | Variant::OursNames
            | Variant::OursNamesHttps
            | Variant::OursNamesLogs => Some(Form::Names),
            Variant::PassingNodes | Variant::OursNodes => Some(Form::Nodes),
        }
    }

    /// kube-scheduler's configuration: the extender's entry is the one of `deploy/my-scheduler.yml`, at this address. Over HTTPS it is
    /// known by a certificate of this authority, in PEM.
    pub(super) fn configuration(
        self,
        address: &str,
        authority: &str,
    ) -> anyhow::Result<SchedulerConfiguration> {
        let entry = || ExtenderEntry::deployed_at(&format!("http://{address}"));
        let https = || ExtenderEntry::deployed_at(&format!("https://{address}"));
        let extenders = match self.form() {
            None => Vec::new(),
            Some(Form::Names) if self.is_https() => vec![https()?.over_https(authority)],
            Some(Form::Names) => vec![entry()?],
            Some(Form::Nodes) => vec![entry()?.with_whole_nodes()],
        };
        Ok(SchedulerConfiguration::of_bench(SCHEDULER, QPS, extenders))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_extenders_are_configured_alike_but_for_what_they_are_sent() {
        let extenders = |variant: Variant| variant.configuration("10.0.0.1:1", "pem").unwrap().extenders;
        let passing = extenders(Variant::PassingNames);
        assert_eq!(passing, extenders(Variant::OursNames));
        assert_eq!(extenders(Variant::PassingNodes), extenders(Variant::OursNodes));
        let [names, nodes] = [passing, extenders(Variant::OursNodes)].map(|mut one| one.remove(0));
        assert!(names.node_cache_capable && !nodes.node_cache_capable);
        assert_eq!(names.with_whole_nodes(), nodes);
        assert_eq!(extenders(Variant::NoExtender), []);
        assert_eq!(extenders(Variant::PassingNamesHttps), extenders(Variant::OursNamesHttps));
        let https = extenders(Variant::OursNamesHttps).remove(0);
        assert_eq!(https, ExtenderEntry::deployed_at("https://10.0.0.1:1").unwrap().over_https("pem"));
    }

    #[test]
    fn two_rounds_go_both_ways() {
        let mut backwards = Variant::order(1, None, &[]);
        backwards.reverse();
        assert_eq!(Variant::order(0, None, &[]), backwards);
    }

    #[test]
    fn one_form_is_compared_with_no_extender_alone() {
        use Variant::{
            NoExtender, OursNames, OursNamesHttps, OursNamesLogs, OursNodes, PassingNames, PassingNamesHttps,
            PassingNodes,
        };
        let names = [NoExtender, PassingNames, PassingNamesHttps, OursNames, OursNamesHttps, OursNamesLogs];
        assert_eq!(Variant::order(0, Some(Form::Names), &[]), names);
        assert_eq!(Variant::order(1, Some(Form::Nodes), &[]), [OursNodes, PassingNodes, NoExtender]);
        assert_eq!(Variant::order(1, None, &[PassingNames, OursNames]), [OursNames, PassingNames]);
    }
}
