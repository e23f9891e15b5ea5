//! The cluster itself: hosts, parts, and what happens to them.

mod by_hand;
mod checkpoint;
mod events;
mod faults;
mod judge;
mod node;
mod parts;
mod quiet;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fake_cluster::scheduler::{Scheduler, SchedulerConfig};
use fake_cluster::{ApiServer, Clock, Version};
use futures::FutureExt as _;
use simulator::network::LinkQuality;
use simulator::{Host, Process, Simulation};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::faults::Faults;
use self::node::Node;
use self::parts::{Part, PartStart};
use crate::api::{ApiServerHost, Conditions, Whose};
use crate::controllers::Controllers;
use crate::names::SCHEDULER;
use crate::plan::{Place, Plan, Settings, node_name};
use crate::suite::{RunsOn, Start, Suite};
use crate::watcher::Watcher;

/// The address of the Service of the suite's programs.
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The longest until calls reach a new leader, in milliseconds.
const LONGEST_UNTIL_LED: u64 = 3000;

/// A cluster under way.
pub(crate) struct World {
    pub(crate) simulation: Simulation,
    pub(crate) suite: Arc<dyn Suite>,
    pub(crate) settings: Settings,
    pub(crate) api: ApiServer,
    pub(crate) conditions: Arc<Conditions>,
    api_host: Arc<ApiServerHost>,
    scheduler_host: Host,
    control: Host,
    /// Where a second process of a control plane's program runs.
    second_control: Host,
    api_server: Host,
    pub(crate) nodes: Vec<Node>,
    node_hosts: Vec<Host>,
    /// In the order in which they were started.
    parts: Mutex<Vec<Arc<Part>>>,
    /// Runs what is no part of the cluster.
    harness: Process,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) controllers: Arc<Controllers>,
    faults: Mutex<Faults>,
    /// What is wrong with whole machines: a node's place, its machine, and what.
    machine_faults: Mutex<BTreeSet<(usize, Option<u64>, String)>>,
    /// Faults of the plan that have happened, by kind.
    fault_counts: Mutex<BTreeMap<String, u64>>,
    /// What faults have put in the place of newer checkpoints, by the node's place.
    older_checkpoints: Mutex<BTreeMap<usize, Vec<u8>>>,
}

impl World {
    /// A cluster of the plan's nodes, with every part started.
    ///
    /// # Errors
    /// A node's machine is unknown, or the plan's Kubernetes is.
    pub(crate) fn start(
        simulation: Simulation,
        plan: &Plan,
        suite: Arc<dyn Suite>,
    ) -> anyhow::Result<Arc<Self>> {
        let version: Version = plan.kubernetes.parse()?;
        let (milliseconds, loss) = (plan.settings.link_milliseconds, plan.settings.link_loss);
        simulation.set_links(LinkQuality { milliseconds, loss });
        simulation
            .set_within_host(LinkQuality { milliseconds: plan.settings.socket_milliseconds, loss: 0.0 });
        let api = ApiServer::new(Clock::of_runtime()).with_version(version);
        let (api_server, scheduler_host) = (simulation.host("apiserver"), simulation.host("scheduler"));
        let control = simulation.host("control");
        let second_control = simulation.host("control-2");
        let (mut nodes, mut node_hosts) = (Vec::new(), Vec::new());
        for (place, node) in plan.nodes.iter().enumerate() {
            let host = simulation.host(&node_name(place));
            suite.make_machine(&host, &node_name(place), node).map_err(anyhow::Error::msg)?;
            node_hosts.push(host);
            nodes.push(Node::new(place, node.clone()));
        }
        let conditions = Arc::new(Conditions::default());
        conditions.set_rates(Whose::Suite, plan.settings.api);
        conditions.set_rates(Whose::Cluster, plan.settings.cluster_api);
        let plans = nodes.iter().map(|node: &Node| (node.name.clone(), node.plan.clone())).collect();
        let watcher = Arc::new(Watcher::new(simulation.clone(), Arc::clone(&suite), plans));
        watcher.state().truth.kubelets_tell_pods = version == Version::V1_37;
        watcher.observe(&api);
        let harness = scheduler_host.process("harness");
        let api_host = Arc::new(ApiServerHost {
            simulation: simulation.clone(),
            harness: harness.clone(),
            routes: api.router(),
            api: api.clone(),
            conditions: Arc::clone(&conditions),
            watcher: Arc::clone(&watcher),
        });
        let world = Arc::new(Self {
            suite,
            settings: plan.settings.clone(),
            conditions,
            api_host,
            harness,
            scheduler_host,
            control,
            second_control,
            api_server,
            nodes,
            node_hosts,
            parts: Mutex::default(),
            controllers: Arc::new(Controllers::new(&simulation, Arc::clone(&watcher), api.clock().clone())),
            watcher,
            faults: Mutex::default(),
            machine_faults: Mutex::default(),
            fault_counts: Mutex::default(),
            older_checkpoints: Mutex::default(),
            api,
            simulation,
        });
        world.start_parts();
        Ok(world)
    }

