//! The scheduler extender: places pods on linked Neuron devices.
//!
//! kube-scheduler asks `/filter` which nodes can take a pod, `/prioritize` which of them suit it best and `/preempt` which pods have to
//! go for it, and has `/bind` choose the devices, record them on the pod and bind it in one write. Pods are the record: whatever is known
//! comes from watches of pods, nodes and the device plugins' Leases.
//!
//! It runs wherever there is a client of an API server; a program takes `runtime::client`, this example one in memory. All that
//! it asks of the machine it asks the [`runtime::System`] that it is given.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! use fake_cluster::{api::ApiServer, clock::Clock};
//! use neuron_extender::{Config, serve};
//! use runtime::{System, system::Address};
//! use tokio_util::sync::CancellationToken;
//!
//! let system = System::real();
//! let client = ApiServer::new(Clock::new()).client();
//! let listener = system.listen(&Address::Tcp("127.0.0.1:0".parse()?))?;
//! let shutdown = CancellationToken::new();
//! let serving = system.spawn(serve(system.clone(), Config::default(), client, listener, shutdown.clone()));
//! shutdown.cancel();
//! serving.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Where things are: `server` takes calls, `verbs` answers them from the `index`, which the `watches` keep, and
//! `events` explains to users what they would not see otherwise.

mod branches;
mod classic_log;
mod config;
mod events;
mod index;
mod leadership;
#[doc(hidden)]
pub mod measured;
mod metrics;
mod note;
mod probe;
mod protobuf;
mod server;
mod verbs;
mod watches;
mod wire;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use anyhow::bail;
use kube::Client;
use runtime::system::{Listener, TaskSet};
use runtime::{System, reached};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use crate::branches::BRANCHES;
pub use crate::classic_log::CLASSIC_LINES;
pub use crate::config::{Arguments, Config, EffectiveConfiguration, LogFormat, Settings};
use crate::events::EventSizes;
use crate::index::{Cluster, Index, TopologyCache};
pub use crate::leadership::LeaderElection;
use crate::leadership::{Election, LeaderLabel, Leadership, Tenure, alone};
use crate::metrics::Metrics;
pub use crate::probe::{Probe, Sizes};
use crate::server::tls::LiveTls;
pub use crate::server::tls::TlsFiles;
use crate::server::{Bodies, Shared, router};
use crate::verbs::bind::{BindTimeouts, Binder};
use crate::verbs::{Admitted, Filter, Prioritize};

