//! A random scenario before it is a file: nodes, pods and what happens to them, as values that can be made smaller.
//! Made by [`super::generate`], run by [`super::check`], made smaller by [`super::shrink`].

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use neuron_core::names;
use neuron_core::request::Role;
use serde_json::{Map, Value, json};

use super::comparable;
use crate::scenario::{CatalogSource, DeviceState, Part, Scenario, library};

/// A random scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it was made from; the same seed and instance types always make the same plan.
    pub seed: u64,
    /// The instance types that its nodes are of.
    pub catalog: CatalogSource,
    /// One or two nodes.
    pub nodes: Vec<NodePlan>,
    /// What happens, in order.
    pub actions: Vec<Action>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// A type of the catalog.
    pub instance_type: String,
    /// The type's default if none.
    pub lnc: Option<u8>,
    /// Devices of the type.
    pub devices: u8,
}

/// Something that happens. Nodes are given by their place, 0 for n1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Pods are created one after another.
    Apply(Vec<PodPlan>),
    /// Pods are created at once.
    Together(Vec<PodPlan>),
    /// Pods are deleted.
    Delete(Vec<String>),
    /// A part is restarted.
    Restart(Part, usize),
    /// A part is stopped, these happen, and it is started again.
    Without(Part, usize, Vec<Action>),
    /// A device changes its state.
    Device(usize, u8, DeviceState),
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlan {
    /// Its name, once in a plan.
    pub name: String,
    /// Its containers; at least one of them is an app container.
    pub containers: Vec<ContainerPlan>,
    /// Seconds after which its app containers end; never if none.
    pub ends_after: Option<u32>,
}

/// One container; one that asks for nothing is a plain container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlan {
    /// When it runs.
    pub role: Role,
    /// How many `aws.amazon.com/neuron` it asks for.
    pub devices: u32,
    /// How many `aws.amazon.com/neuroncore` it asks for.
    pub cores: u32,
}

impl Plan {
    /// The scenarios to carry out on one cluster, one after another: one for each action, so that the invariants are
    /// looked at after each, and one that shows that nothing leaked.
    ///
    /// # Errors
    /// The plan cannot be written as a scenario file: a mistake of this crate, which a test looks for.
    pub fn scenarios_by_action(&self) -> anyhow::Result<Vec<Scenario>> {
        let steps = self.actions.iter().map(|action| (self.steps_of(action), BTreeMap::new()));
        steps.chain([self.closing()]).map(|(steps, expect)| self.scenario_of(steps, &expect)).collect()
    }

    /// The whole plan as one scenario.
    ///
    /// # Errors
    /// The plan cannot be written as a scenario file: a mistake of this crate, which a test looks for.
    pub fn scenario(&self) -> anyhow::Result<Scenario> {
        let (steps, expect) = self.all_steps();
        self.scenario_of(steps, &expect)
    }

    /// The whole plan as the file a user would write.
    ///
    /// # Errors
    /// The plan cannot be written as a scenario file: a mistake of this crate, which a test looks for.
    pub fn to_yaml(&self, about: &str) -> anyhow::Result<String> {
        let (steps, expect) = self.all_steps();
        Ok(serde_saphyr::to_string(&self.file(about, steps, &expect))?)
    }

    /// The scenario's name.
    pub fn name(&self) -> String {
        format!("fuzz-{}", self.seed)
    }

    fn scenario_of(&self, steps: Vec<Value>, expect: &BTreeMap<String, Value>) -> anyhow::Result<Scenario> {
        // Through the text, so that what runs is what the file would say.
        let text = serde_saphyr::to_string(&self.file("A random scenario.", steps, expect))?;
        library::parse(&self.name(), &text, &self.catalog)?.pop().context("a file without a scenario")
    }

    fn all_steps(&self) -> (Vec<Value>, BTreeMap<String, Value>) {
        let (closing, expect) = self.closing();
        let steps = self.actions.iter().flat_map(|action| self.steps_of(action)).chain(closing);
        (steps.collect(), expect)
    }

    /// The steps of an action. Whoever was created while a part was stopped is placed afterwards, and what happens next
    /// must find it so wherever the plan runs.
    fn steps_of(&self, action: &Action) -> Vec<Value> {
        let mut steps = action.steps();
        let created = action.pods();
        if matches!(action, Action::Without(..)) && !created.is_empty() && comparable::why_not(self).is_none()
        {
            let names: Vec<&str> = created.into_iter().map(|pod| pod.name.as_str()).collect();
            steps.push(json!({"running": names}));
        }
        steps
    }

    fn file(&self, about: &str, steps: Vec<Value>, expect: &BTreeMap<String, Value>) -> Value {
        let nodes = self.nodes.iter().map(|node| {
            let mut fields = Map::from_iter([("type".to_owned(), json!(node.instance_type))]);
            fields.extend(node.lnc.map(|lnc| ("lnc".to_owned(), json!(lnc))));
            Value::Object(fields)
        });
        let together = self.actions.iter().filter_map(|action| match action {
            Action::Together(pods) if comparable::are_equal(pods) => Some(pods),
            _ => None,
        });
        let equal: Vec<Vec<&str>> =
            together.map(|pods| pods.iter().map(|pod| pod.name.as_str()).collect()).collect();
        let mut file = json!({"about": about, "nodes": nodes.collect::<Vec<_>>(), "steps": steps});
        if let Some(why) = comparable::why_not(self) {
            file["invariants_only"] = json!(why);
        } else if !equal.is_empty() {
            file["interchangeable"] = json!(equal);
        }
        if !expect.is_empty() {
            file["expect"] = json!(expect);
        }
        file
    }