    fn start_parts(self: &Arc<Self>) {
        for place in 0..self.nodes.len() {
            self.add_part("kubelet", Place::Node(place), self.kubelet(place));
        }
        for program in self.suite.programs() {
            if let Some(port) = program.port {
                let service = SocketAddrV4::new(SERVICE, port);
                let backends =
                    [&self.control, &self.second_control].map(|host| SocketAddrV4::new(host.ip(), port));
                self.simulation.set_service(service, backends.into(), Instant::now());
                if self.suite.has_replicas(&program, &self.settings) {
                    self.follow_leader(service, backends);
                }
            }
            let places: Vec<Place> = match program.runs_on {
                RunsOn::Control if self.suite.has_replicas(&program, &self.settings) => {
                    self.watcher.state().truth.replicated.insert(program.name.to_owned());
                    vec![Place::Control, Place::SecondControl]
                }
                RunsOn::Control => vec![Place::Control],
                RunsOn::EveryNode => (0..self.nodes.len()).map(Place::Node).collect(),
            };
            for place in places {
                self.add_part(program.name, place, self.program(program.name));
            }
        }
        self.add_part("scheduler", Place::Scheduler, self.scheduler());
        self.add_part("controllers", Place::Scheduler, self.run_controllers());
    }

    /// Has calls to the service reach the replica that leads: in place of the label that a leader puts on its pod, and with the time that
    /// this and the nodes take.
    fn follow_leader(&self, service: SocketAddrV4, [first, second]: [SocketAddrV4; 2]) {
        let (suite, simulation) = (Arc::clone(&self.suite), self.simulation.clone());
        let known = Mutex::new((None, simulation.stream("service of the leader")));
        self.api.observe(Box::new(move |write| {
            let Some(leader) = write.after.and_then(|object| suite.leader(write.kind, write.name, object))
            else {
                return;
            };
            let (known, draws) = &mut *locked(&known);
            if known.replace(leader) != Some(leader) {
                let backend = if leader == Place::SecondControl { second } else { first };
                let late = Duration::from_millis(draws.u64(..=LONGEST_UNTIL_LED));
                simulation.set_service(service, vec![backend], Instant::now() + late);
            }
        }));
    }

    fn add_part(self: &Arc<Self>, name: &str, place: Place, start: PartStart) {
        let part = Arc::new(Part::new(name, place, start, Arc::clone(&self.watcher)));
        locked(&self.parts).push(Arc::clone(&part));
        self.spawn(part.supervise(Arc::clone(self)));
    }

    /// How a program of the suite is started.
    fn program(self: &Arc<Self>, program: &'static str) -> PartStart {
        let world = Arc::downgrade(self);
        Arc::new(move |process: Process, place: Place, shutdown: CancellationToken| {
            let Some(world) = world.upgrade() else { return std::future::pending().boxed() };
            let client = world.client(&process, place, Whose::Suite);
            let node = match place {
                Place::Node(place) => world.nodes.get(place),
                Place::ApiServer | Place::Scheduler | Place::Control | Place::SecondControl => None,
            };
            world.suite.run(Start {
                program,
                place,
                client,
                node: node.map(|node| node.name.clone()).unwrap_or_default(),
                machine: node.map(|node| node.plan.clone()),
                kubelet_dir: node::KUBELET_DIR.into(),
                settings: world.settings.clone(),
                shutdown,
                process,
            })
        })
    }

    fn scheduler(self: &Arc<Self>) -> PartStart {
        let world = Arc::downgrade(self);
        Arc::new(move |process: Process, place: Place, _| {
            let Some(world) = world.upgrade() else { return std::future::pending().boxed() };
            let client = world.client(&process, place, Whose::Cluster);
            let config = SchedulerConfig {
                name: SCHEDULER.to_owned(),
                extenders: world.suite.extenders(SERVICE, &world.settings),
                seed: world.simulation.stream("scheduler").u64(..),
            };
            async move {
                let _running = Scheduler::start(&process.system(), client, &world.api, config);
                std::future::pending().await
            }
            .boxed()
        })
    }

    fn run_controllers(self: &Arc<Self>) -> PartStart {
        let world = Arc::downgrade(self);
        Arc::new(move |process: Process, place: Place, _| {
            let Some(world) = world.upgrade() else { return std::future::pending().boxed() };
            let client = world.client(&process, place, Whose::Cluster);
            Arc::clone(&world.controllers).run(client).map(Ok).boxed()
        })
    }

    /// A way to the API server for a process at a place.
    pub(crate) fn client(&self, process: &Process, place: Place, whose: Whose) -> kube::Client {
        let (here, there) = (self.host(place), &self.api_server);
        let links = [self.simulation.link(here, there), self.simulation.link(there, here)];
        self.api_host.client(process, place, links, whose)
    }

    /// Faults of the plan that have happened, by kind.
    pub(crate) fn faults(&self) -> BTreeMap<String, u64> {
        locked(&self.fault_counts).clone()
    }

    /// The host of a place.
    pub(crate) fn host(&self, place: Place) -> &Host {
        match place {
            Place::ApiServer => &self.api_server,
            Place::Scheduler => &self.scheduler_host,
            Place::Control => &self.control,
            Place::SecondControl => &self.second_control,
            // `Plan::problem` has looked that there is one.
            Place::Node(place) => self.node_hosts.get(place).unwrap_or(&self.control),
        }
    }

    /// Runs what is no part of the cluster beside it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.harness.system().spawn(task));
    }

    /// A part at a place.
    fn part(&self, name: &str, place: Place) -> Option<Arc<Part>> {
        let parts = locked(&self.parts);
        parts.iter().find(|part| part.name == name && part.place == place).cloned()
    }

    fn parts_at(&self, place: Place) -> Vec<Arc<Part>> {
        locked(&self.parts).iter().filter(|part| part.place == place).cloned().collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