/// Serves the extender on `listener` until `shutdown`; binds that are under way then are finished first. Nothing that it has
/// started goes on once it has returned or was dropped.
///
/// HTTPS if the configuration names TLS files, else HTTP. The files are followed: new connections get what is
/// in them, open ones go on, and files that cannot be used are logged and change nothing.
///
/// # Errors
/// The catalog or TLS files cannot be used.
pub async fn serve(
    system: System,
    config: Config,
    client: Client,
    listener: Box<dyn Listener>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let catalog = Arc::new(config::catalog(&system, config.catalog.as_deref()).await?);
    let tls = match config.tls.clone() {
        Some(files) => Some(LiveTls::open(&system, files).await?),
        None => None,
    };
    let index = Index::new(TopologyCache::new(catalog, config.policy));
    let cluster = Arc::new(Cluster::new(index.with_lease_grace(config.lease_grace)));
    let event_sizes = Arc::new(EventSizes::default());
    let mut tasks = TaskSet::new(system.clone());
    tasks.spawn(watches::watch_pods(system.clone(), client.clone(), cluster.clone()));
    tasks.spawn(watches::watch_nodes(system.clone(), client.clone(), cluster.clone()));
    if config.lease_grace.is_some() {
        let (client, namespace) = (client.clone(), config.plugin_namespace.clone());
        tasks.spawn(watches::watch_leases(system.clone(), client, cluster.clone(), namespace));
    }

    let timeouts = BindTimeouts { bind: config.bind_deadline, binding: config.binding_timeout };
    let end = CancellationToken::new();
    let _end = end.clone().drop_guard();
    let metrics = Arc::new(Metrics::default());
    let (leadership, mut election) = elected(&system, &client, config.leader_election.clone(), &cluster);
    let (tenures_ended, deposed) = watch::channel(0);
    tasks.spawn(events::explain(
        system.clone(),
        client.clone(),
        cluster.clone(),
        leadership.clone(),
        config.event_delay,
        event_sizes.clone(),
    ));
    if let Some(settings) = &config.leader_election {
        let label = || LeaderLabel::new(client.clone(), &settings.namespace, settings.pod.clone());
        let label = settings.labels_pod.then(label);
        let (leadership, cluster) = (leadership.clone(), cluster.clone());
        tasks.spawn(Tenure { leadership, cluster, label, ended: tenures_ended }.run());
    }
    let admitted = Arc::new(Admitted::default());
    let binder = Binder::new(system.clone(), cluster.clone(), client, timeouts, end)
        .led_by(leadership.clone())
        .admitting(admitted.clone())
        .counted_by(metrics.clone());
    let filter = Filter::new(cluster.clone(), admitted.clone(), metrics.clone());
    let prioritize = Prioritize::new(cluster.clone(), metrics.clone());
    let _measured = config.probe.map(|probe| {
        let (cluster, filter, binder) = (cluster.clone(), filter.clone(), binder.clone());
        probe.looks_by(move || Sizes {
            events_sent: event_sizes.sent(),
            events_waiting: event_sizes.waiting(),
            refusals_logged: filter.refusals_logged(),
            binds: binder.under_way(),
            admitted: admitted.len(),
            ..cluster.read(Index::sizes)
        })
    });
    let certificate_required = config.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
    let (listed, leads) = (cluster.clone(), leadership.clone());
    let (binds, bodies) = (binder.clone(), Bodies::default());
    let shared = Shared { filter, prioritize, cluster, metrics, binder: binds, leadership, bodies };
    let routes = router(shared, certificate_required);
    let tls = tls.map(|live| {
        let served = live.served();
        tasks.spawn(live.follow(system.clone()));
        served
    });
    let closing = CancellationToken::new();
    // Connections that the other side keeps open must not hold up the end.
    let mut serving =
        pin!(server::serve(system, listener, routes, tls, closing.clone(), deposed, config.bind_deadline));
    let standing = async {
        match &mut election {
            // Who knows no pods must not lead.
            Some(election) => {
                listed.is_listed_at_last().await;
                election.run().await;
            }
            None => {
                alone::begin(&leads, &listed, started + config.bind_deadline).await;
                pending().await
            }
        }
    };
    tokio::select! {
        biased;
        // An end that was asked for is no failure, whatever else has ended.
        () = shutdown.cancelled() => {}
        () = &mut serving => bail!("nobody takes connections any more"),
        () = standing => {}
        ended = tasks.join_next() => bail!("a task that must not end has ended: {ended:?}"),
    }
    // Calls are answered meanwhile: that this extender stops, and not ready.
    let ending = async {
        info!(timeout = ?config.bind_deadline, "binds under way are finished first");
        if timeout(config.bind_deadline, binder.finish()).await.is_err() {
            reached("extender: binds cut off at the end");
            warn!(timeout = ?config.bind_deadline, "binds are still under way at the end; their pods say what becomes of them");
        } else if let Some(election) = election {
            // A Binding of which it is open what became of it may still be carried out, as one that was cut off.
            if leads.leads() && listed.read(Index::has_unclear_reservations) {
                reached("extender: lease kept for an unclear binding");
                info!("it is open what became of a Binding; the next leader waits until the Lease is over");
            } else {
                election.step_down().await;
            }
        }
        closing.cancel();
    };
    tokio::join!(ending, serving);
    Ok(())
}

/// The leadership of this extender, and its part in the election if there is one.
fn elected(
    system: &System,
    client: &Client,
    settings: Option<LeaderElection>,
    cluster: &Arc<Cluster>,
) -> (Arc<Leadership>, Option<Election>) {
    match settings {
        Some(settings) => {
            let leadership = Arc::new(Leadership::elected());
            let cluster = cluster.clone();
            let hears = move || cluster.read(Index::too_long_silent).is_none();
            let election = Election::new(system, client.clone(), settings, leadership.clone(), hears);
            (leadership, Some(election))
        }
        None => (Arc::new(Leadership::starting()), None),
    }
}