    /// Every pod with the place of the action that creates it.
    pub fn pods(&self) -> impl Iterator<Item = (usize, &PodPlan)> {
        let actions = self.actions.iter().enumerate();
        actions.flat_map(|(place, action)| action.pods().into_iter().map(move |pod| (place, pod)))
    }

    /// The steps that end every plan: devices are healed, pods deleted, and pods that ask for everything must run.
    fn closing(&self) -> (Vec<Value>, BTreeMap<String, Value>) {
        let mut unhealthy = BTreeSet::new();
        let mut there: Vec<&str> = Vec::new();
        for action in self.actions.iter().flat_map(Action::flat) {
            match action {
                Action::Device(node, device, DeviceState::Healthy) => {
                    unhealthy.remove(&(*node, *device));
                }
                Action::Device(node, device, _) => {
                    unhealthy.insert((*node, *device));
                }
                Action::Apply(pods) | Action::Together(pods) => {
                    there.extend(pods.iter().map(|pod| pod.name.as_str()));
                }
                Action::Delete(names) => there.retain(|there| !names.iter().any(|name| name == there)),
                Action::Restart(..) | Action::Without(..) => {}
            }
        }
        let mut steps: Vec<Value> = unhealthy
            .into_iter()
            .flat_map(|(node, device)| Action::Device(node, device, DeviceState::Healthy).steps())
            .collect();
        if !there.is_empty() {
            steps.push(json!({"delete": there}));
        }
        // The largest first: it fits on no smaller node.
        let mut devices: Vec<u8> = self.nodes.iter().map(|node| node.devices).collect();
        devices.sort_by_key(|devices| std::cmp::Reverse(*devices));
        let pods: Vec<PodPlan> = devices
            .into_iter()
            .enumerate()
            .map(|(place, devices)| PodPlan {
                name: format!("all-{}", place + 1),
                containers: vec![ContainerPlan { role: Role::App, devices: devices.into(), cores: 0 }],
                ends_after: None,
            })
            .collect();
        let expect = pods.iter().map(|pod| (pod.name.clone(), json!({"phase": "Running"}))).collect();
        steps.extend(Action::Apply(pods).steps());
        (steps, expect)
    }
}

impl Action {
    /// This action and those inside it, in order.
    pub fn flat(&self) -> Vec<&Action> {
        match self {
            Action::Without(_, _, inner) => {
                [self].into_iter().chain(inner.iter().flat_map(Action::flat)).collect()
            }
            _ => vec![self],
        }
    }

    /// The pods that it creates.
    pub fn pods(&self) -> Vec<&PodPlan> {
        let pods = |action| match action {
            &Action::Apply(ref pods) | &Action::Together(ref pods) => pods.iter().collect(),
            _ => Vec::new(),
        };
        self.flat().into_iter().flat_map(pods).collect()
    }

    /// The steps of the scenario file.
    fn steps(&self) -> Vec<Value> {
        let manifests = |pods: &[PodPlan]| pods.iter().map(PodPlan::manifest).collect::<Vec<_>>();
        let target =
            |part: &Part, node: usize| json!({"part": part.name(), "node": format!("n{}", node + 1)});
        match self {
            Action::Apply(pods) => vec![json!({"apply": manifests(pods)})],
            Action::Together(pods) => vec![json!({"apply-together": manifests(pods)})],
            Action::Delete(names) => vec![json!({"delete": names})],
            Action::Restart(part, node) => vec![json!({"restart": target(part, *node)})],
            Action::Without(part, node, inner) => {
                let mut steps = vec![json!({"stop": target(part, *node)})];
                steps.extend(inner.iter().flat_map(Action::steps));
                steps.push(json!({"start": target(part, *node)}));
                steps
            }
            Action::Device(node, device, state) => {
                let becomes = match state {
                    DeviceState::Unhealthy => "unhealthy",
                    DeviceState::Healthy => "healthy",
                    DeviceState::Lost => "lost",
                };
                vec![
                    json!({"device": {"node": format!("n{}", node + 1), "device": device, "becomes": becomes}}),
                ]
            }
        }
    }
}

impl PodPlan {
    /// Whether a container runs before another and may hand its set down, or stays beside it.
    pub fn has_init(&self) -> bool {
        self.containers.iter().any(|container| container.role != Role::App)
    }

    /// The pod as a user would write it.
    pub fn manifest(&self) -> Value {
        let of_role = |roles: &[Role]| {
            let numbered = self.containers.iter().enumerate();
            let chosen = numbered.filter(|(_, container)| roles.contains(&container.role));
            chosen.map(|(place, container)| self.container(place, container)).collect::<Vec<_>>()
        };
        let mut spec = json!({"containers": of_role(&[Role::App])});
        let init = of_role(&[Role::Init, Role::Sidecar]);
        if !init.is_empty() {
            spec["initContainers"] = json!(init);
        }
        if self.ends_after.is_some() {
            spec["restartPolicy"] = json!("Never");
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name}, "spec": spec})
    }

    fn container(&self, place: usize, container: &ContainerPlan) -> Value {
        let mut fields = json!({"name": format!("c{place}"), "image": crate::cluster::WORKLOAD});
        let seconds = match container.role {
            Role::Init => Some(0),
            Role::Sidecar => None,
            Role::App => self.ends_after,
        };
        if let Some(seconds) = seconds {
            fields["args"] = json!(["--for", format!("{seconds}s")]);
        }
        if container.role == Role::Sidecar {
            fields["restartPolicy"] = json!("Always");
        }
        let counts = [(names::NEURON, container.devices), (names::NEURONCORE, container.cores)];
        let limits: Map<String, Value> = counts
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), json!(count)))
            .collect();
        if !limits.is_empty() {
            fields["resources"] = json!({"limits": limits});
        }
        fields
    }
}
