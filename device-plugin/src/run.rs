//! Puts the plugin's parts together and ends them in the right order. Called by `main`, and by whoever runs the plugin as
//! a library.

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
use crate::hardware::discovery::Discovery;
use crate::hardware::held_lnc::HeldLnc;
use crate::hardware::monitor::{DEVICES, discover, follow_health};
use crate::healthz;
use crate::kubelet::registration::Registration;
use crate::metrics::Metrics;
use crate::report::upkeep::Upkeep;
use crate::resource::advertised;
use crate::status::Status;

/// Serves kubelet until `shutdown`. A machine without devices, an API server that is away and a kubelet that is away do not
/// end it: the log and `/healthz` name what is missing, and the plugin goes on when that is there.
///
/// # Errors
/// What no waiting heals: a catalog file that cannot be used, an address that cannot be listened on.
pub async fn run(config: Config, client: Client, shutdown: CancellationToken) -> anyhow::Result<()> {
    tracing::info!(node = config.node_name, ?config, "starting");
    let catalog = load_catalog(config.catalog.as_deref())?;
    let status = Arc::new(Status::default());
    let metrics = Arc::new(Metrics::default());
    status.starting(DEVICES);
    for resource in advertised(config.legacy_resource) {
        status.starting(resource.name);
        metrics.starting(resource.name);
    }
    let mut tasks = JoinSet::new();
    serve_health(&config, (&status, &metrics), &shutdown, &mut tasks).await?;
    let engine = Arc::new(Engine::new(&config, client.clone()));
    tasks.spawn({
        let (engine, shutdown) = (Arc::clone(&engine), shutdown.clone());
        async move { engine.pods.watch(shutdown).await }
    });
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = find_devices(&config, &catalog, &client, &engine, &status) => {}
    }
    if !shutdown.is_cancelled() {
        let upkeep = Upkeep::new(Arc::clone(&engine), &config, client);
        // Nothing is registered yet, so no allocation is open, and kubelet's assignments say what running pods hold.
        upkeep.adopt().await;
        tasks.spawn({
            let shutdown = shutdown.clone();
            async move { upkeep.run(shutdown).await }
        });
        let (_watcher, folder_changed) = watch_folder(&config.plugin_dir());
        for resource in advertised(config.legacy_resource) {
            let registration = Registration {
                resource,
                engine: Arc::clone(&engine),
                status: Arc::clone(&status),
                metrics: Arc::clone(&metrics),
                config: config.clone(),
                folder_changed: folder_changed.clone(),
            };
            tasks.spawn(registration.run(shutdown.clone()));
        }
        drop(folder_changed);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = follow_health(&config.root, config.poll, &engine.machine) => {}
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

async fn serve_health(
    config: &Config,
    (status, metrics): (&Arc<Status>, &Arc<Metrics>),
    shutdown: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let Some(address) = config.listen else { return Ok(()) };
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} (--listen)"))?;
    let (status, metrics, shutdown) = (Arc::clone(status), Arc::clone(metrics), shutdown.clone());
    tasks.spawn(async move {
        if let Err(error) = healthz::serve(listener, status, metrics, shutdown).await {
            tracing::warn!(reason = %error, "/healthz ended");
        }
    });
    Ok(())
}

async fn find_devices(config: &Config, catalog: &Catalog, client: &Client, engine: &Engine, status: &Status) {
    let discovery = Discovery {
        root: &config.root,
        catalog,
        policy: config.policy,
        instance_type: config.instance_type.as_deref(),
    };
    let held = HeldLnc::read(client, &config.node_name, &engine.pods, config.api_timeout).await;
    discover(&discovery, held.as_ref(), config.poll, &engine.machine, status).await;
}

/// Tells of changes in kubelet's plugin folder. Where it cannot be watched, polling finds them too.
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
            let folder = folder.display();
            tracing::warn!(%folder, reason = %error, "the plugin folder is not watched, only polled");
            (None, receiver)
        }
    }
}
