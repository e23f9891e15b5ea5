//! Puts the plugin's parts together and ends them in the right order.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kube::Client;
use neuron_core::catalog::Catalog;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::allocation::engine::Engine;
use crate::config::Config;
use crate::hardware::discovery::{Discovery, Machine};
use crate::hardware::held_lnc as lnc;
use crate::healthz;
use crate::kubelet::registration::Registration;
use crate::report::upkeep::Upkeep;
use crate::resource::offers;
use crate::status::Status;

/// The part of [`Status`] that speaks of the machine.
const DEVICES: &str = "devices";

/// Serves kubelet until `shutdown`. Neither a machine without devices nor an API server or kubelet that is away ends
/// it: it says what it waits for, and goes on when that is there.
///
/// # Errors
/// Only what no waiting heals: a catalog file that cannot be read, an address that cannot be listened on.
pub async fn run(config: Config, client: Client, shutdown: CancellationToken) -> anyhow::Result<()> {
    tracing::info!("effective configuration: {config:?}");
    let catalog = load_catalog(config.catalog.as_deref())?;
    let status = Arc::new(Status::default());
    status.starting(DEVICES);
    for offer in offers(config.legacy_resource) {
        status.starting(offer.name);
    }
    let mut tasks = JoinSet::new();
    if let Some(address) = config.listen {
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address} (--listen)"))?;
        let (status, shutdown) = (Arc::clone(&status), shutdown.clone());
        tasks.spawn(async move {
            if let Err(error) = healthz::serve(listener, status, shutdown).await {
                tracing::warn!("/healthz ended: {error}");
            }
        });
    }
    let engine = Arc::new(Engine::new(&config, client.clone()));
    tasks.spawn({
        let (engine, shutdown) = (Arc::clone(&engine), shutdown.clone());
        async move { engine.pods.watch(shutdown).await }
    });
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = discover(&config, &catalog, &client, &engine, &status) => {}
    }
    if !shutdown.is_cancelled() {
        let upkeep = Upkeep::new(Arc::clone(&engine), &config, client);
        // Nothing is registered yet, so kubelet is at rest with us: its books say what running pods hold.
        upkeep.adopt().await;
        tasks.spawn({
            let shutdown = shutdown.clone();
            async move { upkeep.run(shutdown).await }
        });
        let (_watcher, folder_changed) = watch_folder(&config.plugin_dir());
        for offer in offers(config.legacy_resource) {
            let registration = Registration {
                offer,
                engine: Arc::clone(&engine),
                status: Arc::clone(&status),
                config: config.clone(),
                folder_changed: folder_changed.clone(),
            };
            tasks.spawn(registration.run(shutdown.clone()));
        }
        drop(folder_changed);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = look_after(&config, &engine) => {}
        }
    }
    while tasks.join_next().await.is_some() {}
    Ok(())
}

fn load_catalog(file: Option<&Path>) -> anyhow::Result<Cow<'static, Catalog>> {
    let Some(file) = file else { return Ok(Cow::Borrowed(Catalog::embedded())) };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read catalog {} (--catalog)", file.display()))?;
    let catalog = Catalog::from_json(&text)
        .with_context(|| format!("catalog {} (--catalog) makes no sense", file.display()))?;
    Ok(Cow::Owned(catalog))
}

/// Looks for the machine's devices until they are there.
async fn discover(config: &Config, catalog: &Catalog, client: &Client, engine: &Engine, status: &Status) {
    let discovery = Discovery {
        root: &config.root,
        catalog,
        policy: config.policy,
        instance_type: config.instance_type.as_deref(),
    };
    let kept = lnc::kept(client, &config.node_name, &engine.pods, config.api_deadline).await;
    loop {
        match discovery.look(kept.as_ref()) {
            Ok(machine) => {
                let topology = &machine.topology;
                if let Ok(wished) = discovery.look(None)
                    && wished.topology.lnc() != topology.lnc()
                {
                    tracing::warn!(
                        "LNC {} is configured, but pods hold cores at LNC {}: restart the plugin once they have ended",
                        wished.topology.lnc(),
                        topology.lnc()
                    );
                }
                tracing::info!(
                    "found {} with {} devices and {} logical cores (LNC {})",
                    topology.instance_type(),
                    topology.devices(),
                    topology.cores(),
                    topology.lnc()
                );
                log_faults(None, &machine);
                engine.machine.send_replace(Some(Arc::new(machine)));
                status.fine(DEVICES);
                return;
            }
            Err(error) => status.problem(DEVICES, &error.to_string()),
        }
        tokio::time::sleep(config.poll).await;
    }
}

/// Looks at every device's health again and again.
async fn look_after(config: &Config, engine: &Engine) {
    loop {
        tokio::time::sleep(config.poll).await;
        let Some(before) = engine.machine() else { continue };
        let mut now = Machine::clone(&before);
        now.look_again(&config.root);
        if now != *before {
            log_faults(Some(&before), &now);
            engine.machine.send_replace(Some(Arc::new(now)));
        }
    }
}

fn log_faults(before: Option<&Machine>, now: &Machine) {
    for device in now.topology.all_devices().iter() {
        let was = before.and_then(|before| before.faults.get(&device));
        match now.faults.get(&device) {
            Some(why) if was != Some(why) => tracing::warn!("neuron{device} is unhealthy: {why}"),
            None if was.is_some() => tracing::info!("neuron{device} is healthy again"),
            _ => {}
        }
    }
}

/// Tells of changes in kubelet's plugin folder. Should that not work, the slow poll finds them too.
fn watch_folder(folder: &Path) -> (Option<RecommendedWatcher>, watch::Receiver<()>) {
    let changes = watch::Sender::new(());
    let receiver = changes.subscribe();
    let watcher = notify::recommended_watcher(move |_| {
        changes.send_replace(());
    })
    .and_then(|mut watcher| {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watcher {
        Ok(watcher) => (Some(watcher), receiver),
        Err(error) => {
            tracing::warn!("changes in {} are looked for by polling alone: {error}", folder.display());
            (None, receiver)
        }
    }
}
